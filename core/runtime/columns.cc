// Chooses the columns of a forest and encodes rows as keys.
#include "runtime/columns.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
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

// The next float below one that is not -inf. (nextafterf is a call, and every threshold is rounded.)
float float_below(float x) {
  if (x == 0.0f) return -std::numeric_limits<float>::denorm_min();
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>(x > 0.0f ? bits - 1 : bits + 1);
}

float round_down(double x) {
  const float nearest = static_cast<float>(x);
  return static_cast<double>(nearest) > x ? float_below(nearest) : nearest;
}

std::uint32_t key_below(double x) { return ordered_key(round_down(x)); }

bool is_inexact(double x) { return static_cast<double>(static_cast<float>(x)) != x && x == x; }

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
}

// Makes one column per feature and meaning of NaN in use. Numeric columns come first, both kinds ordered by feature.
void Columns::collect(const ForestView& forest) {
  std::map<std::tuple<bool, std::uint32_t, Missing>, std::uint32_t> index;
  const auto entry_of = [&](std::size_t node) {
    const Missing missing = missing_of(forest, node);
    return std::tuple(missing == Missing::kCategory, static_cast<std::uint32_t>(forest.feature[node]), missing);
  };
  // Splits of one column follow each other in a packed forest, and often in others: the tree is not searched for them.
  auto last = index.end();
  for (std::size_t node = 0; node < forest.n_nodes(); ++node) {
    if (forest.left[node] < 0) continue;
    const auto entry = entry_of(node);
    if (last == index.end() || last->first != entry) last = index.try_emplace(entry, 0).first;
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
    const auto entry = entry_of(node);
    if (last == index.end() || last->first != entry) last = index.find(entry);
    node_column_[node] = last->second;
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
    columns_[c].n_thresholds = static_cast<std::uint32_t>(std::bit_ceil(sorted.size() + 1));
    thresholds_.insert(thresholds_.end(), sorted.begin(), sorted.end());
    thresholds_.resize(columns_[c].first_threshold + columns_[c].n_thresholds, std::numeric_limits<double>::infinity());
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
  const double* thresholds = thresholds_.data() + column.first_threshold;
  std::uint32_t rank = 0;  // how many thresholds are below the value
  for (std::uint32_t half = column.n_thresholds / 2; half > 0; half /= 2) {
    rank += thresholds[rank + half - 1] < value ? half : 0;
  }
  return column.ranked || rank == 0 ? rank : key_below(thresholds[rank - 1]) + 1;
}

bool Columns::encode(const RowsView& rows, std::size_t first, std::size_t n, std::uint32_t* keys,
                     std::size_t ahead) const {
  const auto offset = static_cast<std::ptrdiff_t>(first) * rows.row_stride;
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
  for (std::size_t row = 0; row < n; ++row, x += row_stride, keys += stride()) {
    for (std::uint32_t c = 0; c < pad_; ++c) {
      const double value = x[floats.feature.empty() ? c : floats.feature[c]];
      if (columns_[c].is_read && is_inexact(value)) keys[c] = key_of_double(columns_[c], value);
    }
  }
}

}  // namespace scurry
