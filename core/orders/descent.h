// Descent: labelled rows on their way down the trees of a forest, one tree step at a time, as searches for step orders
// see them.
//
// All searches of orders/ work on a Descent. Position evaluates a given order. Squirrel is the greedy search; it looks
// one step ahead with SingleRows (one margin per row) or RivalRows (several). Grid computes the losses of all states,
// through which optimal_order() finds the shortest path. beam_order() and refined_order() search with the smooth score
// of Scorer.
//
// All sums are integers (fixed point, scaled by the caller so that none exceeds 2^29): whatever the order of the steps,
// equal states have equal sums, and ties are exact. A row of class y has a margin against every class c,
//   M_c = 2 (S_y - S_c) + (y wins ties against c ? 1 : -1),
// and is right iff all are positive. Two classes need one margin. More classes have one margin each; the margin against
// the row's own class is kOwnMargin, which is always positive. A row of a regressor has one margin, the residual S - y.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "kernels/kernels.h"

namespace scurry {

struct DescentInput {
  std::span<const std::int64_t> tree_offset;  // [n_trees + 1]
  std::span<const std::int32_t> left, right;  // [n_nodes], -1 at leaves
  std::span<const std::int32_t> level;        // [n_nodes] which step of its tree reaches a node, 0 if none does
  std::span<const std::int32_t> change;       // [n_nodes][n_outputs] what that step adds to the sums
  std::span<const std::int32_t> leaf;         // [n_rows][n_trees] the node where each row ends
  std::span<const std::int32_t> target;       // [n_rows] class, or value of a regressor
  std::span<const std::int32_t> start;        // [n_outputs] the sums before the first step
  bool regression = false;
  bool last_class_wins_ties = false;  // else the first
};

class Descent {
 public:
  static constexpr std::int32_t kOwnMargin = std::numeric_limits<std::int32_t>::max();

  explicit Descent(const DescentInput& input);

  std::size_t n_rows() const { return row_order_.size(); }
  std::size_t n_trees() const { return depth_.size(); }
  std::size_t n_steps() const { return step_begin_.size() - 1; }
  std::size_t n_margins() const { return n_margins_; }
  std::size_t n_leaves() const { return leaf_begin_.back(); }
  std::size_t n_changes() const { return reach_.size(); }
  std::size_t depth(std::size_t tree) const { return depth_[tree]; }
  bool regression() const { return regression_; }

  // Rows are sorted by class: those of y are [class_begin(y), class_begin(y + 1)). Leaves are numbered over all trees,
  // from left to right in each.
  std::size_t class_begin(std::size_t y) const { return class_begin_[y]; }
  const std::uint32_t* leaves(std::size_t tree) const { return &leaf_[tree * n_rows()]; }

  std::pair<std::uint32_t, std::uint32_t> leaf_range(std::size_t tree) const {
    return {leaf_begin_[tree], leaf_begin_[tree + 1]};
  }

  // Margins before the first step, [row][margin]; and those of any row of class y, unless this is a regressor.
  std::vector<std::int32_t> start() const;
  std::vector<std::int32_t> start_of(std::size_t y) const;

  // Writes the change that the step of `tree` to `level` makes to the rows of each of its leaves into
  // change_of_leaf[n_leaves()].
  void read_step(std::size_t tree, std::size_t level, std::uint32_t* change_of_leaf) const;

  TreeChanges changes_of(std::size_t tree) const {
    return {reach_.data(), step_begin_[first_step_[tree]], step_begin_[first_step_[tree + 1]], leaf_begin_[tree]};
  }

  // Calls visit(leaf, change) for every leaf of a tree and each step on the way to it that changes anything.
  template <class Visit>
  void for_each_change(std::size_t tree, Visit visit) const {
    const std::size_t end = step_begin_[first_step_[tree + 1]];
    for (std::size_t at = step_begin_[first_step_[tree]]; at < end; ++at) {
      const auto [first, count] = reach_[at];
      for (std::size_t leaf = first; leaf < first + count; ++leaf) visit(leaf, static_cast<std::uint32_t>(at));
    }
  }

  // out[row - first][margin] = what that step adds to the margins of rows [first, first + n).
  void changes(std::size_t tree, const std::uint32_t* change_of_leaf, std::size_t first, std::size_t n,
               std::int32_t* out) const;

  // What a change adds to the margin of the first class if there is one margin, else to the sum of each class. There is
  // one more change after the last, which adds nothing.
  const std::int32_t* change(std::uint32_t index) const { return &change_[index * n_margins_]; }

 private:
  void sort_rows(const DescentInput& input);
  void number_leaves(const DescentInput& input);
  void list_steps(const DescentInput& input, const std::vector<std::uint32_t>& first_leaf,
                  const std::vector<std::uint32_t>& leaf_count);

  bool regression_, last_class_wins_ties_;
  std::size_t n_margins_;
  std::vector<std::uint32_t> row_order_;  // the caller's row at each place
  std::vector<std::size_t> class_begin_;
  std::vector<std::int32_t> target_;       // regression only
  std::vector<std::int32_t> start_;        // [n_outputs]
  std::vector<std::uint32_t> leaf_;        // [tree][row]
  std::vector<std::uint32_t> leaf_begin_;  // [tree + 1]
  std::vector<std::size_t> depth_;         // [tree]
  std::vector<std::size_t> first_step_;    // [tree + 1]
  std::vector<std::size_t> step_begin_;    // changes of step s are [step_begin_[s], step_begin_[s + 1])
  std::vector<LeafRange> reach_;           // [change] the leaves below the node it leads to
  std::vector<std::int32_t> change_;       // [change + 1][n_margins], the last one being 0
};

}  // namespace scurry
