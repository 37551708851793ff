// Finds what inputs reach which leaves, and the bounds of cells.
#include "calibrate/cells.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "runtime/columns.h"
#include "runtime/interrupt.h"

namespace scurry {
namespace {

void set_range(std::vector<Condition>& conditions, std::uint32_t feature, const ValueRange& range) {
  for (Condition& condition : conditions) {
    if (condition.feature != feature) continue;
    condition.range = range;
    return;
  }
  conditions.push_back({feature, range});
}

}  // namespace

RankedSplits::RankedSplits(const ForestView& forest)
    : forest_(forest), thresholds_(forest.n_features), node_rank_(forest.n_nodes()) {
  for (std::size_t node = 0; node < forest.n_nodes(); ++node) {
    if (is_numeric(node)) thresholds_[feature(node)].push_back(last_left(forest, forest.threshold[node]));
  }
  for (std::vector<double>& sorted : thresholds_) {
    std::ranges::sort(sorted);
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  }
  for (std::size_t node = 0; node < forest.n_nodes(); ++node) {
    if (is_numeric(node)) node_rank_[node] = rank(feature(node), last_left(forest, forest.threshold[node]));
  }
}

bool RankedSplits::is_numeric(std::size_t node) const {
  return forest_.left[node] >= 0 && forest_.category_set[node] < 0 && sends_left(forest_, forest_.threshold[node]);
}

std::uint32_t RankedSplits::rank(std::size_t feature, double x) const {
  const std::vector<double>& sorted = thresholds_[feature];
  return static_cast<std::uint32_t>(std::ranges::lower_bound(sorted, x) - sorted.begin());
}

RankedSplits::Children RankedSplits::split(std::size_t node, const ValueRange& range) const {
  const std::uint32_t last = node_rank_[node];  // of the numbers that go left
  const bool default_left = forest_.default_left[node] != 0;
  ValueRange left{range.low, std::min(range.high, last), range.nan && default_left};
  ValueRange right{std::max(range.low, last + 1), range.high, range.nan && !default_left};
  switch (static_cast<MissingKind>(forest_.missing[node])) {
    case MissingKind::kNan: break;
    case MissingKind::kNothing:  // NaN is read as 0
      left.nan = range.nan && rank(feature(node), 0.0) <= last;
      right.nan = range.nan && !left.nan;
      break;
    case MissingKind::kNanAndZero: {
      // Zeros follow NaN. A side that they enter is widened up to them, and the other one is left as it is.
      const std::uint32_t first_zero = std::max(range.low, rank(feature(node), -kZeroThreshold));
      const std::uint32_t last_zero = std::min(range.high, rank(feature(node), kZeroThreshold));
      if (first_zero > last_zero) break;
      if (default_left) {
        left.high = std::max(left.high, last_zero);
      } else {
        right.low = std::min(right.low, first_zero);
      }
    }
  }
  return {left, right};
}

bool RankedSplits::goes_left(std::size_t node, double x) const {
  const auto missing = static_cast<MissingKind>(forest_.missing[node]);
  const bool is_zero = missing == MissingKind::kNanAndZero && std::fabs(x) <= kZeroThreshold;
  if (x != x && missing == MissingKind::kNothing) x = 0.0;
  if (x != x || is_zero) return forest_.default_left[node] != 0;
  return x <= last_left(forest_, forest_.threshold[node]);
}

LeafBoxes::LeafBoxes(const RankedSplits& splits, const ForestView& forest, std::span<const std::int32_t> increments,
                     std::size_t n_trees) {
  std::vector<std::pair<std::int64_t, std::vector<Condition>>> open;
  for (std::size_t t = 0; t < n_trees; ++t) {
    poll_interrupt_now_and_then();
    open.emplace_back(forest.tree_offset[t], std::vector<Condition>());
    while (!open.empty()) {
      auto [at, path] = std::move(open.back());
      open.pop_back();
      const auto node = static_cast<std::size_t>(at);
      if (forest.left[node] < 0) {
        tree.push_back(static_cast<std::uint32_t>(t));
        increment.push_back(increments[node]);
        all.insert(all.end(), path.begin(), path.end());
        offset.push_back(all.size());
        continue;
      }
      if (!splits.is_numeric(node)) {  // categories, say, are not tracked: both ways stay possible
        open.emplace_back(forest.right[node], path);
        open.emplace_back(forest.left[node], std::move(path));
        continue;
      }
      const auto feature = static_cast<std::uint32_t>(forest.feature[node]);
      ValueRange range = splits.everything(feature);
      for (const Condition& condition : path) {
        if (condition.feature == feature) range = condition.range;
      }
      const auto [left, right] = splits.split(node, range);
      if (!right.is_empty()) {
        open.emplace_back(forest.right[node], path);
        set_range(open.back().second, feature, right);
      }
      if (!left.is_empty()) {
        set_range(path, feature, left);
        open.emplace_back(forest.left[node], std::move(path));
      }
    }
  }
}

std::vector<std::uint32_t> LeafBoxes::reached(const std::vector<std::uint32_t>& from, std::uint32_t feature,
                                              const ValueRange& range) const {
  std::vector<std::uint32_t> leaves;
  for (const std::uint32_t leaf : from) {
    const auto of_leaf = conditions(leaf);
    if (std::ranges::all_of(of_leaf, [&](const Condition& c) { return c.feature != feature || c.range.meets(range); })) {
      leaves.push_back(leaf);
    }
  }
  return leaves;
}

CellBounds bound_cells(const ForestView& forest, std::span<const std::int32_t> increments) {
  const std::size_t n_trees = forest.n_trees() - 1;
  const RankedSplits splits(forest);
  const LeafBoxes boxes(splits, forest, increments, n_trees);
  struct Part {
    std::size_t node;
    std::vector<Condition> known;
    std::vector<std::uint32_t> leaves;
  };
  const auto root = static_cast<std::size_t>(forest.tree_offset[n_trees]);
  std::vector<std::size_t> place(forest.n_nodes() - root);  // of the cells, by node of the router
  std::size_t n_cells = 0;
  for (std::size_t node = root; node < forest.n_nodes(); ++node) {
    if (forest.left[node] < 0) place[node - root] = n_cells++;
  }
  CellBounds bounds{std::vector<std::int32_t>(n_cells * n_trees), std::vector<std::int32_t>(n_cells * n_trees)};
  std::vector<Part> open;
  open.push_back({root, {}, std::vector<std::uint32_t>(boxes.tree.size())});
  std::iota(open[0].leaves.begin(), open[0].leaves.end(), 0u);
  while (!open.empty()) {
    poll_interrupt_now_and_then();
    const Part part = std::move(open.back());
    open.pop_back();
    if (forest.left[part.node] >= 0) {
      const auto feature = static_cast<std::uint32_t>(splits.feature(part.node));
      ValueRange range = splits.everything(feature);
      for (const Condition& condition : part.known) {
        if (condition.feature == feature) range = condition.range;
      }
      const auto [left, right] = splits.split(part.node, range);
      for (const auto& [child, of_child] : {std::pair(forest.left[part.node], left), {forest.right[part.node], right}}) {
        open.push_back({static_cast<std::size_t>(child), part.known, boxes.reached(part.leaves, feature, of_child)});
        set_range(open.back().known, feature, of_child);
      }
      continue;
    }
    // A tree none of whose leaves is reached says that no input reaches the cell, which then may have any bounds.
    std::vector<Spread> of_tree(n_trees);
    for (const std::uint32_t leaf : part.leaves) of_tree[boxes.tree[leaf]].add(boxes.increment[leaf]);
    for (std::size_t t = 0; t < n_trees; ++t) {
      if (of_tree[t].least > of_tree[t].most) continue;
      bounds.least[place[part.node - root] * n_trees + t] = of_tree[t].least;
      bounds.most[place[part.node - root] * n_trees + t] = of_tree[t].most;
    }
  }
  return bounds;
}

}  // namespace scurry
