// Columns: inputs as unsigned keys, so that every numeric split is `key(x) > key(node)`.
//
// A key is the bits of a float in an order-preserving form. If the source compares in float64, the key of a threshold
// is that of the largest float not above it, and an input between two floats gets the key just above the last threshold
// below it. A column uses ranks among its thresholds instead if no float lies between two of them. All of this is
// exact.
//
// A missing value has one key per column: that of a number which goes the same way at every node of the column, if there
// is one. (An imputer makes missing values such a number.) Otherwise it is above all thresholds, nodes where it goes left
// are marked (Trees), and walks over rows with missing values read the marks.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "runtime/aligned.h"
#include "runtime/forest_view.h"

namespace scurry {

constexpr std::uint32_t kNanKey = 0xFFFFFFFFu;      // above every number
constexpr std::uint32_t kNoCategory = 0xFFFFFFFEu;  // in no set

// How a column treats NaN. With kZero, |x| <= 1e-35 is missing too.
enum class Missing : std::uint8_t { kNan, kZero, kAsZero, kCategory };

struct Column {
  std::uint32_t feature;
  Missing missing;
  std::uint32_t missing_key = kNanKey;
  bool is_read = false;               // by some node
  bool mixed = false;                 // missing values go left at some nodes and right at others
  bool ranked = false;                // keys are ranks
  std::uint32_t first_threshold = 0;  // float64: a power-of-two run of sorted thresholds, padded with +inf
  std::uint32_t n_thresholds = 0;
};

constexpr double kZeroThreshold = static_cast<double>(1e-35f);  // LightGBM's: up to here a number counts as zero

// The largest number that still goes left at a numeric node; a float if the source compares floats.
double last_left(const ForestView& forest, std::size_t node);

// A float's bits as an unsigned integer of the same order; -0.0 and 0.0 are one key.
inline std::uint32_t ordered_key(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x + 0.0f);
  return bits ^ (static_cast<std::uint32_t>(static_cast<std::int32_t>(bits) >> 31) | 0x80000000u);
}

// What the encoding kernels need: arrays over the numeric columns and the pad, with space for whole vectors of 16.
struct FloatColumns {
  AlignedVector<std::uint32_t> nan_keys;
  AlignedVector<std::uint32_t> feature;  // empty: column j is feature j
  std::uint32_t n = 0;                   // numeric columns
  std::uint32_t stride = 0;
};

class Columns {
 public:
  explicit Columns(const ForestView& forest);

  // Numeric columns come first, then a pad whose key is always 0, then categorical columns.
  std::uint32_t pad() const { return pad_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(columns_.size()); }
  std::uint32_t stride() const { return floats_.stride; }
  bool has_categories() const { return size() > pad_ + 1; }
  bool has_mixed() const { return has_mixed_; }
  bool is_read(std::uint32_t column) const { return columns_[column].is_read; }

  std::uint32_t column_of_node(std::size_t node) const { return node_column_[node]; }
  std::uint32_t key_of_node(const ForestView& forest, std::size_t node) const;
  // Whether missing values go left at a node of a mixed column.
  bool is_marked(const ForestView& forest, std::size_t node) const {
    return columns_[node_column_[node]].mixed && forest.default_left[node] != 0;
  }
  void forget_nodes() { std::vector<std::uint32_t>().swap(node_column_); }  // `= {}` would keep the memory

  // Writes keys[row * stride() + column] for rows [first, first + n). Returns whether a walk has to read marks. The
  // rows `ahead` of these are prefetched where that pays (0: none).
  bool encode(const RowsView& rows, std::size_t first, std::size_t n, std::uint32_t* keys, std::size_t ahead = 0) const;

 private:
  template <class T>
  bool encode_rows(const T* x, const RowsView& rows, std::size_t n, std::uint32_t* keys, std::size_t ahead) const;
  template <class T>
  bool encode_floats(const FloatColumns& floats, const T* x, std::ptrdiff_t row_stride, std::size_t n,
                     std::uint32_t* keys, std::size_t ahead) const;
  template <class T>
  bool encode_tiles(const T* x, const RowsView& rows, std::size_t n, std::uint32_t* keys) const;
  template <class T>
  void encode_column(const Column& column, const T* x, std::ptrdiff_t x_stride, std::size_t n,
                     std::uint32_t* keys) const;
  void encode_inexact(const FloatColumns& floats, const double* x, std::ptrdiff_t row_stride, std::size_t n,
                      std::uint32_t* keys) const;
  std::uint32_t key_of_double(const Column& column, double value) const;

  void collect(const ForestView& forest);
  void sort_thresholds(const ForestView& forest);
  void place_missing(const ForestView& forest);
  void describe_floats();

  std::vector<Column> columns_;
  std::vector<std::uint32_t> node_column_;
  std::vector<double> thresholds_;
  FloatColumns floats_;
  FloatColumns tiled_;  // the same where a value lies in its column's place, not its feature's
  bool float32_;
  bool truncate_categories_;
  bool has_mixed_ = false;
  bool all_floats_ = false;  // every numeric column is encoded by a kernel
  std::uint32_t pad_ = 0;
};

}  // namespace scurry
