// ForestView: pointers into the arrays of a forest that Python holds, valid while an Engine is built; RowsView
// likewise.
//
// Splits and leaves are read by entries. In a forest as Python has it, these are its nodes, and arrays have one number for
// each. In a packed one they are the rows of two tables, distinct leaves and then distinct splits; arrays of splits are
// empty, for_each_split() reads them as they lie in the file, and read_tree() says which entry each node of a tree has. So
// what is derived from splits and leaves is derived once for each that is distinct.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>

#include "packed/packed_forest.h"
#include "packed/thresholds.h"

namespace scurry {

enum class Aggregation : std::uint8_t { kMean, kVote, kSum };
enum class Link : std::uint8_t { kIdentity, kLogistic, kSoftmax, kLogisticEach, kExp, kSignedSquare, kLog1pExp, kStep };
enum class MissingKind : std::uint8_t { kNan = 0, kNanAndZero = 1, kNothing = 2 };

struct Split {
  std::uint32_t feature;
  double threshold;
  bool default_left;
  MissingKind missing;
  std::int32_t category_set;  // -1: none
};

// The distinct splits of a packed forest. What all of them have in common is there once.
struct PackedSplits {
  PackedThresholds thresholds;
  std::span<const std::uint32_t> feature_used;
  std::span<const std::uint8_t> default_left, missing;
  std::span<const std::int32_t> category_set;

  // Throws if parts have other sizes than so many splits.
  void check(std::size_t n_splits) const {
    const auto fits = [&](const auto& column) { return column.size() == 1 || column.size() == n_splits; };
    if (check_sizes(thresholds) != n_splits || feature_used.size() != thresholds.feature_splits.size() ||
        !fits(default_left) || !fits(missing) || !fits(category_set)) {
      throw std::invalid_argument("parts of splits have different sizes");
    }
  }
};

// Values of distinct leaves of a packed forest, [n][n_columns], in one of the types of files. Counts become values by
// dividing them by their sum.
struct PackedLeaves {
  enum class Type : std::uint8_t { kUint8, kUint16, kUint32, kFloat, kDouble };

  const void* data = nullptr;
  Type type = Type::kDouble;
  bool are_counts = false;

  void read(std::size_t leaf, std::size_t n_columns, double* value) const {
    const auto copy = [&]<class T>(const T* table) { std::copy_n(table + leaf * n_columns, n_columns, value); };
    switch (type) {
      case Type::kUint8: copy(static_cast<const std::uint8_t*>(data)); break;
      case Type::kUint16: copy(static_cast<const std::uint16_t*>(data)); break;
      case Type::kUint32: copy(static_cast<const std::uint32_t*>(data)); break;
      case Type::kFloat: copy(static_cast<const float*>(data)); break;
      case Type::kDouble: copy(static_cast<const double*>(data)); break;
    }
    if (!are_counts) return;
    const double sum = std::accumulate(value, value + n_columns, 0.0);  // exact, as sums of whole numbers are
    std::transform(value, value + n_columns, value, [=](double count) { return count / sum; });
  }
};

struct ForestView {
  std::span<const std::int64_t> tree_offset;
  std::span<const std::int32_t> feature, left, right, category_set;
  std::span<const double> threshold;
  std::span<const std::uint8_t> default_left, missing;
  const double* value = nullptr;  // [n_nodes][n_columns], if it is not packed
  std::size_t n_columns = 0;
  std::span<const std::int32_t> tree_output;
  std::span<const double> base_score;
  std::span<const std::int64_t> category_offset;
  std::span<const std::uint32_t> category_bits;

  std::size_t n_features = 0;
  std::size_t n_classes = 0;  // 0: a regressor
  Aggregation aggregation = Aggregation::kMean;
  bool float32_input = true;
  bool float32_score = false;
  bool strict_comparison = false;  // left iff x < threshold
  bool label_from_score = false;
  bool truncate_categories = false;
  Link link = Link::kIdentity;
  double link_scale = 1.0;
  double decision_threshold = 0.0;
  const PackedForest* packed = nullptr;
  PackedSplits splits;  // these two if it is packed
  PackedLeaves leaves;

  std::size_t n_trees() const { return tree_offset.size() - 1; }
  std::size_t n_nodes() const { return feature.size(); }  // not if it is packed
  std::size_t n_entries() const { return packed == nullptr ? n_nodes() : packed->n_leaves() + packed->n_splits(); }
  std::size_t end_of_leaves() const { return packed == nullptr ? n_nodes() : packed->n_leaves(); }  // among entries
  std::size_t n_outputs() const { return base_score.size(); }

  // What a node says, or any leaf of a packed forest.
  void read_value(std::size_t entry, double* out) const {
    if (packed != nullptr) return leaves.read(entry, n_columns, out);
    std::copy_n(value + entry * n_columns, n_columns, out);
  }
};

// Calls visit(entry) for every leaf.
template <class Visit>
void for_each_leaf(const ForestView& forest, Visit visit) {
  for (std::size_t entry = 0; entry < forest.end_of_leaves(); ++entry) {
    if (forest.packed != nullptr || forest.left[entry] < 0) visit(entry);
  }
}

// Calls visit(entry, split) for every split, in the order of entries, until it returns false. Runs of splits of a packed
// forest that are alike but for their thresholds and where missing values go are first offered to visit_run(entry, first
// split, thresholds, default_left, step of default_left), and visited one by one if it returns false.
template <class Visit, class VisitRun>
void for_each_split(const ForestView& forest, Visit visit, VisitRun visit_run) {
  if (forest.packed == nullptr) {
    for (std::size_t node = 0; node < forest.n_nodes(); ++node) {
      if (forest.left[node] < 0) continue;
      const Split split{static_cast<std::uint32_t>(forest.feature[node]), forest.threshold[node],
                        forest.default_left[node] != 0, static_cast<MissingKind>(forest.missing[node]),
                        forest.category_set[node]};
      if (!visit(node, split)) return;
    }
    return;
  }
  const PackedSplits& splits = forest.splits;
  const std::size_t first = forest.packed->n_leaves();
  const auto step = [](const auto& column) { return std::size_t{column.size() > 1}; };
  const std::size_t step_left = step(splits.default_left), step_missing = step(splits.missing);
  const std::size_t step_set = step(splits.category_set);
  const auto split_at = [&](std::size_t split, std::size_t feature, double threshold) __attribute__((always_inline)) {
    return Split{splits.feature_used[feature], threshold, splits.default_left[split * step_left] != 0,
                 static_cast<MissingKind>(splits.missing[split * step_missing]), splits.category_set[split * step_set]};
  };
  const bool are_alike = step_missing == 0 && step_set == 0;
  for_each_run(splits.thresholds, [&](std::size_t at, std::size_t feature, std::span<const double> run)
                                      __attribute__((always_inline)) {
    if (are_alike && visit_run(first + at, split_at(at, feature, run[0]), run, &splits.default_left[at * step_left],
                               step_left)) {
      return true;
    }
    for (const double threshold : run) {
      if (!visit(first + at, split_at(at, feature, threshold))) return false;
      ++at;
    }
    return true;
  });
}

template <class Visit>
void for_each_split(const ForestView& forest, Visit visit) {
  for_each_split(forest, visit, [](auto&&...) { return false; });
}

// Reads the nodes of a tree, packed or not.
inline void read_tree(const ForestView& forest, std::size_t tree, TreeNodes& out) {
  if (forest.packed != nullptr) return forest.packed->read(tree, out);
  const std::int64_t first = forest.tree_offset[tree];
  out.resize(static_cast<std::size_t>(forest.tree_offset[tree + 1] - first));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t node = static_cast<std::size_t>(first) + i;
    const bool is_leaf = forest.left[node] < 0;
    out.entry[i] = static_cast<std::uint32_t>(node);
    out.left[i] = is_leaf ? 0 : static_cast<std::uint32_t>(forest.left[node] - first);
    out.right[i] = is_leaf ? 0 : static_cast<std::uint32_t>(forest.right[node] - first);
  }
}

// The rows of a matrix of floats, doubles or bytes (runtime/byte_rows.h), with any strides (in elements).
struct RowsView {
  const void* data = nullptr;
  std::size_t n_rows = 0;
  std::ptrdiff_t row_stride = 0;
  std::ptrdiff_t column_stride = 0;
  bool is_float32 = true;
  bool is_bytes = false;  // instead

  RowsView row(std::size_t index) const {
    const std::ptrdiff_t offset = static_cast<std::ptrdiff_t>(index) * row_stride * (is_bytes ? 1 : is_float32 ? 4 : 8);
    return {static_cast<const char*>(data) + offset, 1, row_stride, column_stride, is_float32, is_bytes};
  }
};

}  // namespace scurry
