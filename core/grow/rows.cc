// Sorts rows by every feature, and divides them at a split.
#include "grow/rows.h"

#include <algorithm>
#include <numeric>

namespace scurry {

ColumnOrders::ColumnOrders(std::span<const float> values, std::size_t n_rows)
    : n_rows_(n_rows), values_(values.begin(), values.end()), orders_(values.size()) {
  for (std::size_t feature = 0; feature < n_features(); ++feature) {
    const float* column = this->values(feature);
    const auto first = orders_.begin() + static_cast<std::ptrdiff_t>(feature * n_rows_);
    const auto last = first + static_cast<std::ptrdiff_t>(n_rows_);
    std::iota(first, last, 0u);
    std::stable_sort(first, last, [column](std::uint32_t a, std::uint32_t b) { return column[a] < column[b]; });
  }
}

NodeRows::NodeRows(const ColumnOrders& columns, std::span<const std::int32_t> weights)
    : columns_(columns),
      n_rows_(weights.size() - static_cast<std::size_t>(std::count(weights.begin(), weights.end(), 0))),
      right_(n_rows_),
      goes_left_(weights.size()) {
  rows_.reserve(n_rows_ * columns.n_features());
  for (std::size_t feature = 0; feature < columns.n_features(); ++feature) {
    std::ranges::copy_if(columns.order(feature), std::back_inserter(rows_),
                         [&](std::uint32_t row) { return weights[row] > 0; });
  }
}

std::size_t NodeRows::split(Range node, Cut cut, bool into_leaves) {
  const float* values = columns_.values(cut.feature);
  for (const std::uint32_t row : rows(cut.feature, node)) goes_left_[row] = values[row] <= cut.threshold;
  std::size_t n_left = 0;
  for (std::size_t feature = 0; feature < (into_leaves ? 1 : columns_.n_features()); ++feature) {
    std::uint32_t* column = rows_.data() + feature * n_rows_ + node.begin;
    n_left = 0;
    std::size_t n_right = 0;
    // Both places are written and only one is counted: which way a row goes is too random for a branch.
    for (std::size_t at = 0; at < node.size(); ++at) {
      const std::uint32_t row = column[at];
      const std::size_t left = goes_left_[row];
      column[n_left] = row;
      right_[n_right] = row;
      n_left += left;
      n_right += 1 - left;
    }
    std::copy_n(right_.begin(), n_right, column + n_left);
  }
  return node.begin + n_left;
}

}  // namespace scurry
