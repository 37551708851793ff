// Chooses the columns of a forest and encodes rows as keys.
#include "runtime/columns.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>
#include <tuple>
#include <type_traits>

#include "kernels/kernels.h"

namespace scurry {
namespace {

constexpr std::uint32_t kLanesOfKeys = 16;
constexpr std::size_t kTileRows = 16;  // a cache line of floats of each column

Missing missing_of(const ForestView& forest, std::size_t node) {
  if (forest.category_set[node] >= 0) return Missing::kCategory;
  switch (static_cast<MissingKind>(forest.missing[node])) {
    case MissingKind::kNothing: return Missing::kAsZero;
    case MissingKind::kNanAndZero: return Missing::kZero;
    case MissingKind::kNan: break;
  }
  return Missing::kNan;
}

float round_down(double x) {
  const float nearest = static_cast<float>(x);
  return static_cast<double>(nearest) > x ? std::nextafterf(nearest, -std::numeric_limits<float>::infinity()) : nearest;
}

std::uint32_t key_below(double x) { return ordered_key(round_down(x)); }

bool is_inexact(double x) { return static_cast<double>(static_cast<float>(x)) != x && x == x; }

constexpr std::uint8_t kOtherByte = 254, kMissingByte = 255;  // other categories than those below, missing values
constexpr std::uint32_t kMaxByteRank = 254;

// rank[i] is how many of n sorted thresholds, one less than a power of two with their padding, are below x[i].
template <std::size_t kTogether, class T>
inline void count_below(const T* thresholds, std::uint32_t n, const T* x, std::uint32_t* rank) {
  for (std::size_t i = 0; i < kTogether; ++i) rank[i] = 0;
  for (std::uint32_t half = n / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kTogether; ++i) rank[i] += thresholds[rank[i] + half - 1] < x[i] ? half : 0;
  }
}

// Rounded up to strides that the kernels know at compile time: they then address all rows from one base register.
std::uint32_t stride_for(std::uint32_t n_columns) {
  for (std::uint32_t stride : {16u, 32u, 48u, 64u, 128u}) {
    if (n_columns <= stride) return stride;
  }
  return (n_columns + kLanesOfKeys - 1) / kLanesOfKeys * kLanesOfKeys;
}

}  // namespace

double last_left(const ForestView& forest, std::size_t node) {
  const double threshold = forest.threshold[node];
  const double last =
      forest.strict_comparison ? std::nextafter(threshold, -std::numeric_limits<double>::infinity()) : threshold;
  return forest.float32_input ? static_cast<double>(round_down(last)) : last;
}

Columns::Columns(const ForestView& forest)
    : float32_(forest.float32_input), truncate_categories_(forest.truncate_categories) {
  collect(forest);
  if (!float32_) sort_thresholds(forest);
  place_missing(forest);
  describe_floats();
  describe_bytes(forest);
}

// Makes one column per feature and meaning of NaN in use. Numeric columns come first, both kinds ordered by feature.
void Columns::collect(const ForestView& forest) {
  std::map<std::tuple<bool, std::uint32_t, Missing>, std::uint32_t> index;
  const auto entry_of = [&](std::size_t node) {
    const Missing missing = missing_of(forest, node);
    return std::tuple(missing == Missing::kCategory, static_cast<std::uint32_t>(forest.feature[node]), missing);
  };
  for (std::size_t node = 0; node < forest.n_nodes(); ++node) {
    if (forest.left[node] >= 0) index.try_emplace(entry_of(node), 0);
  }
  // Features that no node reads get a column too if rows become no longer by it: rows can then be encoded as they lie.
  std::vector<std::uint32_t> unread;
  for (std::uint32_t feature = 0; feature < forest.n_features; ++feature) {
    const auto at = index.lower_bound({false, feature, Missing::kNan});
    if (at == index.end() || std::get<0>(at->first) || std::get<1>(at->first) != feature) unread.push_back(feature);
  }
  const auto n_read = static_cast<std::uint32_t>(index.size());
  if (n_read + 1 + unread.size() <= stride_for(n_read + 1)) {
    for (const std::uint32_t feature : unread) index.emplace(std::tuple(false, feature, Missing::kNan), 0);
  }
  const auto n_numeric =
      std::count_if(index.begin(), index.end(), [](auto& entry) { return !std::get<0>(entry.first); });
  pad_ = static_cast<std::uint32_t>(n_numeric);
  for (auto& [key, column] : index) {
    const auto& [categorical, feature, missing] = key;
    if (size() == pad_) columns_.push_back({0, Missing::kNan});
    column = size();
    columns_.push_back({feature, missing});
  }
  if (size() == pad_) columns_.push_back({0, Missing::kNan});

  node_column_.assign(forest.n_nodes(), pad_);
  for (std::size_t node = 0; node < forest.n_nodes(); ++node) {
    if (forest.left[node] < 0) continue;
    node_column_[node] = index.find(entry_of(node))->second;
    columns_[node_column_[node]].is_read = true;
  }
}

// Finds the key of missing values. A node sends a key left iff it is at most its own.
void Columns::place_missing(const ForestView& forest) {
  std::vector<std::uint32_t> above(columns_.size(), 0), upto(columns_.size(), kNanKey);
  std::vector<unsigned> directions(columns_.size());  // bits: right, left
  for (std::size_t node = 0; node < forest.n_nodes(); ++node) {
    const std::uint32_t c = node_column_[node];
    if (forest.left[node] < 0 || c >= pad_) continue;
    const std::uint32_t key = key_of_node(forest, node);
    directions[c] |= forest.default_left[node] ? 2u : 1u;
    if (forest.default_left[node]) {
      upto[c] = std::min(upto[c], key);
    } else {
      above[c] = std::max(above[c], key + 1);
    }
  }
  for (std::uint32_t c = 0; c < pad_; ++c) {
    Column& column = columns_[c];
    if (column.missing == Missing::kAsZero) continue;
    column.mixed = directions[c] == 3 && above[c] > upto[c];
    column.missing_key = directions[c] == 2 ? 0 : directions[c] == 3 && !column.mixed ? above[c] : kNanKey;
    has_mixed_ |= column.mixed;
  }
}

void Columns::sort_thresholds(const ForestView& forest) {
  std::vector<std::vector<double>> of_column(columns_.size());
  for (std::size_t node = 0; node < forest.n_nodes(); ++node) {
    if (forest.left[node] >= 0) of_column[node_column_[node]].push_back(last_left(forest, node));
  }
  for (std::size_t c = 0; c < pad_; ++c) {
    auto& sorted = of_column[c];
    std::sort(sorted.begin(), sorted.end());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    const auto same_key = [](double a, double b) { return key_below(a) == key_below(b); };
    columns_[c].ranked = std::adjacent_find(sorted.begin(), sorted.end(), same_key) != sorted.end();
    columns_[c].first_threshold = static_cast<std::uint32_t>(thresholds_.size());
    columns_[c].n_distinct = static_cast<std::uint32_t>(sorted.size());
    columns_[c].n_thresholds = static_cast<std::uint32_t>(std::bit_ceil(sorted.size() + 1));
    thresholds_.insert(thresholds_.end(), sorted.begin(), sorted.end());
    thresholds_.resize(columns_[c].first_threshold + columns_[c].n_thresholds, std::numeric_limits<double>::infinity());
    for (std::uint32_t i = 0; i < columns_[c].n_thresholds; ++i) {
      const double threshold = thresholds_[columns_[c].first_threshold + i];
      keys_above_.push_back(columns_[c].ranked ? i + 1 : key_below(threshold) + 1);
    }
  }
}

void Columns::describe_floats() {
  floats_.n = pad_;
  floats_.stride = stride_for(size());
  floats_.nan_keys.assign(floats_.stride, 0);
  all_floats_ = true;
  bool in_order = true;
  for (std::uint32_t c = 0; c < pad_; ++c) {
    const Column& column = columns_[c];
    all_floats_ = all_floats_ && !column.ranked && column.missing != Missing::kZero;
    in_order = in_order && column.feature == c;
    floats_.nan_keys[c] = !column.is_read                      ? 0
                          : column.missing == Missing::kAsZero ? ordered_key(0.0f)
                                                               : column.missing_key;
  }
  tiled_ = floats_;
  if (in_order) return;
  for (std::uint32_t c = 0; c < pad_; ++c) floats_.feature.push_back(columns_[c].feature);
}

std::uint32_t Columns::key_of_node(const ForestView& forest, std::size_t node) const {
  if (float32_) {
    const double threshold = forest.threshold[node];
    const float down = round_down(threshold);
    const bool exclude = forest.strict_comparison && static_cast<double>(down) == threshold;
    return ordered_key(down) - (exclude ? 1 : 0);
  }
  const Column& column = columns_[node_column_[node]];
  const double last = last_left(forest, node);
  if (!column.ranked) return key_below(last);
  const auto first = thresholds_.begin() + column.first_threshold;
  return static_cast<std::uint32_t>(std::lower_bound(first, first + column.n_thresholds, last) - first);
}

// The key of a number in a column whose source compares in float64.
std::uint32_t Columns::key_of_double(const Column& column, double value) const {
  if (!column.ranked && !is_inexact(value)) return ordered_key(static_cast<float>(value));
  std::uint32_t rank;
  count_below<1>(thresholds_.data() + column.first_threshold, column.n_thresholds, &value, &rank);
  return rank == 0 ? 0 : keys_above_[column.first_threshold + rank - 1];
}

// Finds the keys that cut each column where the source compares in float32. False if one has too many for bytes.
bool Columns::collect_keys(const ForestView& forest) {
  std::vector<std::vector<std::uint32_t>> of_column(columns_.size());
  for (std::size_t node = 0; node < forest.n_nodes(); ++node) {
    if (forest.left[node] < 0 || node_column_[node] >= pad_) continue;
    auto& keys = of_column[node_column_[node]];
    const std::uint32_t key = key_of_node(forest, node);
    const auto at = std::lower_bound(keys.begin(), keys.end(), key);
    if (at != keys.end() && *at == key) continue;
    if (keys.size() == kMaxByteRank) return false;
    keys.insert(at, key);
  }
  for (std::uint32_t c = 0; c < pad_; ++c) {
    columns_[c].first_threshold = static_cast<std::uint32_t>(threshold_keys_.size());
    columns_[c].n_distinct = static_cast<std::uint32_t>(of_column[c].size());
    columns_[c].n_thresholds = static_cast<std::uint32_t>(std::bit_ceil(of_column[c].size() + 1));
    threshold_keys_.insert(threshold_keys_.end(), of_column[c].begin(), of_column[c].end());
    threshold_keys_.resize(columns_[c].first_threshold + columns_[c].n_thresholds, kNanKey);
  }
  return true;
}

// Makes the keys that bytes stand for, if every feature has one column, of few enough thresholds or categories.
void Columns::describe_bytes(const ForestView& forest) {
  constexpr std::size_t kMaxColumns = 1024;  // a kilobyte each
  std::vector<bool> is_read(forest.n_features);
  if (size() > kMaxColumns) return;
  for (const Column& column : columns_) {
    if (column.is_read && is_read[column.feature]) return;
    if (column.is_read) is_read[column.feature] = true;
  }
  for (std::size_t set = 0; set + 1 < forest.category_offset.size(); ++set) {
    const auto first = static_cast<std::size_t>(forest.category_offset[set]);
    const auto last = static_cast<std::size_t>(forest.category_offset[set + 1]);
    for (std::size_t word = first; word < last; ++word) {
      for (std::uint32_t bit = 0; bit < 32; ++bit) {
        if (((forest.category_bits[word] >> bit) & 1u) != 0 && 32 * (word - first) + bit >= kOtherByte) return;
      }
    }
  }
  if (float32_ && !collect_keys(forest)) return;
  const auto too_many = [](const Column& column) { return column.n_distinct > kMaxByteRank; };
  if (std::any_of(columns_.begin(), columns_.end(), too_many)) return;
  key_of_byte_.resize(std::size_t{size()} * 256);
  for (std::uint32_t c = 0; c < size(); ++c) {
    const Column& column = columns_[c];
    std::uint32_t* keys = key_of_byte_.data() + std::size_t{c} * 256;
    if (!column.is_read) continue;
    if (column.missing == Missing::kCategory) {
      for (std::uint32_t code = 0; code < kOtherByte; ++code) keys[code] = code;
      keys[kOtherByte] = kNoCategory;
      keys[kMissingByte] = kNanKey;
      continue;
    }
    for (std::uint32_t rank = 1; rank < kMissingByte; ++rank) {
      const std::uint32_t at = column.first_threshold + std::min(rank, column.n_distinct) - 1;
      keys[rank] = column.n_distinct == 0 ? 0 : float32_ ? threshold_keys_[at] + 1 : keys_above_[at];
    }
    keys[kMissingByte] = column.missing_key;
  }
}

template <class T>
void Columns::rank(std::uint32_t column, const T* x, std::size_t n, std::uint8_t* ranks) const {
  const Column& of = columns_[column];
  if (of.missing == Missing::kCategory) {
    for (std::size_t row = 0; row < n; ++row) {
      const double value = truncate_categories_ ? std::trunc(static_cast<double>(x[row]))
                                                : std::floor(static_cast<double>(x[row]));
      const bool is_code = value >= 0 && value < kOtherByte;
      ranks[row] = value != value ? kMissingByte : is_code ? static_cast<std::uint8_t>(value) : kOtherByte;
    }
    return;
  }
  constexpr std::size_t kTogether = 8;  // so that searches overlap
  const auto is_missing = [&](T value) {
    const bool is_zero = of.missing == Missing::kZero && std::fabs(static_cast<double>(value)) <= kZeroThreshold;
    return is_zero || (value != value && of.missing != Missing::kAsZero);
  };
  for (std::size_t first = 0; first < n; first += kTogether) {
    const std::size_t n_left = std::min(kTogether, n - first);
    T value[kTogether] = {};
    for (std::size_t i = 0; i < n_left; ++i) value[i] = x[first + i] != x[first + i] ? T{0} : x[first + i];
    std::uint32_t found[kTogether];
    if (float32_) {
      std::uint32_t keys[kTogether];
      for (std::size_t i = 0; i < kTogether; ++i) keys[i] = ordered_key(static_cast<float>(value[i]));
      count_below<kTogether>(threshold_keys_.data() + of.first_threshold, of.n_thresholds, keys, found);
    } else {
      double wide[kTogether];
      for (std::size_t i = 0; i < kTogether; ++i) wide[i] = static_cast<double>(value[i]);
      count_below<kTogether>(thresholds_.data() + of.first_threshold, of.n_thresholds, wide, found);
    }
    for (std::size_t i = 0; i < n_left; ++i) {
      ranks[first + i] = is_missing(x[first + i]) ? kMissingByte : static_cast<std::uint8_t>(found[i]);
    }
  }
}

template void Columns::rank(std::uint32_t, const float*, std::size_t, std::uint8_t*) const;
template void Columns::rank(std::uint32_t, const double*, std::size_t, std::uint8_t*) const;

bool Columns::encode_bytes(const std::uint8_t* x, const RowsView& rows, std::size_t n, std::uint32_t* keys) const {
  if (!takes_bytes()) throw std::invalid_argument("rows of this forest cannot be bytes");
  bool any_missing = false;
  for (std::uint32_t c = 0; c < size(); ++c) {
    const std::uint32_t* key_of = key_of_byte_.data() + std::size_t{c} * 256;
    const std::uint8_t* from = x + static_cast<std::ptrdiff_t>(columns_[c].feature) * rows.column_stride;
    std::uint32_t* to = keys + c;
    for (std::size_t row = 0; row < n; ++row, from += rows.row_stride, to += stride()) *to = key_of[*from];
    if (!columns_[c].mixed) continue;
    for (std::size_t row = 0; row < n; ++row) any_missing |= keys[row * stride() + c] == kNanKey;
  }
  return any_missing;
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
    first_column = pad_ + 1;
  }
  for (std::uint32_t c = first_column; c < size(); ++c) {
    if (!columns_[c].is_read) {
      for (std::size_t row = 0; row < n; ++row) keys[row * stride() + c] = 0;
    } else {
      const std::ptrdiff_t offset = static_cast<std::ptrdiff_t>(columns_[c].feature) * rows.column_stride;
      encode_column(columns_[c], x + offset, rows.row_stride, n, keys + c);
    }
  }
  return has_mixed_ && any_missing;
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
  const std::size_t width = std::max(pad_, 1u);
  if (tile.size() < kTileRows * width) tile.resize(kTileRows * width);
  bool any_missing = false;
  for (std::size_t first = 0; first < n; first += kTileRows) {
    const std::size_t n_rows = std::min(kTileRows, n - first);
    for (std::uint32_t c = 0; c < pad_; ++c) {
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

template <class T>
void Columns::encode_column(const Column& column, const T* x, std::ptrdiff_t x_stride, std::size_t n,
                            std::uint32_t* keys) const {
  for (std::size_t row = 0; row < n; ++row) {
    const T given = x[static_cast<std::ptrdiff_t>(row) * x_stride];
    double value = float32_ ? static_cast<double>(static_cast<float>(given)) : static_cast<double>(given);
    std::uint32_t& key = keys[row * stride()];
    if (column.missing == Missing::kCategory) {
      key = kNanKey;
      if (value != value) continue;
      value = truncate_categories_ ? std::trunc(value) : std::floor(value);
      key = value >= 0 && value < static_cast<double>(kNoCategory) ? static_cast<std::uint32_t>(value) : kNoCategory;
      continue;
    }
    if (value != value && column.missing == Missing::kAsZero) value = 0.0;
    if (value != value || (column.missing == Missing::kZero && std::fabs(value) <= kZeroThreshold)) {
      key = column.missing_key;
    } else {
      key = float32_ ? ordered_key(static_cast<float>(value)) : key_of_double(column, value);
    }
  }
}

// Corrects the keys of numbers that are not floats, which the kernels leave to this.
void Columns::encode_inexact(const FloatColumns& floats, const double* x, std::ptrdiff_t row_stride, std::size_t n,
                             std::uint32_t* keys) const {
  constexpr std::size_t kTogether = 8;  // so that searches overlap
  for (std::uint32_t c = 0; c < pad_; ++c) {
    const Column& column = columns_[c];
    if (!column.is_read) continue;
    const double* from = x + (floats.feature.empty() ? c : floats.feature[c]);
    for (std::size_t first = 0; first < n; first += kTogether) {
      const std::size_t n_left = std::min(kTogether, n - first);
      double value[kTogether] = {};
      bool any = false;
      for (std::size_t i = 0; i < n_left; ++i) {
        value[i] = from[static_cast<std::ptrdiff_t>(first + i) * row_stride];
        any |= is_inexact(value[i]);
      }
      if (!any) continue;
      std::uint32_t rank[kTogether];
      count_below<kTogether>(thresholds_.data() + column.first_threshold, column.n_thresholds, value, rank);
      for (std::size_t i = 0; i < n_left; ++i) {
        if (!is_inexact(value[i])) continue;
        keys[(first + i) * stride() + c] = rank[i] == 0 ? 0 : keys_above_[column.first_threshold + rank[i] - 1];
      }
    }
  }
}

}  // namespace scurry
