#include "columns.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <tuple>

namespace scurry {
namespace {

constexpr double kZeroThreshold = static_cast<double>(1e-35f);

Missing missing_of(const ForestView& forest, std::size_t node) {
  if (forest.category_set[node] >= 0) return Missing::kCategory;
  const bool left = forest.default_left[node] != 0;
  switch (static_cast<MissingKind>(forest.missing[node])) {
    case MissingKind::kNothing: return Missing::kAsZero;
    case MissingKind::kNanAndZero: return left ? Missing::kZeroLeft : Missing::kZeroRight;
    case MissingKind::kNan: break;
  }
  return left ? Missing::kLeft : Missing::kRight;
}

// The largest number that still goes left.
double last_left(const ForestView& forest, std::size_t node) {
  const double threshold = forest.threshold[node];
  return forest.strict_comparison ? std::nextafter(threshold, -std::numeric_limits<double>::infinity()) : threshold;
}

float round_down(double x) {
  const float nearest = static_cast<float>(x);
  return static_cast<double>(nearest) > x ? std::nextafterf(nearest, -std::numeric_limits<float>::infinity()) : nearest;
}

bool is_numeric(const Column& column) { return column.missing != Missing::kCategory; }

}  // namespace

Columns::Columns(const ForestView& forest)
    : float32_(forest.float32_input), truncate_categories_(forest.truncate_categories) {
  collect(forest);
  if (!float32_) rank_thresholds(forest);
  // Strides the kernels know at compile time: rows are then addressed from one base register.
  constexpr std::uint32_t kStrides[] = {16, 32, 48, 64, 128};
  stride_ = (size() + 15) / 16 * 16;
  for (std::uint32_t stride : kStrides) {
    if (size() <= stride) {
      stride_ = stride;
      break;
    }
  }
  plain_ = contiguous_ = float32_;
  for (std::uint32_t c = 0; c < pad_; ++c) {
    const Missing missing = columns_[c].missing;
    plain_ = plain_ && missing != Missing::kZeroLeft && missing != Missing::kZeroRight;
    contiguous_ = contiguous_ && plain_ && columns_[c].feature == c;
    nan_keys_.push_back(missing == Missing::kRight ? kNanKey : missing == Missing::kLeft ? 0 : ordered_key(0.0f));
  }
}

// One column per (feature, missing rule) in use, ordered by feature within numeric and categorical.
void Columns::collect(const ForestView& forest) {
  std::map<std::tuple<bool, std::int32_t, Missing>, std::uint32_t> index;
  for (std::size_t node = 0; node < forest.n_nodes(); ++node) {
    if (forest.left[node] < 0) continue;
    const Missing missing = missing_of(forest, node);
    index.try_emplace({missing == Missing::kCategory, forest.feature[node], missing}, 0);
  }
  bool padded = false;
  for (auto& [key, column] : index) {
    const auto& [categorical, feature, missing] = key;
    if (categorical && !padded) {
      pad_ = size();
      columns_.push_back({0, Missing::kLeft});
      padded = true;
    }
    column = size();
    columns_.push_back({static_cast<std::uint32_t>(feature), missing});
  }
  if (!padded) {
    pad_ = size();
    columns_.push_back({0, Missing::kLeft});
  }
  node_column_.assign(forest.n_nodes(), pad_);
  for (std::size_t node = 0; node < forest.n_nodes(); ++node) {
    if (forest.left[node] < 0) continue;
    const Missing missing = missing_of(forest, node);
    node_column_[node] = index.find({missing == Missing::kCategory, forest.feature[node], missing})->second;
  }
}

void Columns::rank_thresholds(const ForestView& forest) {
  std::vector<std::vector<double>> of_column(columns_.size());
  for (std::size_t node = 0; node < forest.n_nodes(); ++node) {
    if (forest.left[node] >= 0) of_column[node_column_[node]].push_back(last_left(forest, node));
  }
  for (std::size_t c = 0; c < pad_; ++c) {
    auto& sorted = of_column[c];
    std::sort(sorted.begin(), sorted.end());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    columns_[c].first_threshold = static_cast<std::uint32_t>(thresholds_.size());
    columns_[c].n_thresholds = static_cast<std::uint32_t>(std::bit_ceil(sorted.size() + 1));
    thresholds_.insert(thresholds_.end(), sorted.begin(), sorted.end());
    thresholds_.resize(columns_[c].first_threshold + columns_[c].n_thresholds, std::numeric_limits<double>::infinity());
  }
}

std::uint32_t Columns::key_of_node(const ForestView& forest, std::size_t node) const {
  const Column& column = columns_[node_column_[node]];
  if (float32_) {
    const double threshold = forest.threshold[node];
    const float down = round_down(threshold);
    const bool exclude = forest.strict_comparison && static_cast<double>(down) == threshold;
    return ordered_key(down) - (exclude ? 1 : 0);
  }
  const auto first = thresholds_.begin() + column.first_threshold;
  return static_cast<std::uint32_t>(std::lower_bound(first, first + column.n_thresholds, last_left(forest, node)) - first);
}

void Columns::encode(const RowsView& rows, std::size_t first, std::size_t n, std::uint32_t* keys) const {
  if (rows.is_float32) {
    encode_rows(static_cast<const float*>(rows.data) + static_cast<std::ptrdiff_t>(first) * rows.row_stride, rows, n, keys);
  } else {
    encode_rows(static_cast<const double*>(rows.data) + static_cast<std::ptrdiff_t>(first) * rows.row_stride, rows, n, keys);
  }
}

template <class T>
void Columns::encode_rows(const T* x, const RowsView& rows, std::size_t n, std::uint32_t* keys) const {
  std::uint32_t first_column = 0;
  if (plain_ && rows.column_stride == 1) {
    const std::uint32_t* nan_keys = nan_keys_.data();
    const auto key_of = [](float value, std::uint32_t nan_key) {
      const std::uint32_t key = ordered_key(value);  // computed for NaN too: a select, not a branch
      return value != value ? nan_key : key;
    };
    for (std::size_t row = 0; row < n; ++row) {
      const T* from = x + static_cast<std::ptrdiff_t>(row) * rows.row_stride;
      std::uint32_t* to = keys + row * stride_;
      if (contiguous_) {
        for (std::uint32_t c = 0; c < pad_; ++c) to[c] = key_of(static_cast<float>(from[c]), nan_keys[c]);
      } else {
        for (std::uint32_t c = 0; c < pad_; ++c) to[c] = key_of(static_cast<float>(from[columns_[c].feature]), nan_keys[c]);
      }
      to[pad_] = 0;
    }
    first_column = pad_ + 1;
  }
  for (std::uint32_t c = first_column; c < size(); ++c) {
    if (c == pad_) {
      for (std::size_t row = 0; row < n; ++row) keys[row * stride_ + c] = 0;
    } else {
      const std::ptrdiff_t offset = static_cast<std::ptrdiff_t>(columns_[c].feature) * rows.column_stride;
      encode_column(columns_[c], x + offset, rows.row_stride, n, keys + c);
    }
  }
}

template <class T>
void Columns::encode_column(const Column& column, const T* x, std::ptrdiff_t x_stride, std::size_t n,
                            std::uint32_t* keys) const {
  const auto at = [&](std::size_t row) { return x[static_cast<std::ptrdiff_t>(row) * x_stride]; };
  if (!is_numeric(column)) {
    for (std::size_t row = 0; row < n; ++row) {
      double value = float32_ ? static_cast<double>(static_cast<float>(at(row))) : static_cast<double>(at(row));
      std::uint32_t key = kNanKey;
      if (value == value) {
        value = truncate_categories_ ? std::trunc(value) : std::floor(value);
        key = value >= 0 && value < static_cast<double>(kNoCategory) ? static_cast<std::uint32_t>(value) : kNoCategory;
      }
      keys[row * stride_] = key;
    }
    return;
  }
  const bool zero_missing = column.missing == Missing::kZeroLeft || column.missing == Missing::kZeroRight;
  const std::uint32_t missing_key =
      column.missing == Missing::kRight || column.missing == Missing::kZeroRight ? kNanKey : 0;
  const double* thresholds = thresholds_.data() + column.first_threshold;
  for (std::size_t row = 0; row < n; ++row) {
    double value = float32_ ? static_cast<double>(static_cast<float>(at(row))) : static_cast<double>(at(row));
    bool missing = value != value;
    if (missing && column.missing == Missing::kAsZero) {
      value = 0.0;
      missing = false;
    }
    if (zero_missing) missing = missing || std::fabs(value) <= kZeroThreshold;
    std::uint32_t key = 0;
    if (float32_) {
      key = ordered_key(static_cast<float>(value));
    } else {
      for (std::uint32_t half = column.n_thresholds / 2; half > 0; half /= 2) {
        key += thresholds[key + half - 1] < value ? half : 0;
      }
    }
    keys[row * stride_] = missing ? missing_key : key;
  }
}

}  // namespace scurry
