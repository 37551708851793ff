// What rows pay for features in a forest: which nodes make a row buy which charge.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace scurry {

// A charge is paid by a row once, at the first node on any of its paths that reads one of the charge's features. A
// feature has at most two: its own and its group's; -1 is none.
struct Charges {
  std::span<const std::int32_t> of_feature;
  std::span<const std::int32_t> of_group;
  std::span<const std::int64_t> cost;
};

struct ForestPaths {
  std::span<const std::int32_t> feature;  // by node
  std::span<const std::int32_t> parent;   // by node, -1 at roots
  std::span<const std::int32_t> leaves;   // [n_rows][n_trees]
  std::size_t n_trees = 0;
};

// A charge of a row that several nodes can cause, one in each of some trees, is an item. One that a single node
// causes is part of that node's cost.
struct Items {
  std::vector<std::int64_t> offset{0};  // item i is caused by node[offset[i]:offset[i + 1]]
  std::vector<std::int32_t> node;
  std::vector<std::int64_t> cost;
  std::vector<std::int64_t> node_cost;
  std::vector<std::int64_t> visits;  // rows through each inner node, 0 at leaves
};

Items find_items(const ForestPaths& paths, const Charges& charges);

// How many nodes on each row's paths read each feature: [n_rows][n_features].
std::vector<std::int32_t> count_uses(const ForestPaths& paths, std::size_t n_features);

}  // namespace scurry
