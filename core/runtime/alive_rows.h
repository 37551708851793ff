// AliveRows: the rows of a block that have not stopped yet, kept together at the front of the block.
#pragma once

#include <bit>
#include <cstdint>

#include "runtime/walker.h"

namespace scurry {

struct AliveRows {
  Scratch& scratch;
  std::size_t stride, n_columns;  // words of a row's keys; columns of the by-column copy
  std::size_t width;              // sums per row
  std::uint32_t* keys;            // [n][stride], the block's rows
  std::uint32_t* ids;             // the place each row had when the block was loaded
  std::int32_t* sums;             // [n][width]
  std::uint64_t* exits;           // a bit per row, set if it stops; one word more than n rows need
  std::size_t n;

  // The space behind these rows, for n_entering new ones.
  AliveRows behind(std::size_t n_entering) const {
    return {scratch, stride, n_columns, width, keys + n * stride, ids + n, sums + n * width, exits, n_entering};
  }

  void mark_all() {
    for (std::size_t first = 0; first < n; first += kChunk) {
      exits[first / kChunk] = n - first < kChunk ? (std::uint64_t{1} << (n - first)) - 1 : ~std::uint64_t{0};
    }
  }

  // Removes the n_exits marked rows. Rows from the end fill the gaps, so there are never more moves than exits.
  void remove(std::size_t n_exits) {
    const std::size_t left = n - n_exits;
    if (n % kChunk == 0) exits[n / kChunk] = 0;  // so that next() finds an end
    std::size_t gap = 0;
    for (std::size_t from = next(left, 0); from < n; from = next(from + 1, 0)) {
      gap = next(gap, ~std::uint64_t{0});
      move(from, gap++);
    }
    n = left;
  }

  // The first row from `at` on that is marked (`marks` is all ones) or is not (`marks` is 0).
  std::size_t next(std::size_t at, std::uint64_t marks) const {
    std::uint64_t found = ~(exits[at / kChunk] ^ marks) >> (at % kChunk);
    while (found == 0) {
      at = (at / kChunk + 1) * kChunk;
      found = ~(exits[at / kChunk] ^ marks);
    }
    return at + static_cast<std::size_t>(std::countr_zero(found));
  }

  void move(std::size_t from, std::size_t to) {
    copy(keys + from * stride, stride, keys + to * stride);
    if (scratch.block.by_column != nullptr) {
      std::int32_t* column = scratch.columns.data();
      for (std::size_t c = 0; c < n_columns; ++c, column += scratch.block.column_stride) column[to] = column[from];
    }
    if (scratch.block.ranks.of_rows != nullptr) {
      std::uint8_t* column = scratch.ranks.data();
      for (std::size_t c = 0; c < scratch.block.ranks.n_columns; ++c, column += scratch.block.ranks.stride) {
        column[to] = column[from];
      }
    }
    ids[to] = ids[from];
    copy(sums + from * width, width, sums + to * width);
  }

  // A loop, because a call of memmove takes longer than copying these few words.
  template <class T>
  static void copy(const T* from, std::size_t n, T* to) {
    for (std::size_t i = 0; i < n; ++i) to[i] = from[i];
  }

  // Makes the block cover the rows that are left. The by-column copy is dropped when they are too few to be worth it.
  void fit_block() {
    Block& block = scratch.block;
    block.by_row = keys;
    if (n < kEnoughForColumns) block.drop_columns();
    block.n = round_up(n, block.has_columns() ? kChunk : kLanes);
  }

  static constexpr std::size_t kEnoughForColumns = Walker::kEnoughForColumns;
  static constexpr std::size_t kFew = 4;  // this many rows or fewer finish one by one, several trees at a time
};

}  // namespace scurry
