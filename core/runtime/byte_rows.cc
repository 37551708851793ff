// Ranks values by the columns of a forest, which are those of all its engines.
#include "runtime/byte_rows.h"

#include <algorithm>

#include "runtime/columns.h"

namespace scurry {

ByteRanks::ByteRanks(const ForestView& forest)
    : columns_(std::make_unique<const Columns>(forest)), column_of_(forest.n_features, -1) {
  for (std::uint32_t c = 0; c < columns_->size(); ++c) {
    if (columns_->is_read(c)) column_of_[columns_->feature_of(c)] = c;
  }
}

ByteRanks::ByteRanks(ByteRanks&&) noexcept = default;
ByteRanks::~ByteRanks() = default;

bool ByteRanks::available() const { return columns_->takes_bytes(); }

bool ByteRanks::in_float32() const { return columns_->in_float32(); }

template <class T>
void ByteRanks::rank(std::size_t feature, const T* x, std::size_t n, std::uint8_t* ranks) const {
  if (column_of_[feature] < 0) {
    std::fill_n(ranks, n, std::uint8_t{0});
  } else {
    columns_->rank(static_cast<std::uint32_t>(column_of_[feature]), x, n, ranks);
  }
}

template void ByteRanks::rank(std::size_t, const float*, std::size_t, std::uint8_t*) const;
template void ByteRanks::rank(std::size_t, const double*, std::size_t, std::uint8_t*) const;

}  // namespace scurry
