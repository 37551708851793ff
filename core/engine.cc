#include "engine.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace scurry {
namespace {

constexpr std::size_t kBlockBytes = 512 * 1024;
constexpr std::size_t kMaxBlockRows = 4096;
constexpr std::size_t kMinBlockRows = 512;

std::size_t round_up(std::size_t n, std::size_t step) { return (n + step - 1) / step * step; }

// Distinct vectors of doubles, each given an index: pure leaves of a whole forest share a handful of them.
class VectorTable {
 public:
  VectorTable(std::size_t width, AlignedVector<double>& values) : width_(width), values_(values) {}

  std::uint32_t index_of(const double* vector) {
    std::uint64_t hash = 0x9E3779B97F4A7C15u;
    for (std::size_t i = 0; i < width_; ++i) {
      hash = (hash ^ std::bit_cast<std::uint64_t>(vector[i])) * 0xFF51AFD7ED558CCDu;
      hash ^= hash >> 32;
    }
    auto [first, last] = by_hash_.equal_range(hash);
    for (; first != last; ++first) {
      if (std::memcmp(&values_[first->second * width_], vector, width_ * sizeof(double)) == 0) return first->second;
    }
    const auto index = static_cast<std::uint32_t>(values_.size() / width_);
    values_.insert(values_.end(), vector, vector + width_);
    by_hash_.emplace(hash, index);
    return index;
  }

 private:
  std::size_t width_;
  AlignedVector<double>& values_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> by_hash_;
};

}  // namespace

struct Engine::Scratch {
  AlignedVector<std::uint32_t> keys, columns, payload, walk;
  Block block{};
  AlignedVector<double> doubles;
  AlignedVector<float> floats;

  static std::uint32_t* grown(AlignedVector<std::uint32_t>& buffer, std::size_t n) {
    if (buffer.size() < n) buffer.resize(n);
    return buffer.data();
  }
  template <class Real>
  AlignedVector<Real>& sums() {
    if constexpr (std::is_same_v<Real, float>) return floats;
    else return doubles;
  }
  // Kept between calls: predicting one row must not allocate.
  static Scratch& of_this_thread() {
    thread_local Scratch scratch;
    return scratch;
  }
};

Engine::Engine(const ForestView& forest, std::vector<std::int64_t> labels, bool leaf_ids)
    : n_features_(forest.n_features),
      leaf_ids_(leaf_ids),
      vector_leaves_(forest.n_columns > 1),
      width_(forest.n_columns <= 2 ? forest.n_columns : round_up(forest.n_columns, 8)),
      columns_(forest),
      trees_(forest, columns_, make_leaves(forest)),
      readout_(forest, std::move(labels)) {
  columns_.forget_nodes();
  values_.shrink_to_fit();
}

Leaves Engine::make_leaves(const ForestView& forest) {
  Leaves leaves{std::vector<std::uint32_t>(forest.n_nodes()), !leaf_ids_};
  VectorTable table(width_, values_);
  std::vector<double> vector(width_);
  for (std::size_t node = 0; node < forest.n_nodes(); ++node) {
    if (forest.left[node] >= 0) continue;
    const double* value = forest.value + node * forest.n_columns;
    if (leaf_ids_) {
      leaves.payload_of_node[node] = static_cast<std::uint32_t>(node);
    } else if (forest.float32_score && !vector_leaves_) {
      leaves.payload_of_node[node] = std::bit_cast<std::uint32_t>(static_cast<float>(*value));
    } else {
      if (forest.aggregation == Aggregation::kVote) {
        std::fill(vector.begin(), vector.end(), 0.0);
        vector[static_cast<std::size_t>(std::max_element(value, value + forest.n_columns) - value)] = 1.0;
      } else {
        std::copy_n(value, forest.n_columns, vector.begin());
      }
      leaves.payload_of_node[node] = table.index_of(vector.data());
    }
  }
  return leaves;
}

namespace {

template <class Node>
Walk<Node> walk_of(const std::vector<Node>& nodes, const Trees& trees, const Columns& columns) {
  return {nodes.data(), trees.category_tests().data(), trees.category_bits().data(),
          columns.pad(), columns.stride(), columns.has_categories()};
}

}  // namespace

// Encodes rows [first, first + n) into the scratch block, padded with rows of zero keys.
void Engine::load(const RowsView& rows, std::size_t first, std::size_t n, Scratch& scratch) const {
  const std::size_t stride = columns_.stride(), padded = round_up(n, kChunk);
  std::uint32_t* keys = Scratch::grown(scratch.keys, padded * stride);
  Scratch::grown(scratch.payload, padded);
  Scratch::grown(scratch.walk, padded);
  columns_.encode(rows, first, n, keys);
  std::fill(keys + n * stride, keys + padded * stride, 0u);
  scratch.block = {keys, nullptr, padded + 16, padded};
  if (n < kChunk / 2) return;
  const std::size_t n_columns = columns_.pad() + 1;
  std::uint32_t* by_column = Scratch::grown(scratch.columns, scratch.block.column_stride * n_columns);
  for (std::size_t row = 0; row < padded; ++row) {
    for (std::size_t c = 0; c < n_columns; ++c) by_column[c * scratch.block.column_stride + row] = keys[row * stride + c];
  }
  scratch.block.by_column = by_column;
}

void Engine::walk(const Tree& tree, Scratch& scratch) const {
  std::uint32_t *payload = scratch.payload.data(), *rows = scratch.walk.data();
  if (trees_.is_wide()) {
    kernels().walk_wide(walk_of(trees_.wide(), trees_, columns_), tree, scratch.block, payload, rows);
  } else {
    kernels().walk_narrow(walk_of(trees_.narrow(), trees_, columns_), tree, scratch.block, payload, rows);
  }
}

void Engine::walk_one_row(const std::uint32_t* keys, std::uint32_t* payload) const {
  const auto& trees = trees_.trees();
  if (trees_.is_wide()) {
    kernels().row_wide(walk_of(trees_.wide(), trees_, columns_), trees.data(), trees.size(), keys, payload);
  } else {
    kernels().row_narrow(walk_of(trees_.narrow(), trees_, columns_), trees.data(), trees.size(), keys, payload);
  }
}

// Shares the rows among threads in blocks; an exception of any of them is rethrown here.
template <class Work>
void Engine::for_each_block(std::size_t n_rows, std::size_t n_threads, Work work) const {
  std::size_t block = kBlockBytes / (columns_.stride() * sizeof(std::uint32_t));
  block = std::clamp(block, kMinBlockRows, kMaxBlockRows);
  if (n_threads > 1) block = std::min(block, std::max<std::size_t>(64, n_rows / (4 * n_threads)));
  block = round_up(block, kChunk);
  const std::size_t n_blocks = (n_rows + block - 1) / block;
  n_threads = std::max<std::size_t>(1, std::min(n_threads, n_blocks));

  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_lock;
  const auto run = [&] {
    try {
      for (std::size_t b = next++; b < n_blocks; b = next++) work(b * block, std::min(block, n_rows - b * block));
    } catch (...) {
      const std::lock_guard guard(failure_lock);
      failure = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t t = 1; t < n_threads; ++t) threads.emplace_back(run);
  run();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

template <class Real>
void Engine::sum_block(Scratch& scratch, AlignedVector<Real>& sums) const {
  const std::size_t n_outputs = readout_.n_outputs(), padded = scratch.block.n;
  sums.resize(padded * (vector_leaves_ ? width_ : n_outputs));
  for (std::size_t k = 0; k < n_outputs; ++k) {
    const auto base = static_cast<Real>(readout_.base_score(k));
    if (vector_leaves_) {
      for (std::size_t row = 0; row < padded; ++row) sums[row * width_ + k] = base;
    } else {
      std::fill_n(sums.begin() + static_cast<std::ptrdiff_t>(k * padded), padded, base);
    }
  }
  for (const Tree& tree : trees_.trees()) {
    walk(tree, scratch);
    const std::uint32_t* payload = scratch.payload.data();
    if constexpr (std::is_same_v<Real, float>) {
      kernels().add_floats(payload, padded, sums.data() + static_cast<std::size_t>(std::max(tree.output, 0)) * padded);
    } else if (vector_leaves_) {
      kernels().add_vectors(values_.data(), width_, payload, padded, sums.data());
    } else {
      kernels().add_doubles(values_.data(), payload, padded, sums.data() + static_cast<std::size_t>(std::max(tree.output, 0)) * padded);
    }
  }
}

template <class Real>
void Engine::sum_row(Scratch& scratch, AlignedVector<Real>& sums) const {
  const std::size_t n_outputs = readout_.n_outputs();
  sums.resize(n_outputs);
  for (std::size_t k = 0; k < n_outputs; ++k) sums[k] = static_cast<Real>(readout_.base_score(k));
  walk_one_row(scratch.keys.data(), scratch.payload.data());
  const auto& trees = trees_.trees();
  for (std::size_t t = 0; t < trees.size(); ++t) {
    const std::uint32_t payload = scratch.payload[t];
    if constexpr (std::is_same_v<Real, float>) {
      sums[static_cast<std::size_t>(std::max(trees[t].output, 0))] += std::bit_cast<float>(payload);
    } else if (vector_leaves_) {
      for (std::size_t k = 0; k < n_outputs; ++k) sums[k] += values_[payload * width_ + k];
    } else {
      sums[static_cast<std::size_t>(std::max(trees[t].output, 0))] += values_[payload];
    }
  }
}

template <class Real, class Finish>
void Engine::sum_blocks(const RowsView& rows, std::size_t n_threads, Finish finish) const {
  if (rows.n_rows == 1) {
    Scratch& scratch = Scratch::of_this_thread();
    Scratch::grown(scratch.payload, n_trees());
    columns_.encode(rows, 0, 1, Scratch::grown(scratch.keys, columns_.stride()));
    sum_row(scratch, scratch.sums<Real>());
    finish(std::size_t{0}, std::size_t{1}, scratch.sums<Real>().data(), std::size_t{0}, std::size_t{1});
    return;
  }
  for_each_block(rows.n_rows, n_threads, [&](std::size_t first, std::size_t n) {
    Scratch& scratch = Scratch::of_this_thread();
    load(rows, first, n, scratch);
    AlignedVector<Real>& sums = scratch.sums<Real>();
    sum_block(scratch, sums);
    finish(first, n, sums.data(), vector_leaves_ ? width_ : 1, vector_leaves_ ? 1 : scratch.block.n);
  });
}

template <class Finish>
void Engine::sum_and_finish(const RowsView& rows, std::size_t n_threads, Finish finish) const {
  // Vector leaves in float32 have no source framework; they would be summed in float64.
  if (readout_.float32() && !vector_leaves_) {
    sum_blocks<float>(rows, n_threads, finish);
  } else {
    sum_blocks<double>(rows, n_threads, finish);
  }
}

void Engine::labels(const RowsView& rows, std::int64_t* out, std::size_t n_threads) const {
  sum_and_finish(rows, n_threads, [&](std::size_t first, std::size_t n, const auto* sums, std::size_t row, std::size_t output) {
    for (std::size_t i = 0; i < n; ++i) out[first + i] = readout_.label(sums + i * row, output);
  });
}

void Engine::probabilities(const RowsView& rows, double* out, std::size_t n_threads) const {
  const std::size_t width = n_probabilities();
  sum_and_finish(rows, n_threads, [&](std::size_t first, std::size_t n, const auto* sums, std::size_t row, std::size_t output) {
    for (std::size_t i = 0; i < n; ++i) readout_.probabilities(sums + i * row, output, out + (first + i) * width);
  });
}

void Engine::scores(const RowsView& rows, double* out, std::size_t n_threads) const {
  const std::size_t width = n_outputs();
  sum_and_finish(rows, n_threads, [&](std::size_t first, std::size_t n, const auto* sums, std::size_t row, std::size_t output) {
    for (std::size_t i = 0; i < n; ++i) readout_.scores(sums + i * row, output, out + (first + i) * width);
  });
}

void Engine::leaves(const RowsView& rows, std::int32_t* out, std::size_t n_threads) const {
  const std::size_t n_trees_all = n_trees();
  for_each_block(rows.n_rows, n_threads, [&](std::size_t first, std::size_t n) {
    Scratch& scratch = Scratch::of_this_thread();
    load(rows, first, n, scratch);
    for (std::size_t t = 0; t < n_trees_all; ++t) {
      walk(trees_.trees()[t], scratch);
      for (std::size_t row = 0; row < n; ++row) {
        out[(first + row) * n_trees_all + t] = static_cast<std::int32_t>(scratch.payload[row]);
      }
    }
  });
}

}  // namespace scurry
