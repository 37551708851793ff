// Cells: a router tree cuts the space of inputs into cells, and in each cell every tree of a forest has bounds.
//
// The bounds hold for every possible input. A value of a feature is its rank among the thresholds of that feature, or
// NaN, so an infinity or a number of any size is nothing special. What a path through a tree says about its inputs is
// one range of ranks per feature and whether NaN takes the path. Where that is not exact (zeros that count as missing,
// categories), it says too much and never too little: the bounds then are wider than they have to be.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "runtime/forest_view.h"

namespace scurry {

// What is known of the value of a feature: a number with a rank in [low, high] (none if low > high), or perhaps NaN.
struct ValueRange {
  std::uint32_t low, high;
  bool nan;

  bool is_empty() const { return low > high && !nan; }
  bool meets(const ValueRange& other) const {
    return (nan && other.nan) ||
           (low <= high && other.low <= other.high && low <= other.high && other.low <= high);
  }
};

// The numeric splits of a forest on ranks: the rank of x is the number of thresholds of its feature below x.
class RankedSplits {
 public:
  explicit RankedSplits(const ForestView& forest);

  // Whether a node splits numbers by rank. Of other nodes both children stay possible.
  bool is_numeric(std::size_t node) const;
  std::size_t feature(std::size_t node) const { return static_cast<std::size_t>(forest_.feature[node]); }
  std::uint32_t rank(std::size_t feature, double x) const;
  std::uint32_t rank_of_node(std::size_t node) const { return node_rank_[node]; }
  std::span<const double> thresholds(std::size_t feature) const { return thresholds_[feature]; }
  ValueRange everything(std::size_t feature) const {
    return {0, static_cast<std::uint32_t>(thresholds_[feature].size()), true};
  }

  struct Children {
    ValueRange left, right;
  };
  // What is known of the feature of a numeric node in its children.
  Children split(std::size_t node, const ValueRange& range) const;
  bool goes_left(std::size_t node, double x) const;

 private:
  const ForestView& forest_;
  std::vector<std::vector<double>> thresholds_;  // by feature, ascending: the last numbers that go left
  std::vector<std::uint32_t> node_rank_;
};

// What a path through a tree, or through the router, says about one feature.
struct Condition {
  std::uint32_t feature;
  ValueRange range;
};

// The leaves of a forest that some input reaches, with what their paths say about inputs.
struct LeafBoxes {
  LeafBoxes(const RankedSplits& splits, const ForestView& forest, std::span<const std::int32_t> increments,
            std::size_t n_trees);

  std::span<const Condition> conditions(std::uint32_t leaf) const {
    return {all.data() + offset[leaf], offset[leaf + 1] - offset[leaf]};
  }
  // The leaves of `from` that inputs reach whose value of `feature` is in `range`.
  std::vector<std::uint32_t> reached(const std::vector<std::uint32_t>& from, std::uint32_t feature,
                                     const ValueRange& range) const;

  std::vector<std::uint32_t> tree;  // by leaf, ascending
  std::vector<std::int32_t> increment;
  std::vector<std::size_t> offset{0};
  std::vector<Condition> all;
};

// The least and the greatest of some values; none at first.
struct Spread {
  std::int32_t least = std::numeric_limits<std::int32_t>::max();
  std::int32_t most = std::numeric_limits<std::int32_t>::min();

  void add(std::int32_t value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  void add(const Spread& other) {
    least = std::min(least, other.least);
    most = std::max(most, other.most);
  }
  std::int64_t width() const { return least > most ? 0 : std::int64_t{most} - least; }
};

// What the trees of a forest, all but the last, add in each cell; the last tree is the router. Cells are numbered in the
// order of the router's leaves.
struct CellBounds {
  std::vector<std::int32_t> least, most;  // [cell][tree]
};
CellBounds bound_cells(const ForestView& forest_and_router, std::span<const std::int32_t> increments);

}  // namespace scurry
