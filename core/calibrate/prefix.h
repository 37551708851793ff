// Prefix: an order of trees whose first few predict the sum of all, and what corrects their own sum for that.
//
// Only the leaves that rows reach are known, not what they add: every tree is a partition of the rows. Sums run over
// rows in a fixed order, so results do not depend on the machine's load or on threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace scurry {

// The leaf that each row reaches in each tree, numbered from 0 on in every tree.
template <class Leaf>
struct LeafTable {
  const Leaf* leaf = nullptr;              // [n_trees][n_rows]
  std::span<const std::int64_t> offset;    // n_trees + 1: where the leaves of each tree start among all leaves
  std::span<const double> weight;          // per row
  double ridge = 0.0;                      // is added to the weight of every leaf

  std::size_t n_trees() const { return offset.size() - 1; }
  std::size_t n_rows() const { return weight.size(); }
  std::size_t n_leaves(std::size_t tree) const { return static_cast<std::size_t>(offset[tree + 1] - offset[tree]); }
  const Leaf* column(std::size_t tree) const { return leaf + tree * n_rows(); }
};

using Report = std::function<void(std::size_t n_done)>;

struct GreedyOrder {
  std::vector<std::int64_t> order;  // of all trees; those not chosen follow in their own order
  std::vector<double> gains;        // of those chosen: by how much each would lower the weighted squared residuals
};

struct GreedyTask {
  std::size_t n_steps = 0;
  double shrink = 0.5;   // share of its leaf means that a chosen tree takes from the residuals
  bool is_exact = true;  // compute every gain at every step; else most are taken from the last few steps
};

// Chooses tree by tree the one whose leaf means explain most of `residual`, which is left with what none explains.
// Calls `report` after each step. An exception that it throws ends the search.
template <class Leaf>
GreedyOrder greedy_order(const LeafTable<Leaf>& table, const GreedyTask& task, std::span<double> residual,
                         const Report& report);

// Fits what to add to the leaves of `trees` so that their sum comes closer to the target, of which `residual` is what
// is left. Returns the corrections of all leaves, 0 in trees that are not named. Calls `report` after each sweep.
template <class Leaf>
std::vector<double> refit_leaves(const LeafTable<Leaf>& table, std::span<const std::int64_t> trees,
                                 std::size_t n_sweeps, double rate, std::span<double> residual, const Report& report);

extern template GreedyOrder greedy_order(const LeafTable<std::uint8_t>&, const GreedyTask&, std::span<double>,
                                         const Report&);
extern template GreedyOrder greedy_order(const LeafTable<std::uint16_t>&, const GreedyTask&, std::span<double>,
                                         const Report&);
extern template std::vector<double> refit_leaves(const LeafTable<std::uint8_t>&, std::span<const std::int64_t>,
                                                 std::size_t, double, std::span<double>, const Report&);
extern template std::vector<double> refit_leaves(const LeafTable<std::uint16_t>&, std::span<const std::int64_t>,
                                                 std::size_t, double, std::span<double>, const Report&);

}  // namespace scurry
