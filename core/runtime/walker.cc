// Loads blocks of rows, spreads them over threads, and calls the kernels.
#include "runtime/walker.h"

#ifndef _WIN32
#include <unistd.h>
#endif

#include "runtime/interrupt.h"

namespace scurry {
namespace {

constexpr std::size_t kColumnPadding =
    16;  // in words; without it, columns whose length is a power of two would compete for the same cache sets

template <class T>
T* grow_to(AlignedVector<T>& buffer, std::size_t n) {
  if (buffer.size() < n) buffer.resize(n);
  return buffer.data();
}

// Bytes of the second-level cache of this machine, as far as it says.
std::size_t second_cache() {
  static const std::size_t bytes = [] {
    long found = 0;
#ifdef _SC_LEVEL2_CACHE_SIZE
    found = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    constexpr long kUsual = 1 << 20, kLeast = 1 << 18, kMost = 1 << 22;
    return static_cast<std::size_t>(found <= 0 ? kUsual : std::clamp(found, kLeast, kMost));
  }();
  return bytes;
}

template <class Node>
Walk<Node> walk_of(std::span<const Node> nodes, const Trees& trees, const Columns& columns) {
  return {nodes.data(),
          trees.category_tests().data(),
          trees.category_bits().data(),
          trees.marks().empty() ? nullptr : trees.marks().data(),
          columns.pad(),
          columns.stride(),
          columns.has_categories()};
}

}  // namespace

std::size_t round_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

Scratch& Scratch::of_this_thread() {
  thread_local Scratch scratch;
  return scratch;
}

Walker::Walker(const ForestView& forest, Leaves leaves)
    : columns_(forest),
      symmetric_(Symmetric::find(forest, columns_, leaves.payload_of_node)),
      trees_(forest, columns_, leaves),
      sliced_(symmetric_ ? std::nullopt : Sliced::find(trees_, columns_)) {
  if (!symmetric_ && !sliced_ && columns_.has_categories()) {
    // Trees that are walked node by node are walked faster if all nodes ask about numbers.
    columns_ = Columns(forest, Sets::kColumns);
    if (!columns_.has_categories()) trees_ = Trees(forest, columns_, std::move(leaves));
  }
  begin_walks();
  columns_.forget_nodes();
}

Walker::Walker(const ForestView& forest, const EngineParts& parts, PayloadRange payloads)
    : columns_(forest, parts), trees_(forest, columns_, parts, payloads) {
  begin_walks();
}

void Walker::begin_walks() {
  narrow_ = walk_of(trees_.narrow(), trees_, columns_);
  wide_ = walk_of(trees_.wide(), trees_, columns_);
  if (!symmetric_ && !sliced_) tops_ = Sliced::find_tops(trees_, columns_);
}

void Walker::store(StoredEngine& out) const {
  columns_.store(out);
  trees_.store(out);
}

void Walker::reserve(std::size_t n, Scratch& scratch) const {
  grow_to(scratch.keys, n * columns_.stride());
  grow_to(scratch.payload, n);
  grow_to(scratch.walk, n);
}

void Walker::load(const RowsView& rows, std::size_t first, std::size_t n, Scratch& scratch, std::size_t at,
                  std::size_t ahead) const {
  const std::size_t stride = columns_.stride(), padded = round_up(n, kChunk);
  reserve(at + padded, scratch);
  std::uint32_t* keys = scratch.keys.data() + at * stride;
  const bool has_missing = columns_.encode(rows, first, n, keys, ahead);
  std::fill(keys + n * stride, keys + padded * stride, 0u);
  scratch.block = {keys, nullptr, 0, padded, has_missing};
}

// Keys of a block should stay in the second-level cache while all trees are walked, beside what is made of them. If a
// tree is too large for the first-level cache, fetching its nodes takes longer than fetching keys, and more rows should
// share it.
std::size_t Walker::block_rows(std::size_t row_bytes) const {
  constexpr std::size_t kLargeTree = 32 * 1024, kMinRows = 512, kMaxRows = 4096, kMaxRowsOfLarge = 32768;
  const std::size_t few = std::clamp(rows_in(second_cache() / 4), kMinRows, kMaxRows);
  if (trees_.bytes() / trees().size() <= kLargeTree) return few;
  const std::size_t all_bytes = columns_.stride() * sizeof(std::uint32_t) + row_bytes;
  return std::clamp(4 * second_cache() / all_bytes / kChunk * kChunk, few, kMaxRowsOfLarge);
}

double Walker::cost_of_tree(std::size_t n) const {
  constexpr double kInSlices = 0.2, kOfRow = 2.0;  // measured: 0.1 to 0.25, and 1.7 to 2.3
  if (n >= kEnoughForColumns) return ranked() != nullptr ? kInSlices : 1.0;
  const bool in_registers = symmetric_ ? !symmetric_->has_categories() : sliced_ && sliced_->walks_rows();
  return in_registers ? kOfRow / 3 : kOfRow;
}

bool Walker::worth_columns(std::size_t n) const {
  constexpr std::size_t kMostKeys = 32, kMostRanks = 128;
  if (n < kEnoughForColumns) return false;
  if (const RankedColumns* by = ranked()) return by->size() <= kMostRanks;
  const bool in_registers = !trees_.is_wide() && !columns_.has_categories() &&
                            columns_.stride() <= kernels().max_register_stride;  // the top levels of trees are
  return !in_registers && columns_.pad() + 1 <= kMostKeys;
}

void Walker::index_columns(Scratch& scratch) const {
  if (const RankedColumns* by = ranked()) return make_ranks(*by, scratch);
  index_keys(scratch);
}

void Walker::index_for_all(Scratch& scratch) const {
  if (!tops_) return index_columns(scratch);
  make_ranks(tops_->ranks(), scratch);
  scratch.block.n_walked = Sliced::kTopLevels;
}

void Walker::make_ranks(const RankedColumns& by, Scratch& scratch) const {
  const std::size_t stride = scratch.block.n + kChunk;  // padded for the same reason
  std::uint8_t* ranks = grow_to(scratch.ranks, stride * by.size());
  by.rank(scratch.block, columns_.stride(), ranks, stride);
  scratch.block.ranks = {ranks, stride, by.size()};
}

void Walker::index_keys(Scratch& scratch) const {
  if (!kernels().tests_by_column) return;
  Block& block = scratch.block;
  const std::size_t stride = columns_.stride(), n_columns = columns_.pad() + 1;
  block.column_stride = block.n + kColumnPadding;
  std::int32_t* by_column = grow_to(scratch.columns, block.column_stride * n_columns);
  for (std::size_t row = 0; row < block.n; ++row) {
    for (std::size_t c = 0; c < n_columns; ++c) {
      by_column[c * block.column_stride + row] = signed_key(block.by_row[row * stride + c]);
    }
  }
  block.by_column = by_column;
}

void Walker::walk(const Tree& tree, Scratch& scratch, std::uint32_t* payload) const {
  poll_interrupt_now_and_then();
  if (scratch.block.ranks.of_rows != nullptr) {
    if (symmetric_) return symmetric_->walk(tree.index, scratch.block, payload);
    if (sliced_) return sliced_->walk(tree.index, scratch.block, payload);
    tops_->walk(tree.index, scratch.block, payload);
  }
  std::uint32_t* rows = scratch.walk.data();
  if (trees_.is_wide()) {
    kernels().wide.tree(wide_, tree, scratch.block, payload, rows);
  } else {
    kernels().narrow.tree(narrow_, tree, scratch.block, payload, rows);
  }
}

void Walker::descend(const Tree& tree, std::uint32_t levels, Scratch& scratch) const {
  poll_interrupt_now_and_then();
  std::uint32_t* at = scratch.payload.data();
  if (trees_.is_wide()) {
    kernels().wide.descend(wide_, tree, scratch.block, levels, at);
  } else {
    kernels().narrow.descend(narrow_, tree, scratch.block, levels, at);
  }
}

void Walker::load_row(const RowsView& rows, std::size_t row, std::size_t n_payloads, Scratch& scratch) const {
  grow_to(scratch.payload, n_payloads);
  columns_.encode(rows, row, 1, grow_to(scratch.keys, columns_.stride()));
}

void Walker::walk_row(const Tree* trees, std::size_t n, const std::uint32_t* keys, std::uint32_t* payload) const {
  if (trees_.is_wide()) {
    kernels().wide.row(wide_, trees, n, keys, payload);
  } else {
    kernels().narrow.row(narrow_, trees, n, keys, payload);
  }
}

void Walker::walk_row(const std::uint32_t* keys, std::uint32_t* payload) const {
  if (symmetric_ && !symmetric_->has_categories()) return symmetric_->walk_row(keys, payload);
  if (sliced_ && sliced_->walks_rows()) return sliced_->walk_row(keys, payload);
  walk_row(trees().data(), trees().size(), keys, payload);
}

void Walker::take_steps(const std::uint32_t* trees, std::size_t n, const std::uint32_t* keys, std::uint32_t* at) const {
  if (trees_.is_wide()) {
    kernels().wide.steps(wide_, trees, n, keys, at);
  } else {
    kernels().narrow.steps(narrow_, trees, n, keys, at);
  }
}

}  // namespace scurry
