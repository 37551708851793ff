// AliveRows: the rows of a block that have not stopped, kept together at its front.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "walker.h"

namespace scurry {

struct AliveRows {
  Scratch& scratch;
  std::size_t stride, n_columns;  // words of a row's keys; columns of the by-column copy
  std::size_t width;              // sums per row
  std::uint32_t* keys;            // [n][stride], the block's rows
  std::uint32_t* ids;             // each row's place in the block as it was loaded
  std::int32_t* sums;             // [n][width]
  std::uint32_t* policies;        // of each row, null if there is only one
  std::uint32_t* exits;           // room for n places
  std::size_t n;

  std::uint32_t policy_of(std::size_t at) const { return policies != nullptr ? policies[at] : 0; }

  // Closes the gaps of the first n_exits `exits` (ascending) with rows from the end: never more moves than exits.
  void remove(std::size_t n_exits) {
    const std::size_t left = n - n_exits;
    std::size_t in_tail = std::lower_bound(exits, exits + n_exits, static_cast<std::uint32_t>(left)) - exits;
    std::size_t gap = 0;
    for (std::size_t from = left; from < n; ++from) {
      if (in_tail < n_exits && exits[in_tail] == from) {
        ++in_tail;
      } else {
        move(from, exits[gap++]);
      }
    }
    n = left;
  }

  void move(std::size_t from, std::size_t to) {
    copy(keys + from * stride, stride, keys + to * stride);
    if (scratch.block.by_column != nullptr) {
      std::uint32_t* column = scratch.columns.data();
      for (std::size_t c = 0; c < n_columns; ++c, column += scratch.block.column_stride) column[to] = column[from];
    }
    ids[to] = ids[from];
    if (policies != nullptr) policies[to] = policies[from];
    copy(sums + from * width, width, sums + to * width);
  }

  // A few words: less than a call of memmove takes.
  template <class T>
  static void copy(const T* from, std::size_t n, T* to) {
    for (std::size_t i = 0; i < n; ++i) to[i] = from[i];
  }

  // Makes the block cover the rows that are left; too few of them are not worth the by-column copy.
  void fit_block() {
    Block& block = scratch.block;
    if (n < kEnoughForColumns) block.by_column = nullptr;
    block.n = round_up(n, block.by_column != nullptr ? kChunk : kLanes);
  }

  // Whether the by-column copy pays: rows that soon stop use it little, and each move has to mend it.
  bool worth_columns() const { return n >= kEnoughForColumns && n_columns <= 32; }

  static constexpr std::size_t kEnoughForColumns = kChunk / 2;
  static constexpr std::size_t kFew = 4;  // as many or fewer finish one by one, many trees at a time
};

}  // namespace scurry
