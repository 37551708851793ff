// Loads blocks of rows, spreads them over threads, and calls the kernels.
#include "runtime/walker.h"

#include <stdexcept>

#ifndef _WIN32
#include <unistd.h>
#endif

#include "runtime/byte_rows.h"
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

// Of forests that test nothing, blocks have ranks of no columns. There is space for one all the same: that there is some
// says that trees are evaluated with ranks.
std::uint8_t* room_for_ranks(const RankedColumns& by, std::size_t stride, Scratch& scratch) {
  return grow_to(scratch.ranks, stride * std::max<std::size_t>(by.size(), 1));
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

Walker::Lowered::Lowered(const ForestView& forest, const Leaves& leaves)
    : n_features(forest.n_features),
      columns(forest),
      symmetric(Symmetric::find(forest, columns, leaves.payload_of_node)),
      trees(forest, columns, leaves) {
  if (!symmetric && columns.has_categories() && !slices.get([this] { return slice(); }).sliced) {
    // Trees that are walked node by node are walked faster if all nodes ask about numbers.
    columns = Columns(forest, Sets::kColumns);
    if (!columns.has_categories()) trees = Trees(forest, columns, leaves);
    slices.forget();
  }
  begin_walks();
  columns.forget_tests();
}

Walker::Lowered::Lowered(const ForestView& forest, const EngineParts& parts, PayloadRange payloads)
    : n_features(forest.n_features),
      columns(forest, parts),
      trees(forest, columns, parts, payloads),
      may_slice(parts.shape.size() == 3) {
  begin_walks();
}

void Walker::Lowered::begin_walks() {
  narrow = walk_of(trees.narrow(), trees, columns);
  wide = walk_of(trees.wide(), trees, columns);
  may_slice_rows = !symmetric && may_slice && kernels().sliced.max_row_ranks > 0 &&
                   std::ranges::all_of(trees.trees(), [](auto& tree) { return tree.depth <= Sliced::kRowLevels; });
}

Walker::Slices Walker::Lowered::slice() const {
  Slices made;
  if (!symmetric && may_slice) made.sliced = Sliced::find(trees, columns);
  if (!symmetric && !made.sliced) made.tops = Sliced::find_large(trees, columns);
  if (!symmetric && !made.sliced && !made.tops) made.tops = Sliced::find_tops(trees, columns);
  const RankedColumns* const by = symmetric     ? &symmetric->ranks()
                                  : made.sliced ? &made.sliced->ranks()
                                  : made.tops && made.tops->is_large() ? &made.tops->ranks()
                                                                       : nullptr;
  if (by == nullptr || !columns.takes_bytes()) return made;
  // A row of each byte, ranked as any other.
  AlignedVector<std::uint32_t> keys(kByteValues * columns.stride());
  for (std::uint32_t c = 0; c < columns.size(); ++c) {
    for (std::size_t byte = 0; byte < kByteValues; ++byte) {
      keys[byte * columns.stride() + c] = columns.key_of_byte(c, static_cast<std::uint8_t>(byte));
    }
  }
  made.rank_of_byte.resize(by->size() * kByteValues);
  by->rank({keys.data(), nullptr, 0, kByteValues, false}, columns.stride(), made.rank_of_byte.data(), kByteValues);
  return made;
}

Walker::Walker(const ForestView& forest, const Leaves& leaves) {
  const auto made = std::make_shared<Lowered>(forest, leaves);
  origins_ = made->trees.take_origins();
  lowered_ = made;
}

Walker::Walker(const ForestView& forest, const EngineParts& parts, PayloadRange payloads)
    : lowered_(std::make_shared<Lowered>(forest, parts, payloads)) {}

Walker::Walker(const Walker& shared, std::uint32_t mask, std::span<const std::uint32_t> payload_of)
    : lowered_(shared.lowered_),
      is_shared_(true),
      mask_(mask),
      payload_of_(payload_of.begin(), payload_of.end()) {
  if (shared.is_shared()) throw std::invalid_argument("these trees are shared already");
  if (payload_of.empty()) return;
  for (const Tree& tree : trees()) {
    shared.for_each_leaf(tree, [&](std::uint32_t payload) {
      if ((payload & mask) >= payload_of.size()) throw std::invalid_argument("a payload is needed for every leaf");
    });
  }
  if (symmetric()) payload_of_leaf_ = symmetric()->payloads();
  if (sliced()) payload_of_leaf_ = sliced()->payloads();
  for (std::uint32_t& payload : payload_of_leaf_) {  // of numbers that no leaf has, it may be anything
    payload = payload_of_[std::min<std::size_t>(payload & mask, payload_of_.size() - 1)];
  }
}

// Counts nodes from the bottom up, as MergedTree (trees.cc) merges them; a leaf below fillers of a heap counts once.
bool Walker::should_merge() const {
  constexpr double kWorthIt = 0.8;
  const auto in = [&](const auto& nodes) {
    std::vector<std::uint32_t> payload;
    std::vector<std::uint32_t> n_leaves;  // below a node; kMerged: it is one leaf
    std::size_t n_all = 0, n_kept = 0, most = 0;
    for (const Tree& tree : trees()) {
      const std::size_t end = tree.index + 1 < trees().size() ? trees()[tree.index + 1].first : lowered_->trees.size();
      payload.assign(end - tree.first, 0);
      n_leaves.assign(end - tree.first, 1);
      std::size_t before = 0;
      for (std::size_t at = end - tree.first; at-- > 0;) {
        const auto& node = nodes[tree.first + at];
        if (node.left == 0) {
          payload[at] = own(node.key);
          continue;
        }
        const std::size_t left = at + node.left;
        const bool is_filler = node.column == columns().pad();
        before += !is_filler;
        payload[at] = payload[left];
        if (is_filler) {
          n_leaves[at] = n_leaves[left];
        } else if (n_leaves[left] > 1 || n_leaves[left + 1] > 1 || payload[left] != payload[left + 1]) {
          n_leaves[at] = n_leaves[left] + n_leaves[left + 1];
        }
      }
      n_all += before;
      n_kept += n_leaves[0] - 1;
      most = std::max<std::size_t>(most, n_leaves[0]);
    }
    return static_cast<double>(n_kept) < kWorthIt * static_cast<double>(n_all) ||
           (ranked() == nullptr && most <= kMaxSlicedLeaves);
  };
  return lowered_->trees.is_wide() ? in(lowered_->trees.wide()) : in(lowered_->trees.narrow());
}

void Walker::store(StoredEngine& out) const {
  columns().store(out);
  lowered_->trees.store(out);
  if (sliced()) out.parts.shape = out.keep({out.parts.shape[0], out.parts.shape[1], 1});
}

std::size_t Walker::bytes_of_lowered() const {
  const auto of = [](const auto& part) { return part ? part->bytes() : 0; };
  return lowered_->trees.bytes() + of(symmetric()) + of(sliced()) + of(slices().tops);
}

std::size_t Walker::bytes() const {
  return bytes_of_lowered() + (payload_of_.size() + payload_of_leaf_.size()) * sizeof(std::uint32_t);
}

void Walker::reserve(std::size_t n, Scratch& scratch) const {
  grow_to(scratch.keys, n * columns().stride());
  grow_to(scratch.payload, n);
  grow_to(scratch.walk, n);
}

void Walker::load(const RowsView& rows, std::size_t first, std::size_t n, Scratch& scratch, std::size_t at,
                  std::size_t ahead) const {
  const std::size_t stride = columns().stride(), padded = round_up(n, kChunk);
  reserve(at + padded, scratch);
  std::uint32_t* keys = scratch.keys.data() + at * stride;
  const bool has_missing = columns().encode(rows, first, n, keys, ahead);
  std::fill(keys + n * stride, keys + padded * stride, 0u);
  scratch.block = {keys, nullptr, 0, padded, has_missing};
}

// Keys of a block should stay in the second-level cache while all trees are walked, beside what is made of them. If a
// tree is too large for the first-level cache, fetching its nodes takes longer than fetching keys, and more rows should
// share it. If it is small and rows are long, keys are what is fetched, and those of a chunk stay in the first-level
// cache; not if top levels are sliced, which takes more rows at once.
std::size_t Walker::block_rows(std::size_t row_bytes) const {
  constexpr std::size_t kShortRow = 64, kNearKeys = 16 * 1024, kSmallTree = 4608;
  constexpr std::size_t kLargeTree = 32 * 1024, kMinRows = 512, kMaxRows = 4096, kMaxRowsOfLarge = 32768;
  const std::size_t few = std::clamp(rows_in(second_cache() / 4), kMinRows, kMaxRows);
  const std::size_t key_bytes = columns().stride() * sizeof(std::uint32_t);
  const std::size_t tree_bytes = lowered_->trees.bytes() / trees().size();
  const bool stays_near = key_bytes > kShortRow && kChunk * key_bytes <= kNearKeys && tree_bytes <= kSmallTree;
  if (stays_near && !has_ranks() && !slices_tops()) return kChunk;
  if (tree_bytes <= kLargeTree) return few;
  const std::size_t all_bytes = key_bytes + row_bytes;
  return std::clamp(4 * second_cache() / all_bytes / kChunk * kChunk, few, kMaxRowsOfLarge);
}

// Slices want many rows, and ranks are all that is kept of them.
std::size_t Walker::ranked_block_rows(std::size_t row_bytes) const {
  constexpr std::size_t kMaxRows = 4096;
  const std::size_t min_rows = kernels().sliced.slice_chunks * kChunk;
  const std::size_t all_bytes = std::max<std::size_t>(ranked_for_all()->size() + row_bytes, 1);  // leaves need no ranks
  return std::clamp(second_cache() / 4 / all_bytes / min_rows * min_rows, min_rows, kMaxRows);
}

double Walker::cost_of_tree(std::size_t n) const {
  constexpr double kInSlices = 0.2, kOfRow = 2.0;  // measured: 0.1 to 0.25, and 1.7 to 2.3
  if (n >= kEnoughForColumns) return ranked() != nullptr ? kInSlices : 1.0;
  const bool in_registers = symmetric() ? symmetric()->walks_rows() : sliced() && sliced()->walks_rows();
  return in_registers ? kOfRow / 3 : kOfRow;
}

bool Walker::worth_columns(std::size_t n) const {
  constexpr std::size_t kMostKeys = 32, kMostRanks = 128;
  if (n < kEnoughForColumns) return false;
  if (const RankedColumns* by = ranked()) return by->size() <= kMostRanks;
  const bool in_registers = !lowered_->trees.is_wide() && !columns().has_categories() &&
                            columns().stride() <= kernels().max_register_stride;  // the top levels of trees are
  return !in_registers && columns().pad() + 1 <= kMostKeys;
}

void Walker::index_columns(Scratch& scratch) const {
  if (const RankedColumns* by = ranked()) return make_ranks(*by, scratch);
  index_keys(scratch);
}

void Walker::load_for_all(const RowsView& rows, std::size_t first, std::size_t n, Scratch& scratch) const {
  if (n < kEnoughForColumns) return load(rows, first, n, scratch);
  if (rows.is_bytes && !slices().rank_of_byte.empty()) return rank_bytes(rows, first, n, scratch);
  if (const RankedColumns* by = ranked_for_all()) return load_ranks(*by, rows, first, n, scratch);
  load(rows, first, n, scratch);
  if (!slices_tops()) return index_keys(scratch);
  make_ranks(slices().tops->ranks(), scratch);
  scratch.block.n_walked = Sliced::kTopLevels;
}

void Walker::load_ranks(const RankedColumns& by, const RowsView& rows, std::size_t first, std::size_t n,
                        Scratch& scratch) const {
  constexpr std::size_t kLotBytes = 24 * 1024;
  const std::size_t padded = round_up(n, kChunk), stride = padded + kChunk, lot = rows_in(kLotBytes);
  std::uint8_t* ranks = room_for_ranks(by, stride, scratch);
  bool has_missing = false;
  std::size_t at = 0;
  if (const FloatColumns* floats = columns().floats_of(rows)) {
    at = n / kChunk * kChunk;
    has_missing = by.rank_floats(*floats, rows, first, at, ranks, stride) && columns().has_mixed();
  }
  for (; at < n; at += lot) {
    const std::size_t n_loaded = std::min(lot, n - at);
    load(rows, first + at, n_loaded, scratch, 0, n_loaded);
    has_missing |= scratch.block.has_missing;
    by.rank(scratch.block, columns().stride(), ranks + at, stride);
  }
  grow_to(scratch.payload, padded);
  scratch.block = {nullptr, nullptr, 0, padded, has_missing, {ranks, stride, by.size()}};
}

void Walker::make_ranks(const RankedColumns& by, Scratch& scratch) const {
  const std::size_t stride = scratch.block.n + kChunk;  // padded for the same reason
  std::uint8_t* ranks = room_for_ranks(by, stride, scratch);
  by.rank(scratch.block, columns().stride(), ranks, stride);
  scratch.block.ranks = {ranks, stride, by.size()};
}

void Walker::rank_bytes(const RowsView& rows, std::size_t first, std::size_t n, Scratch& scratch) const {
  const std::size_t padded = round_up(n, kChunk), stride = padded + kChunk, n_columns = ranked_for_all()->size();
  grow_to(scratch.payload, padded);
  grow_to(scratch.walk, padded);
  std::uint8_t* ranks = grow_to(scratch.ranks, stride * n_columns);
  scratch.block = {nullptr, nullptr, 0, padded, false, {ranks, stride, n_columns}};
  const auto* x = static_cast<const std::uint8_t*>(rows.data) + static_cast<std::ptrdiff_t>(first) * rows.row_stride;
  const std::uint8_t* rank_of = slices().rank_of_byte.data();
  for (std::size_t c = 0; c < n_columns; ++c, ranks += stride, rank_of += kByteValues) {
    const std::uint32_t feature = columns().feature(ranked_for_all()->column_of(c));
    const std::uint8_t* from = x + static_cast<std::ptrdiff_t>(feature) * rows.column_stride;
    if (rows.row_stride == 1) {
      for (std::size_t row = 0; row < n; ++row) ranks[row] = rank_of[from[row]];
    } else {
      for (std::size_t row = 0; row < n; ++row, from += rows.row_stride) ranks[row] = rank_of[*from];
    }
    std::fill(ranks + n, ranks + padded, std::uint8_t{0});
  }
}

void Walker::index_keys(Scratch& scratch) const {
  if (!kernels().tests_by_column) return;
  Block& block = scratch.block;
  const std::size_t stride = columns().stride(), n_columns = columns().pad() + 1;
  block.column_stride = block.n + kColumnPadding;
  std::int32_t* by_column = grow_to(scratch.columns, block.column_stride * n_columns);
  kernels().encode.transpose(block.by_row, stride, block.n, n_columns, by_column, block.column_stride);
  block.by_column = by_column;
}

void Walker::fetch_ahead(const Tree& tree, std::size_t n) const {
  constexpr std::size_t kLine = 64, kMostLines = 256;
  const bool is_wide = lowered_->trees.is_wide();
  const std::size_t end = tree.index + 1 < trees().size() ? trees()[tree.index + 1].first : lowered_->trees.size();
  const char* nodes = is_wide ? reinterpret_cast<const char*>(lowered_->trees.wide().data() + tree.first)
                              : reinterpret_cast<const char*>(lowered_->trees.narrow().data() + tree.first);
  const std::size_t bytes = (end - tree.first) * (is_wide ? sizeof(WideNode) : sizeof(NarrowNode));
  const std::size_t some = std::min(bytes, kLine * std::min(n, kMostLines));
  for (std::size_t at = 0; at < some; at += kLine) __builtin_prefetch(nodes + at, 0, 2);
}

void Walker::walk(const Tree& tree, Scratch& scratch, std::uint32_t* payload) const {
  poll_interrupt_now_and_then();
  if (scratch.block.ranks.of_rows != nullptr) {
    if (symmetric()) return symmetric()->walk(tree.index, scratch.block, payload, of_leaf());
    if (sliced()) return sliced()->walk(tree.index, scratch.block, payload, of_leaf());
    slices().tops->walk(tree.index, scratch.block, payload);
    if (large() != nullptr) return look_up(scratch.block.n, payload);
  }
  std::uint32_t* rows = scratch.walk.data();
  if (lowered_->trees.is_wide()) {
    kernels().wide.tree(lowered_->wide, tree, scratch.block, payload, rows);
  } else {
    kernels().narrow.tree(lowered_->narrow, tree, scratch.block, payload, rows);
  }
  look_up(scratch.block.n, payload);
}

void Walker::descend(const Tree& tree, std::uint32_t levels, Scratch& scratch) const {
  poll_interrupt_now_and_then();
  std::uint32_t* at = scratch.payload.data();
  if (lowered_->trees.is_wide()) {
    kernels().wide.descend(lowered_->wide, tree, scratch.block, levels, at);
  } else {
    kernels().narrow.descend(lowered_->narrow, tree, scratch.block, levels, at);
  }
}

void Walker::load_row(const RowsView& rows, std::size_t row, std::size_t n_payloads, Scratch& scratch) const {
  grow_to(scratch.payload, n_payloads);
  columns().encode(rows, row, 1, grow_to(scratch.keys, columns().stride()));
}

void Walker::walk_row(const Tree* trees, std::size_t n, const std::uint32_t* keys, std::uint32_t* payload) const {
  if (lowered_->trees.is_wide()) {
    kernels().wide.row(lowered_->wide, trees, n, keys, payload);
  } else {
    kernels().narrow.row(lowered_->narrow, trees, n, keys, payload);
  }
  look_up(n, payload);
}

void Walker::walk_row(const std::uint32_t* keys, std::uint32_t* payload) const {
  if (symmetric() && symmetric()->walks_rows()) return symmetric()->walk_row(keys, payload, of_leaf());
  if (slices_row()) return sliced()->walk_row(keys, payload, of_leaf());
  walk_row(trees().data(), trees().size(), keys, payload);
}

// As long as no batch has come, rows are walked, until that has taken about as long as slicing the trees would: then they
// are sliced. So a row or two do not wait for it, and many take at most twice the time that would have been best.
bool Walker::slices_row() const {
  constexpr std::uint32_t kEnoughRows = 400;  // measured: 260 to 470
  if (!lowered_->may_slice_rows) return false;
  if (lowered_->slices.peek() == nullptr && lowered_->n_walked.fetch_add(1, std::memory_order_relaxed) < kEnoughRows) {
    return false;
  }
  return sliced() && sliced()->walks_rows();
}

void Walker::take_steps(const std::uint32_t* trees, std::size_t n, const std::uint32_t* keys, std::uint32_t* at) const {
  if (lowered_->trees.is_wide()) {
    kernels().wide.steps(lowered_->wide, trees, n, keys, at);
  } else {
    kernels().narrow.steps(lowered_->narrow, trees, n, keys, at);
  }
}

}  // namespace scurry
