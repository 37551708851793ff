// Copies of rows, whatever the order of the array that they lie in is.
#include "runtime/shadow_rows.h"

#include <cstring>

namespace scurry {

std::vector<std::int64_t> ShadowRows::draw(const RowsView& rows, std::int64_t first_number) {
  std::vector<std::int64_t> drawn = draws_.between(first_number, first_number + static_cast<std::int64_t>(rows.n_rows));
  numbers_.insert(numbers_.end(), drawn.begin(), drawn.end());
  for (std::int64_t& number : drawn) copy(rows, number -= first_number);
  return drawn;
}

void ShadowRows::add(const RowsView& rows, std::span<const std::int64_t> numbers) {
  numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
  for (std::size_t row = 0; row < rows.n_rows; ++row) copy(rows, static_cast<std::int64_t>(row));
}

void ShadowRows::clear() {
  values_.clear();
  numbers_.clear();
}

void ShadowRows::copy(const RowsView& rows, std::int64_t place) {
  const std::ptrdiff_t size = is_float32_ ? sizeof(float) : sizeof(double);
  const std::size_t end = values_.size();
  values_.resize(end + n_features_ * static_cast<std::size_t>(size));
  const char* from = static_cast<const char*>(rows.data) + place * rows.row_stride * size;
  std::byte* to = values_.data() + end;
  if (rows.column_stride == 1) {
    std::memcpy(to, from, n_features_ * static_cast<std::size_t>(size));
    return;
  }
  for (std::size_t column = 0; column < n_features_; ++column, from += rows.column_stride * size, to += size) {
    std::memcpy(to, from, static_cast<std::size_t>(size));
  }
}

}  // namespace scurry
