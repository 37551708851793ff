// Finds routers: cells are split where that makes the ranges of trees smallest.
#include "calibrate/router.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "calibrate/cells.h"
#include "runtime/interrupt.h"

namespace scurry {
namespace {

constexpr std::size_t kMaxFeatures = 16, kMaxSplits = 7;  // tried for a cell
constexpr std::size_t kSampledRows = 256;                 // of a cell, for the quantiles at which it may be split
constexpr std::size_t kMaxListedLeaves = std::size_t{1} << 26;  // over all cells: 256 MiB
constexpr std::size_t kNarrowingTrees = 64;                     // that a drawn row passes

struct Cell {
  std::int32_t node;  // of the router
  std::size_t depth;
  std::vector<std::uint32_t> rows, leaves;
  std::int64_t width;  // summed over trees

  std::int64_t size() const { return static_cast<std::int64_t>(rows.size()) * width; }
  // The cells that are split first are the largest; of equal ones, the oldest.
  bool operator<(const Cell& other) const {
    return size() != other.size() ? size() < other.size() : node > other.node;
  }
};

// A split of a cell that is tried.
struct Candidate {
  std::size_t node;  // of the forest
  ValueRange left, right;
  Spread left_tree, right_tree;          // of the tree at hand
  std::int64_t left_width, right_width;    // summed over trees
};

class RouterSearch {
 public:
  explicit RouterSearch(const RouterTask& task)
      : task_(task),
        splits_(task.forest),
        boxes_(splits_, task.forest, task.increments, task.forest.n_trees()),
        node_of_(task.forest.n_features),
        ranges_(task.forest.n_features),
        slot_of_(task.forest.n_features, kMaxFeatures),
        n_cuts_(task.forest.n_features) {
    for (std::size_t f = 0; f < node_of_.size(); ++f) node_of_[f].assign(splits_.thresholds(f).size(), -1);
    for (std::size_t node = task.forest.n_nodes(); node-- > 0;) {
      if (!splits_.is_numeric(node)) continue;
      node_of_[splits_.feature(node)][splits_.rank_of_node(node)] = static_cast<std::int32_t>(node);
    }
  }

  Router run(const std::function<void(std::size_t)>& progress);

 private:
  std::int32_t add_node(std::int32_t parent) {
    router_.source.push_back(-1);
    router_.left.push_back(-1);
    router_.right.push_back(-1);
    parent_.push_back(parent);
    return static_cast<std::int32_t>(parent_.size()) - 1;
  }
  std::int64_t width_of(const std::vector<std::uint32_t>& leaves) const;
  void find_ranges(std::int32_t node);
  void choose_features(const Cell& cell);
  void choose_candidates(const Cell& cell);
  void measure(const Cell& cell);
  std::int32_t best_split(const Cell& cell);  // a node of the forest, -1 if none makes the cell smaller
  double value(std::uint32_t row, std::size_t feature) const {
    return task_.rows[row * task_.forest.n_features + feature];
  }

  const RouterTask& task_;
  RankedSplits splits_;
  LeafBoxes boxes_;
  std::vector<std::vector<std::int32_t>> node_of_;  // by feature and rank: the first node with this split
  Router router_;
  std::vector<std::int32_t> parent_;
  // Of the cell at hand:
  std::vector<ValueRange> ranges_;      // by feature
  std::vector<std::size_t> slot_of_;    // by feature: its place among the features tried
  std::vector<std::size_t> n_cuts_;     // by feature
  std::vector<std::uint32_t> features_; // tried, by slot
  std::vector<std::vector<Candidate>> candidates_;  // by slot
};

std::int64_t RouterSearch::width_of(const std::vector<std::uint32_t>& leaves) const {
  std::int64_t width = 0;
  for (std::size_t first = 0, at = 0; first < leaves.size(); first = at) {
    Spread extremes;
    for (; at < leaves.size() && boxes_.tree[leaves[at]] == boxes_.tree[leaves[first]]; ++at) {
      extremes.add(boxes_.increment[leaves[at]]);
    }
    width += extremes.width();
  }
  return width;
}

// Finds what is known of every feature at a node of the router.
void RouterSearch::find_ranges(std::int32_t node) {
  for (std::size_t f = 0; f < ranges_.size(); ++f) ranges_[f] = splits_.everything(f);
  std::vector<std::int32_t> path;
  for (; node >= 0; node = parent_[node]) path.push_back(node);
  for (std::size_t i = path.size(); i-- > 1;) {
    const auto source = static_cast<std::size_t>(router_.source[path[i]]);
    ValueRange& range = ranges_[splits_.feature(source)];
    const auto [left, right] = splits_.split(source, range);
    range = router_.left[path[i]] == path[i - 1] ? left : right;
  }
}

// Chooses the features that cut most leaves of the cell.
void RouterSearch::choose_features(const Cell& cell) {
  for (const std::uint32_t f : features_) slot_of_[f] = kMaxFeatures;
  std::fill(n_cuts_.begin(), n_cuts_.end(), 0);
  for (const std::uint32_t leaf : cell.leaves) {
    for (const auto& [f, range] : boxes_.conditions(leaf)) {
      n_cuts_[f] += range.low > ranges_[f].low || range.high < ranges_[f].high;
    }
  }
  features_.clear();
  for (std::uint32_t f = 0; f < n_cuts_.size(); ++f) {
    if (n_cuts_[f] > 0) features_.push_back(f);
  }
  std::ranges::stable_sort(features_, [&](auto a, auto b) { return n_cuts_[a] > n_cuts_[b]; });
  features_.resize(std::min(features_.size(), kMaxFeatures));
  for (std::size_t slot = 0; slot < features_.size(); ++slot) slot_of_[features_[slot]] = slot;
}

// Chooses the splits that are tried: at quantiles of the cell's rows.
void RouterSearch::choose_candidates(const Cell& cell) {
  candidates_.assign(features_.size(), {});
  const std::size_t n = cell.rows.size(), n_sampled = std::min(n, kSampledRows);
  std::vector<std::uint32_t> ranks, chosen;
  for (std::size_t slot = 0; slot < features_.size(); ++slot) {
    const std::uint32_t f = features_[slot];
    ranks.clear();
    for (std::size_t i = 0; i < n_sampled; ++i) {
      const double x = value(cell.rows[i * n / n_sampled], f);
      if (x == x) ranks.push_back(splits_.rank(f, x));
    }
    if (ranks.empty()) continue;
    std::ranges::sort(ranks);
    chosen.clear();
    for (std::size_t q = 1; q <= kMaxSplits; ++q) {
      const std::uint32_t rank = ranks[q * ranks.size() / (kMaxSplits + 1)];
      const auto cuts = [&](std::uint32_t r) { return r >= ranges_[f].low && r < ranges_[f].high; };
      if (cuts(rank)) {
        chosen.push_back(rank);
      } else if (rank > 0 && cuts(rank - 1)) {
        chosen.push_back(rank - 1);
      }
    }
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    for (const std::uint32_t rank : chosen) {
      const auto node = static_cast<std::size_t>(node_of_[f][rank]);
      const auto [left, right] = splits_.split(node, ranges_[f]);
      candidates_[slot].push_back({node, left, right, {}, {}, cell.width, cell.width});
    }
  }
}

// Finds the widths of both children of each candidate.
void RouterSearch::measure(const Cell& cell) {
  std::vector<std::uint32_t> masks;  // of the leaves of a tree: slots that their conditions are about
  const auto& leaves = cell.leaves;
  for (std::size_t first = 0, end = 0; first < leaves.size(); first = end) {
    std::uint32_t touched = 0;
    Spread tree;
    masks.clear();
    for (; end < leaves.size() && boxes_.tree[leaves[end]] == boxes_.tree[leaves[first]]; ++end) {
      std::uint32_t mask = 0;
      for (const Condition& c : boxes_.conditions(leaves[end])) {
        if (slot_of_[c.feature] < kMaxFeatures) mask |= 1u << slot_of_[c.feature];
      }
      masks.push_back(mask);
      touched |= mask;
      tree.add(boxes_.increment[leaves[end]]);
    }
    if (tree.width() == 0) continue;
    std::array<Spread, kMaxFeatures> elsewhere;  // of the leaves that say nothing about a feature
    for (std::uint32_t left = touched; left != 0; left &= left - 1) {
      for (Candidate& candidate : candidates_[static_cast<std::size_t>(std::countr_zero(left))]) {
        candidate.left_tree = candidate.right_tree = {};
      }
    }
    for (std::size_t at = first; at < end; ++at) {
      const std::int32_t increment = boxes_.increment[leaves[at]];
      for (const Condition& c : boxes_.conditions(leaves[at])) {
        if (slot_of_[c.feature] == kMaxFeatures) continue;
        for (Candidate& candidate : candidates_[slot_of_[c.feature]]) {
          if (c.range.meets(candidate.left)) candidate.left_tree.add(increment);
          if (c.range.meets(candidate.right)) candidate.right_tree.add(increment);
        }
      }
      for (std::uint32_t left = touched & ~masks[at - first]; left != 0; left &= left - 1) {
        elsewhere[static_cast<std::size_t>(std::countr_zero(left))].add(increment);
      }
    }
    for (std::uint32_t left = touched; left != 0; left &= left - 1) {
      const auto slot = static_cast<std::size_t>(std::countr_zero(left));
      for (Candidate& candidate : candidates_[slot]) {
        candidate.left_tree.add(elsewhere[slot]);
        candidate.right_tree.add(elsewhere[slot]);
        candidate.left_width += candidate.left_tree.width() - tree.width();
        candidate.right_width += candidate.right_tree.width() - tree.width();
      }
    }
  }
}

std::int32_t RouterSearch::best_split(const Cell& cell) {
  find_ranges(cell.node);
  choose_features(cell);
  choose_candidates(cell);
  measure(cell);
  std::int64_t best = cell.size();
  std::int32_t node = -1;
  for (const auto& of_feature : candidates_) {
    for (const Candidate& candidate : of_feature) {
      std::int64_t n_left = 0;
      const std::size_t f = splits_.feature(candidate.node);
      for (const std::uint32_t row : cell.rows) n_left += splits_.goes_left(candidate.node, value(row, f));
      const std::int64_t n_right = static_cast<std::int64_t>(cell.rows.size()) - n_left;
      const std::int64_t size = n_left * candidate.left_width + n_right * candidate.right_width;
      if (size >= best) continue;
      best = size;
      node = static_cast<std::int32_t>(candidate.node);
    }
  }
  return node;
}

Router RouterSearch::run(const std::function<void(std::size_t)>& progress) {
  Cell whole{add_node(-1), 0, std::vector<std::uint32_t>(task_.n_rows), std::vector<std::uint32_t>(boxes_.tree.size()), 0};
  std::iota(whole.rows.begin(), whole.rows.end(), 0u);
  std::iota(whole.leaves.begin(), whole.leaves.end(), 0u);
  whole.width = width_of(whole.leaves);
  std::priority_queue<Cell> cells;
  std::size_t n_cells = 1, n_listed = whole.leaves.size();
  cells.push(std::move(whole));
  while (!cells.empty() && n_cells < task_.n_cells && n_listed < kMaxListedLeaves) {
    const Cell cell = std::move(const_cast<Cell&>(cells.top()));  // it is popped next
    cells.pop();
    n_listed -= cell.leaves.size();
    if (cell.size() == 0) break;
    const std::int32_t split = cell.depth < kMaxRouterDepth ? best_split(cell) : -1;
    if (split < 0) continue;
    const std::int32_t left = add_node(cell.node), right = add_node(cell.node);
    router_.source[cell.node] = split;
    router_.left[cell.node] = left;
    router_.right[cell.node] = right;
    const auto source = static_cast<std::size_t>(split);
    const auto feature = static_cast<std::uint32_t>(splits_.feature(source));
    const auto ranges = splits_.split(source, ranges_[feature]);
    for (const bool goes_left : {true, false}) {
      Cell child{goes_left ? left : right, cell.depth + 1, {}, {}, 0};
      std::ranges::copy_if(cell.rows, std::back_inserter(child.rows), [&](std::uint32_t row) {
        return splits_.goes_left(source, value(row, feature)) == goes_left;
      });
      child.leaves = boxes_.reached(cell.leaves, feature, goes_left ? ranges.left : ranges.right);
      child.width = width_of(child.leaves);
      n_listed += child.leaves.size();
      cells.push(std::move(child));
    }
    progress(++n_cells);
  }
  return std::move(router_);
}

}  // namespace

Router find_router(const RouterTask& task, const std::function<void(std::size_t)>& progress) {
  return RouterSearch(task).run(progress);
}

std::vector<double> draw_rows(const ForestView& forest, std::span<const double> cover, std::size_t n_rows,
                              std::uint64_t seed) {
  const RankedSplits splits(forest);
  const std::size_t n_features = forest.n_features, n_trees = forest.n_trees();
  std::vector<double> rows(n_rows * n_features);
  std::vector<ValueRange> ranges(n_features);
  const auto draw = [&seed] {  // SplitMix64
    std::uint64_t x = seed += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-53;
  };
  for (std::size_t row = 0; row < n_rows; ++row) {
    poll_interrupt_now_and_then();
    for (std::size_t f = 0; f < n_features; ++f) {
      ranges[f] = splits.everything(f);
      ranges[f].nan = false;
    }
    for (std::size_t i = 0; i < std::min(n_trees, kNarrowingTrees); ++i) {
      const auto t = static_cast<std::size_t>(draw() * static_cast<double>(n_trees));
      for (auto node = static_cast<std::size_t>(forest.tree_offset[t]); forest.left[node] >= 0;) {
        const auto left = static_cast<std::size_t>(forest.left[node]), right = static_cast<std::size_t>(forest.right[node]);
        const double share = cover[left] / (cover[left] + cover[right]);
        bool goes_left = draw() < (share >= 0 && share <= 1 ? share : 0.5);
        if (splits.is_numeric(node)) {
          ValueRange& range = ranges[splits.feature(node)];
          const auto children = splits.split(node, range);
          const bool can_left = children.left.low <= children.left.high;
          const bool can_right = children.right.low <= children.right.high;
          goes_left = can_left && (goes_left || !can_right);
          range = goes_left ? children.left : children.right;
        }
        node = goes_left ? left : right;
      }
    }
    for (std::size_t f = 0; f < n_features; ++f) {
      const auto thresholds = splits.thresholds(f);
      const auto span = static_cast<double>(ranges[f].high - ranges[f].low) + 1.0;
      const std::size_t rank = ranges[f].low + static_cast<std::size_t>(draw() * span);
      rows[row * n_features + f] =
          rank < thresholds.size() ? thresholds[rank] : std::numeric_limits<double>::infinity();
    }
  }
  return rows;
}

}  // namespace scurry
