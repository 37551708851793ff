// Encodes rows of numbers as keys.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/kernels.h"
#include "runtime/columns.h"
#include "runtime/float_keys.h"

namespace scurry {
namespace {

constexpr std::size_t kTileRows = 16;  // a cache line of floats of each column
constexpr std::size_t kNearRows = 64;  // stay in the nearest cache while all their columns are gone through

}  // namespace

// The key of a number in a column whose source compares in float64.
std::uint32_t Columns::key_of_double(const Column& column, double value) const {
  if (!column.ranked && !is_inexact(value)) return ordered_key(static_cast<float>(value));
  if (!column.ranked) {
    // Only a threshold between the float below and the one above tells the number from the float below, whose key then
    // does as well as the one just above the last threshold.
    const std::uint32_t key = key_below(value), bits = filter_bits(key);
    if ((filters_[column.first_filter + filter_word(key, column.filter_shift)] & bits) != bits) return key;
  }
  const double* thresholds = thresholds_.data() + column.first_threshold;
  std::uint32_t rank = 0;  // how many thresholds are below the value
  for (std::uint32_t half = column.n_thresholds / 2; half > 0; half /= 2) {
    rank += thresholds[rank + half - 1] < value ? half : 0;
  }
  if (column.ranked) return rank + 1;
  return rank == 0 ? 0 : key_below(thresholds[rank - 1]) + 1;
}

bool Columns::encode(const RowsView& rows, std::size_t first, std::size_t n, std::uint32_t* keys,
                     std::size_t ahead) const {
  const auto offset = static_cast<std::ptrdiff_t>(first) * rows.row_stride;
  if (rows.is_bytes) return encode_bytes(static_cast<const std::uint8_t*>(rows.data) + offset, rows, n, keys);
  if (rows.is_float32) return encode_rows(static_cast<const float*>(rows.data) + offset, rows, n, keys, ahead);
  return encode_rows(static_cast<const double*>(rows.data) + offset, rows, n, keys, ahead);
}

template <class T>
bool Columns::encode_rows(const T* x, const RowsView& rows, std::size_t n, std::uint32_t* keys,
                          std::size_t ahead) const {
  std::uint32_t first_column = 0;
  bool any_missing = true;
  if (all_floats_) {
    any_missing = rows.column_stride == 1 ? encode_floats(floats_, x, rows.row_stride, n, keys, ahead)
                                          : encode_tiles(x, rows, n, keys);
    first_column = n_numeric_ < pad_ ? n_numeric_ : pad_ + 1;  // with sets, the kernels do not reach the pad
  }
  for (const SetColumns& sets : sets_) {
    encode_sets(sets, x + static_cast<std::ptrdiff_t>(sets.feature) * rows.column_stride, rows.row_stride, n, keys);
  }
  for (std::uint32_t c = first_column; c < size(); ++c) {
    if (c >= n_numeric_ && c < pad_) continue;
    if (!columns_[c].is_read) {
      for (std::size_t row = 0; row < n; ++row) keys[row * stride() + c] = 0;
    } else {
      const std::ptrdiff_t offset = static_cast<std::ptrdiff_t>(columns_[c].feature) * rows.column_stride;
      encode_column(columns_[c], x + offset, rows.row_stride, n, keys + c);
    }
  }
  return has_mixed_ && any_missing;
}

const FloatColumns* Columns::floats_of(const RowsView& rows) const {
  constexpr std::ptrdiff_t kMostValues = 32;  // of longer rows, as many as are ranked together do not stay near the core
  const bool are_floats = rows.is_float32 && !rows.is_bytes && rows.column_stride == 1 && rows.row_stride <= kMostValues;
  const bool are_numeric = all_floats_ && n_numeric_ == pad_ && !has_categories();
  return are_floats && are_numeric && n_read_ >= kRankedFloats ? &floats_ : nullptr;
}

// Encodes the numeric columns of rows whose values lie next to each other. Returns whether any value is missing.
template <class T>
bool Columns::encode_floats(const FloatColumns& floats, const T* x, std::ptrdiff_t row_stride, std::size_t n,
                            std::uint32_t* keys, std::size_t ahead) const {
  if constexpr (std::is_same_v<T, float>) {
    return kernels().encode.floats(floats, x, row_stride, n, ahead, keys).any_missing;
  } else {
    const Encoded found = kernels().encode.doubles(floats, x, row_stride, n, ahead, keys);
    if (found.any_inexact && !float32_) encode_inexact(floats, x, row_stride, n, keys);
    return found.any_missing;
  }
}

// The same for other layouts, such as one column after the other: a few rows at a time are copied into a tile first.
template <class T>
bool Columns::encode_tiles(const T* x, const RowsView& rows, std::size_t n, std::uint32_t* keys) const {
  thread_local std::vector<T> tile;
  const std::size_t width = std::max(n_numeric_, 1u);
  if (tile.size() < kTileRows * width) tile.resize(kTileRows * width);
  bool any_missing = false;
  for (std::size_t first = 0; first < n; first += kTileRows) {
    const std::size_t n_rows = std::min(kTileRows, n - first);
    for (std::uint32_t c = 0; c < n_numeric_; ++c) {
      if (!columns_[c].is_read) continue;
      const T* from = x + static_cast<std::ptrdiff_t>(first) * rows.row_stride +
                      static_cast<std::ptrdiff_t>(columns_[c].feature) * rows.column_stride;
      for (std::size_t row = 0; row < n_rows; ++row) {
        tile[row * width + c] = from[static_cast<std::ptrdiff_t>(row) * rows.row_stride];
      }
    }
    any_missing |=
        encode_floats(tiled_, tile.data(), static_cast<std::ptrdiff_t>(width), n_rows, keys + first * stride(), 0);
  }
  return any_missing;
}

std::uint32_t Columns::code_of(double value) const {
  if (value != value) return kNanKey;
  if (value < 0) return truncate_categories_ && value > -1 ? 0 : kNoCategory;
  return value < static_cast<double>(kNoCategory) ? static_cast<std::uint32_t>(value) : kNoCategory;  // rounded down
}

// Copies n words in blocks whose size the compiler knows; the last one may overlap that before it.
inline void copy_words(const std::uint32_t* from, std::size_t n, std::uint32_t* to) {
  const auto copy_blocks = [&]<std::size_t kBlock>() {
    for (std::size_t at = 0; at + kBlock <= n; at += kBlock) std::memcpy(to + at, from + at, 4 * kBlock);
    std::memcpy(to + n - kBlock, from + n - kBlock, 4 * kBlock);
  };
  if (n >= 8) return copy_blocks.operator()<8>();
  if (n >= 4) return copy_blocks.operator()<4>();
  for (std::size_t at = 0; at < n; ++at) to[at] = from[at];
}

template <class T>
void Columns::encode_sets(const SetColumns& sets, const T* x, std::ptrdiff_t x_stride, std::size_t n,
                          std::uint32_t* keys) const {
  keys += sets.first_column;
  for (std::size_t row = 0; row < n; ++row, x += x_stride, keys += stride()) {
    const double value = float32_ ? static_cast<double>(static_cast<float>(*x)) : static_cast<double>(*x);
    const std::uint32_t code = code_of(value);
    const std::size_t run = code == kNanKey ? sets.n_codes + 1 : std::min(code, sets.n_codes);
    copy_words(set_keys_.data() + sets.first_key + run * sets.n_columns, sets.n_columns, keys);
  }
}

template <class T>
void Columns::encode_column(const Column& column, const T* x, std::ptrdiff_t x_stride, std::size_t n,
                            std::uint32_t* keys) const {
  // A copy, because the compiler must assume that writing keys could change the original.
  const std::size_t width = stride();
  const bool narrow = float32_;
  const auto value_of = [=](std::size_t row) {
    const T given = x[static_cast<std::ptrdiff_t>(row) * x_stride];
    return narrow ? static_cast<double>(static_cast<float>(given)) : static_cast<double>(given);
  };
  if (column.missing == Missing::kCategory) {
    for (std::size_t row = 0; row < n; ++row) keys[row * width] = code_of(value_of(row));
    return;
  }
  for (std::size_t row = 0; row < n; ++row) {
    double value = value_of(row);
    std::uint32_t& key = keys[row * width];
    if (value != value && column.missing == Missing::kAsZero) value = 0.0;
    if (value != value || (column.missing == Missing::kZero && std::fabs(value) <= kZeroThreshold)) {
      key = column.missing_key;
    } else {
      key = float32_ ? ordered_key(static_cast<float>(value)) : key_of_double(column, value);
    }
  }
}

// Corrects the keys of numbers that are not floats, which the kernels leave to this: few have a threshold near.
void Columns::encode_inexact(const FloatColumns& floats, const double* x, std::ptrdiff_t row_stride, std::size_t n,
                             std::uint32_t* keys) const {
  thread_local std::vector<std::uint32_t> places;
  const std::uint32_t width = stride();
  if (places.size() < kNearRows * width) places.resize(kNearRows * width);
  for (std::size_t first = 0; first < n; first += kNearRows, x += kNearRows * row_stride, keys += kNearRows * width) {
    const std::size_t n_rows = std::min(kNearRows, n - first);
    const std::size_t n_near =
        kernels().encode.lower_inexact(floats, filters_.data(), x, row_stride, n_rows, keys, places.data());
    for (std::size_t i = 0; i < n_near; ++i) {
      const std::uint32_t row = places[i] / width, c = places[i] % width;
      const std::uint32_t feature = floats.feature.empty() ? c : floats.feature[c];
      keys[places[i]] = key_of_double(columns_[c], x[static_cast<std::ptrdiff_t>(row) * row_stride + feature]);
    }
  }
}

}  // namespace scurry
