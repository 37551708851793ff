// Columns: inputs as unsigned keys, so that every numeric split is `key(x) > key(node)`.
//
// A key is the bits of a float in an order-preserving form. If the source compares in float64, the key of a threshold
// is that of the largest float not above it, and an input between two floats gets the key just above the last threshold
// below it. A column uses ranks among its thresholds instead, from 1 on, if no float lies between two of them. All of
// this is exact.
//
// A missing value has one key per column: that of a number which goes the same way at every node of the column, if there
// is one. (An imputer makes missing values such a number.) Otherwise it is above all thresholds, nodes where it goes left
// are marked (Trees), and walks over rows with missing values read the marks.
//
// Categories are codes, which nodes look up in their sets. If a forest has few different sets, as one-hot encoders make
// them, each set can be a column instead, with key 0 for its members and 1 for the others: nodes then ask about numbers
// alone.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/aligned.h"
#include "runtime/engine_parts.h"
#include "runtime/forest_view.h"
#include "runtime/nodes.h"

namespace scurry {

// How a column treats NaN. With kZero, |x| <= 1e-35 is missing too.
enum class Missing : std::uint8_t { kNan, kZero, kAsZero, kCategory };

// What categorical nodes read: codes, or a column for each set.
enum class Sets : std::uint8_t { kCodes, kColumns };

struct Column {
  std::uint32_t feature;
  Missing missing;
  std::uint32_t missing_key = kNanKey;
  bool is_read = false;               // by some node
  bool mixed = false;                 // missing values go left at some nodes and right at others
  bool ranked = false;                // keys are ranks
  std::uint32_t first_threshold = 0;  // float64: a power-of-two run of sorted thresholds, padded with +inf
  std::uint32_t n_thresholds = 0;
  std::uint32_t first_filter = 0;  // float64: words whose bits say which floats may have a threshold just above them
  std::uint32_t filter_shift = 0;
};

constexpr std::uint32_t kMostCodesOfSet = 4096;  // that is a column

// Adjacent columns that are sets of one feature. The keys of a code are a run of set_keys_; two more runs are for codes
// beyond `n_codes` and for missing values.
struct SetColumns {
  std::uint32_t feature, first_column, n_columns, n_codes;
  std::size_t first_key;
};

constexpr double kZeroThreshold = static_cast<double>(1e-35f);  // LightGBM's: up to here a number counts as zero

// The largest number that still goes left at a threshold; a float if the source compares floats. It is -inf too if
// sends_left() says that there is none.
double last_left(const ForestView& forest, double threshold);

// Whether some number goes left at a threshold: no number is below -inf.
bool sends_left(const ForestView& forest, double threshold);

// What the nodes of an entry of the forest test: whether the key of a column is above this one. At categorical columns,
// the key is the number of a CategoryTest. Leaves have the pad as their column, and whatever stands for them as a key.
struct NodeTest {
  static constexpr std::uint32_t kMark = 1u << 31;

  std::uint32_t key;
  std::uint32_t marked_column;  // with kMark if missing values go left here, in a column where that is not so everywhere

  std::uint32_t column() const { return marked_column & ~kMark; }
  bool is_marked() const { return (marked_column & kMark) != 0; }
};

// A float's bits as an unsigned integer of the same order; -0.0 and 0.0 are one key.
inline std::uint32_t ordered_key(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x + 0.0f);
  return bits ^ (static_cast<std::uint32_t>(static_cast<std::int32_t>(bits) >> 31) | 0x80000000u);
}

class Columns {
 public:
  explicit Columns(const ForestView& forest, Sets sets = Sets::kCodes);
  // Those of a file. They know nothing of nodes.
  Columns(const ForestView& forest, const EngineParts& parts);

  void store(StoredEngine& out) const;

  // Numeric columns come first, then sets, then a pad whose key is always 0, then categorical columns.
  std::uint32_t pad() const { return pad_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(columns_.size()); }
  std::uint32_t stride() const { return floats_.stride; }
  std::size_t bytes() const;
  bool has_categories() const { return size() > pad_ + 1; }
  bool has_mixed() const { return has_mixed_; }
  bool is_read(std::uint32_t column) const { return columns_[column].is_read; }
  std::uint32_t feature(std::uint32_t column) const { return columns_[column].feature; }
  // Whether rows can be bytes, and what key a byte has then.
  bool takes_bytes() const { return !key_of_byte_.empty(); }
  std::uint32_t key_of_byte(std::uint32_t column, std::uint8_t byte) const;

  // What nodes test, by entry of the forest; whoever lowers trees sets the keys of leaves.
  std::span<NodeTest> tests() { return tests_; }
  std::span<const NodeTest> tests() const { return tests_; }
  const std::vector<CategoryTest>& category_tests() const { return category_tests_; }
  void forget_tests() { LargeVector<NodeTest>().swap(tests_); }  // `= {}` would keep the memory

  // Writes keys[row * stride() + column] for rows [first, first + n). Returns whether a walk has to read marks. The
  // rows `ahead` of these are prefetched where that pays (0: none). Rows may be bytes if the forest takes them.
  bool encode(const RowsView& rows, std::size_t first, std::size_t n, std::uint32_t* keys, std::size_t ahead = 0) const;
  // Where the values of all columns lie in these rows, if they are floats next to each other that become ranks without
  // keys in between (RankedColumns::rank_floats); or null.
  const FloatColumns* floats_of(const RowsView& rows) const;

 private:
  template <class T>
  bool encode_rows(const T* x, const RowsView& rows, std::size_t n, std::uint32_t* keys, std::size_t ahead) const;
  template <class T>
  bool encode_floats(const FloatColumns& floats, const T* x, std::ptrdiff_t row_stride, std::size_t n,
                     std::uint32_t* keys, std::size_t ahead) const;
  template <class T>
  bool encode_tiles(const T* x, const RowsView& rows, std::size_t n, std::uint32_t* keys) const;
  template <class T>
  void encode_sets(const SetColumns& sets, const T* x, std::ptrdiff_t x_stride, std::size_t n,
                   std::uint32_t* keys) const;
  template <class T>
  void encode_column(const Column& column, const T* x, std::ptrdiff_t x_stride, std::size_t n,
                     std::uint32_t* keys) const;
  bool encode_bytes(const std::uint8_t* x, const RowsView& rows, std::size_t n, std::uint32_t* keys) const;
  void encode_inexact(const FloatColumns& floats, const double* x, std::ptrdiff_t row_stride, std::size_t n,
                      std::uint32_t* keys) const;
  std::uint32_t key_of_double(const Column& column, double value) const;

  std::uint32_t code_of(double value) const;

  void collect(const ForestView& forest, Sets sets);
  void tabulate_sets(const ForestView& forest);
  void sort_thresholds(const ForestView& forest);
  void place_missing();
  std::uint32_t key_of_threshold(const ForestView& forest, const Column& column, double threshold) const;
  void read_sets(std::size_t n_features, const EngineParts& parts);
  void describe_floats();
  void describe_bytes(const ForestView& forest);

  std::vector<Column> columns_;
  LargeVector<NodeTest> tests_;
  std::vector<CategoryTest> category_tests_;
  std::vector<double> thresholds_;
  std::vector<std::uint32_t> filters_;
  std::vector<SetColumns> sets_;
  std::vector<std::uint32_t> set_keys_;
  std::vector<std::uint32_t> key_of_byte_;  // [column][256]; empty if rows cannot be bytes
  FloatColumns floats_;
  std::size_t n_read_ = 0;  // values of a row, up to the last that a column reads
  FloatColumns tiled_;  // the same where a value lies in its column's place, not its feature's
  bool float32_;
  bool truncate_categories_;
  bool has_mixed_ = false;
  bool all_floats_ = false;  // every numeric column is encoded by a kernel
  std::uint32_t n_numeric_ = 0, pad_ = 0;
};

}  // namespace scurry
