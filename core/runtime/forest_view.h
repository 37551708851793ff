// ForestView: pointers into the arrays of a forest that Python holds, valid while an Engine is built; RowsView
// likewise.
//
// Arrays are read by entries. In a forest as Python has it, these are its nodes. In a packed one they are the rows of two
// tables, distinct leaves and then distinct splits, and read_tree() says which entry each node of a tree has. So what is
// derived from splits and leaves is derived once for each that is distinct.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "packed/packed_forest.h"

namespace scurry {

enum class Aggregation : std::uint8_t { kMean, kVote, kSum };
enum class Link : std::uint8_t { kIdentity, kLogistic, kSoftmax, kLogisticEach, kExp, kSignedSquare, kLog1pExp, kStep };
enum class MissingKind : std::uint8_t { kNan = 0, kNanAndZero = 1, kNothing = 2 };

struct ForestView {
  std::span<const std::int64_t> tree_offset;
  std::span<const std::int32_t> feature, left, right, category_set;
  std::span<const double> threshold;
  std::span<const std::uint8_t> default_left, missing;
  const double* value = nullptr;  // [n_nodes][n_columns]
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

  std::size_t n_trees() const { return tree_offset.size() - 1; }
  std::size_t n_nodes() const { return feature.size(); }  // entries, if it is packed
  std::size_t n_outputs() const { return base_score.size(); }
};

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
