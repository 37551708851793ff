// Walker: a lowered forest that takes blocks of rows to their leaves. It is immutable and shared by threads; each
// thread brings a Scratch. Several walkers may share one lowered forest, each with payloads of its own.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "runtime/aligned.h"
#include "runtime/columns.h"
#include "runtime/made_once.h"
#include "runtime/parallel.h"
#include "runtime/sliced.h"
#include "runtime/symmetric.h"
#include "runtime/trees.h"

namespace scurry {

// The least multiple of `unit` that is at least n.
std::size_t round_up(std::size_t n, std::size_t unit);

// Buffers of one thread, kept between calls: predicting one row must not allocate.
struct Scratch {
  AlignedVector<std::uint32_t> keys, payload, walk, tops;
  AlignedVector<std::int32_t> columns;
  AlignedVector<std::uint8_t> ranks;
  Block block{};

  static Scratch& of_this_thread();
};

// The size of at most max_rows rows of which n_rows are made with no more ranges than needed, and all about as large.
inline std::size_t even_range(std::size_t n_rows, std::size_t max_rows) {
  const std::size_t n_ranges = std::max<std::size_t>((n_rows + max_rows - 1) / max_rows, 1);
  return round_up((n_rows + n_ranges - 1) / n_ranges, kChunk);
}

// Calls work(first, n) for ranges of at most max_rows rows, on several threads. An exception in any thread is rethrown.
template <class Work>
void for_each_range(std::size_t n_rows, std::size_t max_rows, std::size_t n_threads, Work work) {
  std::size_t range = std::max(max_rows, kChunk);
  // At least four ranges per thread, so that a slow thread does not keep the others waiting.
  if (n_threads > 1) range = round_up(std::min(range, std::max(kChunk, n_rows / (4 * n_threads))), kChunk);
  parallel_for((n_rows + range - 1) / range, n_threads,
               [&](std::size_t r) { work(r * range, std::min(range, n_rows - r * range)); });
}

class Walker {
 public:
  Walker(const ForestView& forest, const Leaves& leaves);
  // Of trees that are not symmetric; of those, store() writes the parts. What slices trees is made of them again, because
  // it is not the same on every machine.
  Walker(const ForestView& forest, const EngineParts& parts, PayloadRange payloads);
  // The trees of another one, whose leaves have the payload payload_of[p & mask] where theirs is p; or p, if it is empty.
  Walker(const Walker& shared, std::uint32_t mask, std::span<const std::uint32_t> payload_of);

  void store(StoredEngine& out) const;

  std::size_t n_features() const { return lowered_->n_features; }
  const Columns& columns() const { return lowered_->columns; }
  const std::vector<Tree>& trees() const { return lowered_->trees.trees(); }
  // The node of the forest that each lowered node stands for, if Leaves::keep_origins.
  std::vector<std::int32_t> take_origins() { return std::move(origins_); }
  // All that is read, of which shared_bytes() are those of another walker as well.
  std::size_t bytes() const;
  std::size_t shared_bytes() const { return is_shared() ? bytes_of_lowered() : 0; }
  bool is_shared() const { return is_shared_; }
  // The payload of the leaves that have another one in the trees that are shared.
  std::uint32_t own(std::uint32_t payload) const { return payload_of_.empty() ? payload : payload_of_[payload & mask_]; }
  // Calls visit(payload) for the leaves of a tree, some of them several times.
  template <class Visit>
  void for_each_leaf(const Tree& tree, Visit visit) const;
  // Whether the trees would be much smaller, or have a faster loop, if leaves of equal payload were merged: then they are
  // not worth sharing.
  bool should_merge() const;
  // Which loop blocks of rows run through.
  const char* loop() const { return symmetric() ? "symmetric" : sliced() ? "sliced" : "walked"; }
  // Whether the top levels of walked trees are sliced, or all of their levels, where all rows go through all trees.
  bool slices_tops() const { return slices().tops.has_value(); }
  // The walked trees if all of their levels are, else null.
  const Sliced* large() const { return slices_tops() && slices().tops->is_large() ? &*slices().tops : nullptr; }
  // About how long evaluating a tree takes for each of n rows, compared with walking it in a batch.
  double cost_of_tree(std::size_t n) const;
  const std::optional<Symmetric>& symmetric() const { return lowered_->symmetric; }
  const std::optional<Sliced>& sliced() const { return slices().sliced; }
  // Makes what rows are predicted by now, which the first rows would wait for otherwise.
  void prepare() const { slices(); }

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
  // Loads rows and makes that copy for walks through all trees by all of them; top levels may then be sliced. Where trees
  // need nothing but ranks, the block has no keys: rows that are bytes become ranks at once.
  void load_for_all(const RowsView& rows, std::size_t first, std::size_t n, Scratch& scratch) const;
  // Makes the block of rows [first, first + n) with nothing but their ranks, if there are any: a few rows at a time, whose
  // keys stay in the nearest cache and are not kept.
  void load_ranks(const RowsView& rows, std::size_t first, std::size_t n, Scratch& scratch) const {
    load_ranks(*ranked(), rows, first, n, scratch);
  }
  // Makes the copy of keys, which alone helps descend().
  void index_keys(Scratch& scratch) const;
  // Fetches the nodes of a tree that n rows will soon be walked in. After other work they may be in no cache, and a walk
  // would wait for one node after another.
  void fetch_ahead(const Tree& tree, std::size_t n) const;
  // payload[row] of the leaf each row of the block reaches in a tree.
  void walk(const Tree& tree, Scratch& scratch) const { walk(tree, scratch, scratch.payload.data()); }
  void walk(const Tree& tree, Scratch& scratch, std::uint32_t* payload) const;
  // Calls visit(i, payload) with the payloads of trees[0], of trees[1], and so on; it must not remove rows but at the last.
  template <class Visit>
  void walk_each(std::span<const Tree> trees, Scratch& scratch, Visit visit) const;
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
    return std::max(kChunk, bytes / (columns().stride() * sizeof(std::uint32_t)) / kChunk * kChunk);
  }

  // Calls work(first, n) for blocks of rows, on several threads. `row_bytes` is what the work keeps of each row. An
  // exception in any thread is rethrown.
  template <class Work>
  void for_each_block(std::size_t n_rows, std::size_t n_threads, std::size_t row_bytes, Work work) const {
    // A short block would fetch the nodes of large trees for few rows.
    for_each_range(n_rows, even_range(n_rows, block_rows(row_bytes)), n_threads, work);
  }
  // The same for blocks that load_for_all() makes.
  template <class Work>
  void for_each_block_for_all(std::size_t n_rows, std::size_t n_threads, std::size_t row_bytes, Work work) const {
    if (n_rows < kEnoughForColumns) return for_each_range(n_rows, kChunk, n_threads, work);
    if (ranked_for_all() == nullptr) return for_each_block(n_rows, n_threads, row_bytes, work);
    for_each_range(n_rows, ranked_block_rows(row_bytes), n_threads, work);
  }

 private:
  // How trees are evaluated without walking them, where that is faster.
  struct Slices {
    std::optional<Sliced> sliced;  // if they are not symmetric
    std::optional<Sliced> tops;    // of trees that are walked, or all of them
    AlignedVector<std::uint8_t> rank_of_byte;  // [column of ranks for all][256]; empty: bytes become keys first
  };

  struct Lowered {
    Lowered(const ForestView& forest, const Leaves& leaves);
    Lowered(const ForestView& forest, const EngineParts& parts, PayloadRange payloads);
    Lowered(const Lowered&) = delete;  // narrow and wide point into trees
    void begin_walks();
    Slices slice() const;

    std::size_t n_features;
    Columns columns;
    std::optional<Symmetric> symmetric;
    Trees trees;
    Walk<NarrowNode> narrow;
    Walk<WideNode> wide;
    bool may_slice = true;       // whole trees, unless a file says that they cannot be
    bool may_slice_rows = false;  // also for single rows
    // Made when the first batch comes, or after so many single rows that these have taken as long: slicing small trees takes
    // longer than all else between a file and the first answer, and as much memory as the nodes.
    MadeOnce<Slices> slices;
    mutable std::atomic<std::uint32_t> n_walked{0};  // single rows before that
  };

  void load_ranks(const RankedColumns& by, const RowsView& rows, std::size_t first, std::size_t n,
                  Scratch& scratch) const;
  void make_ranks(const RankedColumns& by, Scratch& scratch) const;
  void rank_bytes(const RowsView& rows, std::size_t first, std::size_t n, Scratch& scratch) const;
  // Whether the top levels of several trees are tested together.
  bool tests_tops() const {
    return !lowered_->trees.is_wide() && !columns().has_categories() && columns().stride() == kernels().tops_stride;
  }
  std::size_t block_rows(std::size_t row_bytes) const;
  std::size_t ranked_block_rows(std::size_t row_bytes) const;
  std::size_t bytes_of_lowered() const;
  // Of n payloads of the lowered forest, makes those of this walker.
  void look_up(std::size_t n, std::uint32_t* payload) const {
    if (!payload_of_.empty()) kernels().sums.look_up(payload_of_.data(), mask_, n, payload);
  }
  // By leaf of symmetric or sliced trees; null: as these have them.
  const std::uint32_t* of_leaf() const { return payload_of_leaf_.empty() ? nullptr : payload_of_leaf_.data(); }
  const Slices& slices() const {
    return lowered_->slices.get([this] { return lowered_->slice(); });
  }
  // Whether a single row is to be answered by slices.
  bool slices_row() const;
  // What the ranks of rows are made by, if trees are evaluated with ranks.
  const RankedColumns* ranked() const {
    return symmetric() ? &symmetric()->ranks() : sliced() ? &sliced()->ranks() : nullptr;
  }
  // The same if all rows go through all trees, and with nothing but ranks.
  const RankedColumns* ranked_for_all() const { return large() != nullptr ? &large()->ranks() : ranked(); }

  std::shared_ptr<const Lowered> lowered_;
  std::vector<std::int32_t> origins_;
  bool is_shared_ = false;
  // If payloads are not those of the lowered forest:
  std::uint32_t mask_ = 0;
  std::vector<std::uint32_t> payload_of_;
  std::vector<std::uint32_t> payload_of_leaf_;  // of symmetric or sliced trees, by leaf as they number them
};

template <class Visit>
void Walker::for_each_leaf(const Tree& tree, Visit visit) const {
  const auto in = [&](const auto& nodes) {
    const std::size_t end = tree.index + 1 < trees().size() ? trees()[tree.index + 1].first : lowered_->trees.size();
    for (std::size_t at = tree.first; at < end; ++at) {
      if (nodes[at].left == 0) visit(own(nodes[at].key));
    }
  };
  lowered_->trees.is_wide() ? in(lowered_->trees.wide()) : in(lowered_->trees.narrow());
}

template <class Visit>
void Walker::walk_each(std::span<const Tree> each, Scratch& scratch, Visit visit) const {
  if (!tests_tops() || scratch.block.has_columns()) {
    for (std::size_t i = 0; i < each.size(); ++i) {
      walk(each[i], scratch);
      visit(i, scratch.payload.data());
    }
    return;
  }
  const std::size_t spacing = round_up(scratch.block.n, kChunk);
  scratch.tops.resize(std::max(scratch.tops.size(), kTopsTogether * spacing));
  for (std::size_t i = 0; i < each.size(); ++i) {
    const std::size_t at = i % kTopsTogether;
    if (at == 0) {
      const std::size_t n = std::min(kTopsTogether, each.size() - i);
      kernels().narrow.tops(lowered_->narrow, each.data() + i, n, scratch.block, scratch.tops.data(), spacing);
    }
    scratch.block.n_walked = std::min(each[i].top, kTopsLevels);
    walk(each[i], scratch, scratch.tops.data() + at * spacing);
    visit(i, scratch.tops.data() + at * spacing);
  }
  scratch.block.n_walked = 0;
}

}  // namespace scurry
