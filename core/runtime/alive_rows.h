// AliveRows: the rows of a block that have not stopped yet, kept together at the front of the block.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "runtime/walker.h"

namespace scurry {

struct AliveRows {
  Scratch& scratch;
  std::size_t stride, n_columns;  // words of a row's keys; columns of the by-column copy
  std::size_t width;              // sums per row
  std::size_t row_apart, sum_apart;  // sum k of row r is sums[r * row_apart + k * sum_apart]
  std::uint32_t* keys;            // [n][stride], the block's rows
  std::uint32_t* ids;             // the place each row had when the block was loaded
  std::int32_t* sums;
  std::uint64_t* exits;           // a bit per row, set if it stops; one word more than n rows need
  std::size_t n;

  // The space behind these rows, for n_entering new ones.
  AliveRows behind(std::size_t n_entering) const {
    AliveRows entering = *this;
    entering.keys += n * stride;
    entering.ids += n;
    entering.sums += n * row_apart;
    entering.n = n_entering;
    return entering;
  }

  std::int32_t sum(std::size_t at, std::size_t k) const { return sums[at * row_apart + k * sum_apart]; }

  void start_sums(std::span<const std::int32_t> start) {
    if (sum_apart == 1 && width > 1) {
      for (std::size_t at = 0; at < n; ++at) copy(start.data(), width, sums + at * width);
    } else {
      for (std::size_t k = 0; k < width; ++k) std::fill_n(sums + k * sum_apart, n, start[k]);
    }
  }

  void mark_all() {
    for (std::size_t first = 0; first < n; first += kChunk) {
      exits[first / kChunk] = n - first < kChunk ? (std::uint64_t{1} << (n - first)) - 1 : ~std::uint64_t{0};
    }
  }

  // Removes the n_exits marked rows. Rows from the end fill the gaps, so there are never more moves than exits; where
  // columns are all there is of rows, moving all rows of a column together may take less time.
  void remove(std::size_t n_exits) {
    const std::size_t left = n - n_exits;
    if (compresses()) {
      const Ranks& ranks = scratch.block.ranks;
      kernels().compress.words(ids, 1, 0, exits, n);
      kernels().compress.words(reinterpret_cast<std::uint32_t*>(sums), width, sum_apart, exits, n);
      kernels().compress.bytes(scratch.ranks.data(), ranks.n_columns, ranks.stride, exits, n);
      n = left;
      return;
    }
    if (n % kChunk == 0) exits[n / kChunk] = 0;  // so that there is an end
    std::size_t n_moves = 0;
    Move moves[kChunk];
    Bits gaps(exits, 0, 0), staying(exits, left, ~std::uint64_t{0});
    for (std::size_t from = staying.next(); from < n; from = staying.next()) {
      const std::size_t to = gaps.next();
      move_row(from, to);
      moves[n_moves++] = {static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to)};
      if (n_moves < kChunk) continue;
      move_rest({moves, n_moves});
      n_moves = 0;
    }
    move_rest({moves, n_moves});
    n = left;
  }

  bool compresses() const { return stride == 0 && row_apart == 1 && kernels().compress.bytes != nullptr; }

  // The rows from `at` on that are marked, or that are not (`flip` is all ones), one after another.
  class Bits {
   public:
    Bits(const std::uint64_t* words, std::size_t at, std::uint64_t flip)
        : words_(words),
          flip_(flip),
          word_(at / kChunk),
          left_((words[word_] ^ flip) >> (at % kChunk) << (at % kChunk)) {}

    std::size_t next() {
      while (left_ == 0) left_ = words_[++word_] ^ flip_;
      const std::size_t found = word_ * kChunk + static_cast<std::size_t>(std::countr_zero(left_));
      left_ &= left_ - 1;
      return found;
    }

   private:
    const std::uint64_t* words_;
    std::uint64_t flip_;
    std::size_t word_;
    std::uint64_t left_;
  };

  // Moves the little that lies by row.
  void move_row(std::size_t from, std::size_t to) {
    ids[to] = ids[from];
    if (width == 1) {
      sums[to] = sums[from];
    } else if (sum_apart == 1) {
      copy(sums + from * width, width, sums + to * width);
    }
  }

  // Moves keys, and column by column what lies so: each in other cache lines.
  void move_rest(std::span<const Move> moves) {
    if (stride > 0) kernels().encode.move(keys, stride, moves.data(), moves.size());
    const auto move = [&](auto* column, std::size_t n_of_these, std::size_t apart) {
      for (std::size_t c = 0; c < n_of_these; ++c, column += apart) {
        for (const auto [from, to] : moves) column[to] = column[from];
      }
    };
    const Block& block = scratch.block;
    if (sum_apart != 1 && width > 1) move(sums, width, sum_apart);
    if (block.by_column != nullptr) move(scratch.columns.data(), n_columns, block.column_stride);
    if (block.ranks.of_rows != nullptr) move(scratch.ranks.data(), block.ranks.n_columns, block.ranks.stride);
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

// How the sums of rows lie: `width` of them, next to each other or one array after the other.
struct SumLayout {
  std::span<const std::int32_t> start;  // of every row, as many as it has sums
  bool by_row = true;
};

// Runs rows [first, first + n), which enter in lots so small that their keys stay in the first-level cache for the
// trees that all of them evaluate: enter(rows) evaluates these trees. The rows that continue are gathered, up to as many
// as the second-level cache holds, and finish(rows) evaluates their other trees. Both remove the rows that stop. With
// ranks, which are a byte, all rows of a block enter at once, and finish() may evaluate the first trees too.
template <class Enter, class Finish>
void run_in_lots(const Walker& walker, const RowsView& rows, std::size_t first, std::size_t n, const SumLayout& layout,
                 const Enter& enter, const Finish& finish) {
  constexpr std::size_t kEntryBytes = 24 * 1024, kGatheredBytes = 512 * 1024;
  thread_local AlignedVector<std::uint32_t> ids;
  thread_local AlignedVector<std::int32_t> sums;
  thread_local std::vector<std::uint64_t> exits;
  Scratch& scratch = Scratch::of_this_thread();
  const std::size_t most = walker.rows_in(kGatheredBytes);
  const std::size_t n_entering = walker.has_ranks() ? most : walker.rows_in(kEntryBytes);
  const std::size_t room = round_up(std::min(n, most + n_entering), kChunk) + kChunk, width = layout.start.size();
  walker.reserve(room, scratch);
  ids.resize(room);
  sums.resize(room * width);
  exits.resize(room / kChunk);
  AliveRows alive{.scratch = scratch,
                  .stride = walker.columns().stride(),
                  .n_columns = walker.columns().pad() + 1,
                  .width = width,
                  .row_apart = layout.by_row ? width : 1,
                  .sum_apart = layout.by_row ? 1 : room,
                  .keys = scratch.keys.data(),
                  .ids = ids.data(),
                  .sums = sums.data(),
                  .exits = exits.data(),
                  .n = 0};
  bool has_missing = false;
  for (std::size_t row = 0; row < n;) {
    AliveRows entering = alive.behind(std::min(n_entering, n - row));
    walker.load(rows, first + row, entering.n, scratch, alive.n, entering.n);
    has_missing |= scratch.block.has_missing;
    std::iota(entering.ids, entering.ids + entering.n, static_cast<std::uint32_t>(row));
    entering.start_sums(layout.start);
    row += entering.n;
    enter(entering);
    alive.n += entering.n;
    if (row < n && alive.n < most) continue;
    scratch.block = {alive.keys, nullptr, 0, round_up(alive.n, kChunk), has_missing};
    finish(alive);
    alive.n = 0;
  }
}

}  // namespace scurry
