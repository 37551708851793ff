// Columns: inputs as unsigned keys, so that every numeric split is `key(x) > key(node)`.
//
// A column is a feature together with what its missing values do: a feature whose NaN goes left at one node and
// right at another has two columns, and the walk never tests for NaN. Where the source compares in float32 the key is
// the float's bits in an order-preserving form; where it compares in float64 it is the value's rank among the
// thresholds of its column. Both are exact.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "forest_view.h"

namespace scurry {

constexpr std::uint32_t kNanKey = 0xFFFFFFFFu;       // above every number
constexpr std::uint32_t kNoCategory = 0xFFFFFFFEu;   // in no set

enum class Missing : std::uint8_t { kLeft, kRight, kAsZero, kZeroLeft, kZeroRight, kCategory };

struct Column {
  std::uint32_t feature;
  Missing missing;
  std::uint32_t first_threshold = 0;  // ranks: a power-of-two run of sorted thresholds, padded with +inf
  std::uint32_t n_thresholds = 0;
};

// A float's bits as an unsigned integer of the same order; -0.0 and 0.0 are one key.
inline std::uint32_t ordered_key(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x + 0.0f);
  return bits ^ (static_cast<std::uint32_t>(static_cast<std::int32_t>(bits) >> 31) | 0x80000000u);
}

class Columns {
 public:
  explicit Columns(const ForestView& forest);

  // Numeric columns come first, then a pad whose key is always 0, then categorical columns.
  std::uint32_t pad() const { return pad_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(columns_.size()); }
  std::uint32_t stride() const { return stride_; }
  bool has_categories() const { return size() > pad_ + 1; }

  std::uint32_t column_of_node(std::size_t node) const { return node_column_[node]; }
  std::uint32_t key_of_node(const ForestView& forest, std::size_t node) const;
  void forget_nodes() { node_column_ = {}; }

  // Writes keys[row * stride() + column] for rows [first, first + n).
  void encode(const RowsView& rows, std::size_t first, std::size_t n, std::uint32_t* keys) const;

 private:
  template <class T>
  void encode_rows(const T* x, const RowsView& rows, std::size_t n, std::uint32_t* keys) const;
  template <class T>
  void encode_column(const Column& column, const T* x, std::ptrdiff_t x_stride, std::size_t n, std::uint32_t* keys) const;

  void collect(const ForestView& forest);
  void rank_thresholds(const ForestView& forest);

  std::vector<Column> columns_;
  std::vector<std::uint32_t> node_column_;
  std::vector<double> thresholds_;
  std::vector<std::uint32_t> nan_keys_;  // float32 columns: the key of NaN, where that is all missing means
  bool float32_;
  bool truncate_categories_;
  bool plain_ = false;       // float32 columns where only NaN is missing
  bool contiguous_ = false;  // moreover column j is feature j: rows convert as one vector operation
  std::uint32_t pad_ = 0;
  std::uint32_t stride_ = 0;
};

}  // namespace scurry
