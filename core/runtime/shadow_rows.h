// ShadowRows: rows that were drawn from batches, copied one behind the other until they are looked at.
//
// Batches come far more often than their rows are looked at, so that a batch must cost next to nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "runtime/draws.h"
#include "runtime/forest_view.h"

namespace scurry {

class ShadowRows {
 public:
  ShadowRows(Draws draws, std::size_t n_features, bool is_float32)
      : draws_(std::move(draws)), n_features_(n_features), is_float32_(is_float32) {}

  // Draws rows of a batch whose first one has this number, and holds copies of them. Returns their places in the batch.
  std::vector<std::int64_t> draw(const RowsView& rows, std::int64_t first_number);
  // Holds copies of all these rows.
  void add(const RowsView& rows, std::span<const std::int64_t> numbers);
  void clear();

  std::int64_t none_before(std::int64_t number) { return draws_.none_before(number); }
  std::size_t n_features() const { return n_features_; }
  bool is_float32() const { return is_float32_; }
  // Values of the rows held, row by row: float32 or float64.
  std::span<const std::byte> values() const { return values_; }
  std::span<const std::int64_t> numbers() const { return numbers_; }

 private:
  void copy(const RowsView& rows, std::int64_t place);

  Draws draws_;
  std::size_t n_features_;
  bool is_float32_;
  std::vector<std::byte> values_;
  std::vector<std::int64_t> numbers_;
};

}  // namespace scurry
