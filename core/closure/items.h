// What rows pay for features in a forest: which nodes make a row pay which charge.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace scurry {

// A row pays a charge once, at the first node on any of its paths that reads a feature of the charge. A feature has at
// most two charges, its own and that of its group; -1 is none.
struct Charges {
  std::span<const std::int32_t> of_feature;
  std::span<const std::int32_t> of_group;
  std::size_t n_charges = 0;
};

struct ForestPaths {
  std::span<const std::int32_t> feature;  // by node
  std::span<const std::int32_t> parent;   // by node, -1 at roots
  std::span<const std::int32_t> leaves;   // [n_rows][n_trees]
  std::size_t n_trees = 0;
};

// Charges that several nodes can cause, one in each of some trees, and the number of rows for which they do. Items are
// distinct and sorted by charge and nodes, so that rows in any order make the same items.
struct Items {
  std::vector<std::int64_t> offset{0};  // item i is caused by node[offset[i]:offset[i + 1]]
  std::vector<std::int32_t> node;
  std::vector<std::int32_t> charge;
  std::vector<std::int64_t> n_rows;

  std::size_t size() const { return charge.size(); }
};

struct RowCharges {
  Items items;
  std::vector<std::int64_t>
      alone;  // [n_nodes][2]: rows for which this node alone causes the charge of its feature, of its group
  std::vector<std::int64_t> visits;  // rows through each inner node, 0 at leaves
};

RowCharges find_charges(const ForestPaths& paths, const Charges& charges);

// The items of all rows of both.
Items merge(const Items& one, const Items& other);

// How many nodes on each row's paths read each feature: [n_rows][n_features].
std::vector<std::int32_t> count_uses(const ForestPaths& paths, std::size_t n_features);

}  // namespace scurry
