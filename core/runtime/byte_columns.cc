// Keys of rows that are bytes (byte_rows.h), which are looked up.
#include <stdexcept>

#include "runtime/byte_rows.h"
#include "runtime/columns.h"

namespace scurry {

// Encodes, for each byte, a row of the numbers that it stands for.
void Columns::describe_bytes(const ForestView& forest) {
  constexpr std::size_t kMaxColumns = 1024;  // a kilobyte each
  const ByteRanks bytes(forest);
  if (!bytes.available() || size() > kMaxColumns) return;
  std::vector<double> values(kByteValues * forest.n_features);
  for (std::size_t byte = 0; byte < kByteValues; ++byte) {
    for (std::size_t feature = 0; feature < forest.n_features; ++feature) {
      values[byte * forest.n_features + feature] = bytes.value_of(feature, static_cast<std::uint8_t>(byte));
    }
  }
  AlignedVector<std::uint32_t> keys(kByteValues * stride());
  encode({values.data(), kByteValues, static_cast<std::ptrdiff_t>(forest.n_features), 1, false}, 0, kByteValues,
         keys.data());
  key_of_byte_.resize(kByteValues * size());
  for (std::size_t c = 0; c < size(); ++c) {
    for (std::size_t byte = 0; byte < kByteValues; ++byte) {
      key_of_byte_[c * kByteValues + byte] = keys[byte * stride() + c];
    }
  }
}

std::uint32_t Columns::key_of_byte(std::uint32_t column, std::uint8_t byte) const {
  return key_of_byte_[column * kByteValues + byte];
}

bool Columns::encode_bytes(const std::uint8_t* x, const RowsView& rows, std::size_t n, std::uint32_t* keys) const {
  if (key_of_byte_.empty()) throw std::invalid_argument("rows of this forest cannot be bytes");
  bool any_missing = false;
  for (std::uint32_t c = 0; c < size(); ++c) {
    const std::uint32_t* key_of = key_of_byte_.data() + c * kByteValues;
    const std::uint8_t* from = x + static_cast<std::ptrdiff_t>(columns_[c].feature) * rows.column_stride;
    std::uint32_t* to = keys + c;
    for (std::size_t row = 0; row < n; ++row, from += rows.row_stride, to += stride()) *to = key_of[*from];
    if (!columns_[c].mixed) continue;
    for (std::size_t row = 0; row < n; ++row) any_missing |= keys[row * stride() + c] == kNanKey;
  }
  return any_missing;
}

}  // namespace scurry
