// ByteRanks: rows of tables as bytes. A value becomes its rank among the thresholds of its feature, a category its code,
// a missing value 255. Bytes take an eighth of the space of doubles, and engines turn them into keys by looking them up.
// Only forests whose features have few thresholds and categories can read bytes, which boosted models nearly always do.
//
// The keys of bytes are not those of the values, but no node can tell them apart. Whatever looks at keys otherwise, such
// as draws by the values of a row, must not be given bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/forest_view.h"

namespace scurry {

class Columns;

class ByteRanks {
 public:
  explicit ByteRanks(const ForestView& forest);
  ByteRanks(ByteRanks&&) noexcept;
  ~ByteRanks();

  bool available() const;   // all that is needed of a forest holds
  bool in_float32() const;  // which of both rank() takes: what the forest compares
  std::size_t n_features() const { return column_of_.size(); }

  // ranks[i] of value x[i] of a feature.
  template <class T>
  void rank(std::size_t feature, const T* x, std::size_t n, std::uint8_t* ranks) const;

 private:
  std::unique_ptr<const Columns> columns_;
  std::vector<std::int64_t> column_of_;  // of each feature, -1: no node reads it
};

}  // namespace scurry
