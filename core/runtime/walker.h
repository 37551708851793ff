// Walker: a lowered forest that takes blocks of rows to their leaves. It is immutable and shared by threads; each
// thread brings a Scratch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/kernels.h"
#include "runtime/aligned.h"
#include "runtime/columns.h"
#include "runtime/parallel.h"
#include "runtime/sliced.h"
#include "runtime/symmetric.h"
#include "runtime/trees.h"

namespace scurry {

// Buffers of one thread, kept between calls: predicting one row must not allocate.
struct Scratch {
  AlignedVector<std::uint32_t> keys, payload, walk;
  AlignedVector<std::int32_t> columns;
  AlignedVector<std::uint8_t> ranks;
  Block block{};

  static Scratch& of_this_thread();
};

class Walker {
 public:
  Walker(const ForestView& forest, Leaves leaves);
  // Of trees that are walked; of those, store() writes the parts.
  Walker(const ForestView& forest, const EngineParts& parts, PayloadRange payloads);
  Walker(const Walker&) = delete;  // narrow_ and wide_ point into trees_
  Walker(Walker&&) = default;

  void store(StoredEngine& out) const;

  const Columns& columns() const { return columns_; }
  const std::vector<Tree>& trees() const { return trees_.trees(); }
  std::vector<std::int32_t> take_origins() { return trees_.take_origins(); }
  std::size_t bytes() const {
    return trees_.bytes() + (symmetric_ ? symmetric_->bytes() : 0) + (sliced_ ? sliced_->bytes() : 0) +
           (tops_ ? tops_->bytes() : 0);
  }
  // Which loop blocks of rows run through.
  const char* loop() const { return symmetric_ ? "symmetric" : sliced_ ? "sliced" : "walked"; }
  // Whether the top levels of walked trees are sliced.
  bool slices_tops() const { return tops_.has_value(); }
  // About how long evaluating a tree takes for each of n rows, compared with walking it in a batch.
  double cost_of_tree(std::size_t n) const;
  const std::optional<Symmetric>& symmetric() const { return symmetric_; }
  const std::optional<Sliced>& sliced() const { return sliced_; }

  // Makes space for n rows, a multiple of kChunk. Loading up to that many moves nothing that is already loaded.
  void reserve(std::size_t n, Scratch& scratch) const;
  // Encodes rows [first, first + n) as the block of the scratch, from place `at` of its keys on, and pads it with rows
  // of zero keys. The rows `ahead` of these are prefetched (0: none).
  void load(const RowsView& rows, std::size_t first, std::size_t n, Scratch& scratch, std::size_t at = 0,
            std::size_t ahead = 0) const;
  // Whether a by-column copy pays for n rows that stop soon. They hardly use it, and every row that is moved has to be
  // moved there too, but a rank is only a byte.
  bool worth_columns(std::size_t n) const;
  // Whether that copy is one of ranks.
  bool has_ranks() const { return ranked() != nullptr; }
  // Makes the by-column copy of the block that walks are fastest with: keys, or ranks in symmetric and sliced trees. It
  // pays from half a chunk of rows on.
  void index_columns(Scratch& scratch) const;
  // The same for walks through all trees by all rows, whose top levels may then be sliced.
  void index_for_all(Scratch& scratch) const;
  // Makes the copy of keys, which alone helps descend().
  void index_keys(Scratch& scratch) const;
  // payload[row] of the leaf each row of the block reaches in a tree.
  void walk(const Tree& tree, Scratch& scratch) const { walk(tree, scratch, scratch.payload.data()); }
  void walk(const Tree& tree, Scratch& scratch, std::uint32_t* payload) const;
  // payload[row] becomes the place in the tree of the node each row reaches after `levels` levels; a leaf is not left.
  void descend(const Tree& tree, std::uint32_t levels, Scratch& scratch) const;

  // Encodes one row into the scratch's keys, with room for `n_payloads`.
  void load_row(const RowsView& rows, std::size_t row, std::size_t n_payloads, Scratch& scratch) const;
  // payload[i] of the leaf that the row with these keys reaches in trees[i].
  void walk_row(const Tree* trees, std::size_t n, const std::uint32_t* keys, std::uint32_t* payload) const;
  // payload[tree] of the leaf that it reaches in every tree of the forest.
  void walk_row(const std::uint32_t* keys, std::uint32_t* payload) const;
  // Takes a tree step in trees[0], then in trees[1], and so on; at[tree] is the node of the row in the array of all
  // nodes.
  void take_steps(const std::uint32_t* trees, std::size_t n, const std::uint32_t* keys, std::uint32_t* at) const;

  static constexpr std::size_t kEnoughForColumns = kChunk / 2;

  // How many rows have keys that fit in this many bytes, a multiple of kChunk.
  std::size_t rows_in(std::size_t bytes) const {
    return std::max(kChunk, bytes / (columns_.stride() * sizeof(std::uint32_t)) / kChunk * kChunk);
  }

  // Calls work(first, n) for blocks of rows, on several threads. `row_bytes` is what the work keeps of each row. An
  // exception in any thread is rethrown.
  template <class Work>
  void for_each_block(std::size_t n_rows, std::size_t n_threads, std::size_t row_bytes, Work work) const;

 private:
  void begin_walks();
  void make_ranks(const RankedColumns& by, Scratch& scratch) const;
  std::size_t block_rows(std::size_t row_bytes) const;
  // What the ranks of rows are made by, if trees are evaluated with ranks.
  const RankedColumns* ranked() const {
    return symmetric_ ? &symmetric_->ranks() : sliced_ ? &sliced_->ranks() : nullptr;
  }

  Columns columns_;
  std::optional<Symmetric> symmetric_;
  Trees trees_;
  std::optional<Sliced> sliced_;  // if they are not symmetric
  std::optional<Sliced> tops_;    // of trees that are walked
  Walk<NarrowNode> narrow_;
  Walk<WideNode> wide_;
};

// The least multiple of `unit` that is at least n.
std::size_t round_up(std::size_t n, std::size_t unit);

// Calls work(first, n) for ranges of at most max_rows rows, on several threads. An exception in any thread is rethrown.
template <class Work>
void for_each_range(std::size_t n_rows, std::size_t max_rows, std::size_t n_threads, Work work) {
  std::size_t range = std::max(max_rows, kChunk);
  // At least four ranges per thread, so that a slow thread does not keep the others waiting.
  if (n_threads > 1) range = round_up(std::min(range, std::max(kChunk, n_rows / (4 * n_threads))), kChunk);
  parallel_for((n_rows + range - 1) / range, n_threads,
               [&](std::size_t r) { work(r * range, std::min(range, n_rows - r * range)); });
}

template <class Work>
void Walker::for_each_block(std::size_t n_rows, std::size_t n_threads, std::size_t row_bytes, Work work) const {
  for_each_range(n_rows, block_rows(row_bytes), n_threads, work);
}

}  // namespace scurry
