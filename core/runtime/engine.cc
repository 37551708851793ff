// Sums leaves block by block, or over all trees at once for a single row.
#include "runtime/engine.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <type_traits>

namespace scurry {
namespace {

template <class Real>
AlignedVector<Real>& sums_of_this_thread() {
  thread_local AlignedVector<Real> sums;
  return sums;
}

// Whether trees cannot be sliced. Labels of sliced trees are told by exact sums, which take as long there.
bool has_large_tree(const ForestView& forest) {
  for (std::size_t t = 0; t < forest.n_trees(); ++t) {
    const std::int64_t n_nodes = forest.tree_offset[t + 1] - forest.tree_offset[t];
    if (n_nodes > static_cast<std::int64_t>(2 * kMaxSlicedLeaves - 1)) return true;
  }
  return false;
}

// Of payloads with increments, leaves the numbers of values.
void unpack(std::uint32_t* payload, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) payload[i] = LabelSums::value_of(payload[i]);
}

}  // namespace

Engine::Engine(const ForestView& forest, std::vector<std::int64_t> labels, bool leaf_ids)
    : n_features_(forest.n_features),
      leaf_ids_(leaf_ids),
      values_(forest),
      walker_(forest, make_leaves(forest)),
      symmetric_sums_(make_symmetric_sums()),
      answers_(forest, std::move(labels)) {}

Engine::Engine(const ForestView& forest, std::vector<std::int64_t> labels, const EngineParts& parts)
    : n_features_(forest.n_features),
      leaf_ids_(false),
      values_(forest, parts.values),
      label_sums_(LabelSums::read(forest, values_, parts)),
      walker_(forest, parts, payloads()),
      answers_(forest, std::move(labels)) {}

// What payloads of leaves may be, so that they are values.
PayloadRange Engine::payloads() const {
  if (values_.are_payloads()) return {0, 1};
  constexpr std::size_t kMost = 0xFFFFFFFF;
  return {has_packed_payloads() ? LabelSums::value_of(~0u) : ~0u,
          static_cast<std::uint32_t>(std::min(values_.size(), kMost))};
}

Walker Engine::share(std::span<const std::uint32_t> payload_of_value) const {
  if (n_values() == 0 || payload_of_value.size() != n_values()) {
    throw std::invalid_argument("a payload is needed for every value");
  }
  return Walker(walker_, payloads().mask, payload_of_value);
}

Walker Engine::share() const {
  std::vector<std::uint32_t> numbers(n_values());
  if (numbers.empty()) throw std::invalid_argument("leaves have no values");
  if (!has_packed_payloads()) return Walker(walker_, ~0u, {});
  std::iota(numbers.begin(), numbers.end(), 0u);
  return share(numbers);
}

StoredEngine Engine::store() const {
  if (!can_store()) throw std::invalid_argument("symmetric trees cannot be stored");
  StoredEngine out;
  walker_.store(out);
  out.parts.values = values_.table();
  if (label_sums_) label_sums_->store(out);
  return out;
}

Leaves Engine::make_leaves(const ForestView& forest) {
  if (!leaf_ids_) {
    Leaves leaves{values_.index_leaves(forest)};
    if (has_large_tree(forest)) label_sums_ = LabelSums::make(forest, values_, leaves.payload_of_node);
    return leaves;
  }
  Leaves leaves{std::vector<std::uint32_t>(forest.n_nodes()), false};
  std::iota(leaves.payload_of_node.begin(), leaves.payload_of_node.end(), 0u);
  return leaves;
}

std::optional<SymmetricSums> Engine::make_symmetric_sums() const {
  if (leaf_ids_ || !walker_.symmetric() || has_packed_payloads()) return std::nullopt;
  return SymmetricSums::make(*walker_.symmetric(), values_);
}

const std::optional<SlicedSums>& Engine::sliced_sums() const {
  return sliced_sums_.get([this]() -> std::optional<SlicedSums> {
    if (leaf_ids_ || !walker_.sliced() || has_packed_payloads()) return std::nullopt;
    return SlicedSums::make(*walker_.sliced(), walker_.trees(), values_);
  });
}

template <class Real>
void Engine::sum_block(Scratch& scratch, AlignedVector<Real>& sums) const {
  values_.start(scratch.block.n, sums);
  if constexpr (std::is_same_v<Real, double>) {
    if (symmetric_sums_ && scratch.block.ranks.of_rows != nullptr) {
      return symmetric_sums_->add(*walker_.symmetric(), scratch.block, sums.data());
    }
  }
  if (scratch.block.ranks.of_rows != nullptr && sliced_sums()) {
    return sliced_sums()->add(*walker_.sliced(), scratch.block, sums.data());
  }
  for (const Tree& tree : walker_.trees()) {
    walker_.walk(tree, scratch);
    if (has_packed_payloads()) unpack(scratch.payload.data(), scratch.block.n);
    values_.add(tree, scratch.payload.data(), scratch.block.n, sums.data());
  }
}

template <class Real>
void Engine::sum_row(Scratch& scratch, AlignedVector<Real>& sums) const {
  values_.start(1, sums);
  if constexpr (std::is_same_v<Real, double>) {
    if (symmetric_sums_ && walker_.symmetric()->tests_rows()) {
      return symmetric_sums_->add_row(*walker_.symmetric(), scratch.keys.data(), scratch.payload.data(), sums.data());
    }
  }
  walker_.walk_row(scratch.keys.data(), scratch.payload.data());
  if (has_packed_payloads()) unpack(scratch.payload.data(), n_trees());
  values_.add_row(walker_.trees(), scratch.payload.data(), sums.data());
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
  const std::size_t row_bytes = n_outputs() * sizeof(Real);
  walker_.for_each_block_for_all(rows.n_rows, n_threads, row_bytes, [&](std::size_t first, std::size_t n) {
    Scratch& scratch = Scratch::of_this_thread();
    AlignedVector<Real>& sums = sums_of_this_thread<Real>();
    walker_.load_for_all(rows, first, n, scratch);
    sum_block(scratch, sums);
    finish(first, n, sums.data(), values_.row_spacing(), values_.output_spacing(scratch.block.n));
  });
}

template <class Finish>
void Engine::sum(const RowsView& rows, std::size_t n_threads, Finish finish) const {
  if (leaf_ids_) throw std::invalid_argument("this engine was lowered for leaves alone");
  if (values_.in_float32()) {
    sum_as<float>(rows, n_threads, finish);
  } else {
    sum_as<double>(rows, n_threads, finish);
  }
}

void Engine::labels_by_integers(const RowsView& rows, std::int64_t* out, std::size_t n_threads) const {
  walker_.for_each_block_for_all(rows.n_rows, n_threads, label_sums_->row_bytes(), [&](std::size_t first, std::size_t n) {
    Scratch& scratch = Scratch::of_this_thread();
    LabelSums::Sums& sums = LabelSums::Sums::of_this_thread();
    walker_.load_for_all(rows, first, n, scratch);
    label_sums_->start(scratch.block.n, sums);
    if (scratch.block.ranks.of_rows != nullptr && walker_.large() != nullptr && !label_sums_->are_packed()) {
      label_sums_->add_all(*walker_.large(), scratch.block, sums);
    } else {
      for (const Tree& tree : walker_.trees()) {
        walker_.walk(tree, scratch);
        label_sums_->add(scratch.payload.data(), scratch.block.n, sums);
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      if (const auto leader = label_sums_->leader(sums, i)) {
        out[first + i] = answers_.label_of_class(*leader);
      } else {
        labels(rows.row(first + i), out + first + i, 1);
      }
    }
  });
}

void Engine::labels(const RowsView& rows, std::int64_t* out, std::size_t n_threads) const {
  if (label_sums_ && rows.n_rows > 1 && !walker_.has_ranks()) return labels_by_integers(rows, out, n_threads);
  sum(rows, n_threads, [&](std::size_t first, std::size_t n, const auto* sums, std::size_t row, std::size_t output) {
    for (std::size_t i = 0; i < n; ++i) out[first + i] = answers_.label(sums + i * row, output);
  });
}

void Engine::probabilities(const RowsView& rows, double* out, std::size_t n_threads) const {
  const std::size_t width = n_probabilities();
  sum(rows, n_threads, [&](std::size_t first, std::size_t n, const auto* sums, std::size_t row, std::size_t output) {
    for (std::size_t i = 0; i < n; ++i) answers_.probabilities(sums + i * row, output, out + (first + i) * width);
  });
}

void Engine::scores(const RowsView& rows, double* out, std::size_t n_threads) const {
  const std::size_t width = n_outputs();
  sum(rows, n_threads, [&](std::size_t first, std::size_t n, const auto* sums, std::size_t row, std::size_t output) {
    for (std::size_t i = 0; i < n; ++i) answers_.scores(sums + i * row, output, out + (first + i) * width);
  });
}

void Engine::leaves(const RowsView& rows, std::int32_t* out, std::size_t n_threads) const {
  if (!leaf_ids_) throw std::invalid_argument("this engine was not lowered for leaves");
  const std::size_t n_trees_all = n_trees();
  walker_.for_each_block_for_all(rows.n_rows, n_threads, 0, [&](std::size_t first, std::size_t n) {
    Scratch& scratch = Scratch::of_this_thread();
    walker_.load_for_all(rows, first, n, scratch);
    for (std::size_t t = 0; t < n_trees_all; ++t) {
      walker_.walk(walker_.trees()[t], scratch);
      for (std::size_t row = 0; row < n; ++row) {
        out[(first + row) * n_trees_all + t] = static_cast<std::int32_t>(scratch.payload[row]);
      }
    }
  });
}

}  // namespace scurry
