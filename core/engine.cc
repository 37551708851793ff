#include "engine.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

namespace scurry {
namespace {

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

namespace {

template <class Real>
AlignedVector<Real>& sums_of_this_thread() {
  thread_local AlignedVector<Real> sums;
  return sums;
}

}  // namespace

Engine::Engine(const ForestView& forest, std::vector<std::int64_t> labels, bool leaf_ids)
    : n_features_(forest.n_features),
      leaf_ids_(leaf_ids),
      vector_leaves_(forest.n_columns > 1),
      width_(forest.n_columns <= 2 ? forest.n_columns : round_up(forest.n_columns, 8)),
      walker_(forest, make_leaves(forest)),
      readout_(forest, std::move(labels)) {
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
  for (const Tree& tree : walker_.trees()) {
    walker_.walk(tree, scratch);
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
  const auto& trees = walker_.trees();
  walker_.walk_row(trees.data(), trees.size(), scratch.keys.data(), scratch.payload.data());
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
void Engine::sum_as(const RowsView& rows, std::size_t n_threads, Finish finish) const {
  if (rows.n_rows == 1) {
    Scratch& scratch = Scratch::of_this_thread();
    AlignedVector<Real>& sums = sums_of_this_thread<Real>();
    walker_.load_row(rows, 0, n_trees(), scratch);
    sum_row(scratch, sums);
    finish(std::size_t{0}, std::size_t{1}, sums.data(), std::size_t{0}, std::size_t{1});
    return;
  }
  walker_.for_each_block(rows.n_rows, n_threads, [&](std::size_t first, std::size_t n) {
    Scratch& scratch = Scratch::of_this_thread();
    AlignedVector<Real>& sums = sums_of_this_thread<Real>();
    walker_.load(rows, first, n, scratch);
    if (n >= kChunk / 2) walker_.index_columns(scratch);
    sum_block(scratch, sums);
    finish(first, n, sums.data(), vector_leaves_ ? width_ : 1, vector_leaves_ ? 1 : scratch.block.n);
  });
}

template <class Finish>
void Engine::sum(const RowsView& rows, std::size_t n_threads, Finish finish) const {
  // Vector leaves in float32 have no source framework; they would be summed in float64.
  if (readout_.float32() && !vector_leaves_) {
    sum_as<float>(rows, n_threads, finish);
  } else {
    sum_as<double>(rows, n_threads, finish);
  }
}

void Engine::labels(const RowsView& rows, std::int64_t* out, std::size_t n_threads) const {
  sum(rows, n_threads, [&](std::size_t first, std::size_t n, const auto* sums, std::size_t row, std::size_t output) {
    for (std::size_t i = 0; i < n; ++i) out[first + i] = readout_.label(sums + i * row, output);
  });
}

void Engine::probabilities(const RowsView& rows, double* out, std::size_t n_threads) const {
  const std::size_t width = n_probabilities();
  sum(rows, n_threads, [&](std::size_t first, std::size_t n, const auto* sums, std::size_t row, std::size_t output) {
    for (std::size_t i = 0; i < n; ++i) readout_.probabilities(sums + i * row, output, out + (first + i) * width);
  });
}

void Engine::scores(const RowsView& rows, double* out, std::size_t n_threads) const {
  const std::size_t width = n_outputs();
  sum(rows, n_threads, [&](std::size_t first, std::size_t n, const auto* sums, std::size_t row, std::size_t output) {
    for (std::size_t i = 0; i < n; ++i) readout_.scores(sums + i * row, output, out + (first + i) * width);
  });
}

void Engine::leaves(const RowsView& rows, std::int32_t* out, std::size_t n_threads) const {
  const std::size_t n_trees_all = n_trees();
  walker_.for_each_block(rows.n_rows, n_threads, [&](std::size_t first, std::size_t n) {
    Scratch& scratch = Scratch::of_this_thread();
    walker_.load(rows, first, n, scratch);
    if (n >= kChunk / 2) walker_.index_columns(scratch);
    for (std::size_t t = 0; t < n_trees_all; ++t) {
      walker_.walk(walker_.trees()[t], scratch);
      for (std::size_t row = 0; row < n; ++row) {
        out[(first + row) * n_trees_all + t] = static_cast<std::int32_t>(scratch.payload[row]);
      }
    }
  });
}

}  // namespace scurry
