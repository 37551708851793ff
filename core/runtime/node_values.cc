// Tables of node values, and the sums over them.
#include "runtime/node_values.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <type_traits>
#include <vector>

#include "kernels/kernels.h"

namespace scurry {
namespace {

static_assert(FLT_EVAL_METHOD == 0, "sums must be rounded to their own type after every addition, as the source's are");

// Numbers distinct vectors of doubles. The pure leaves of a whole forest share a few of them, which then stay in cache.
class VectorTable {
 public:
  // For about so many vectors.
  VectorTable(std::size_t width, std::size_t n, AlignedVector<double>& values)
      : width_(width), values_(values), slots_(std::bit_ceil(2 * std::clamp(n, kLeast, kMost)), kFree) {}

  std::uint32_t index_of(const double* vector) {
    const auto n = static_cast<std::uint32_t>(values_.size() / width_);
    if (2 * (n + std::size_t{1}) > slots_.size()) grow();
    std::size_t at = hash_of(vector) & (slots_.size() - 1);
    for (; slots_[at] != kFree; at = (at + 1) & (slots_.size() - 1)) {
      if (is_same(&values_[slots_[at] * width_], vector)) return slots_[at];
    }
    slots_[at] = n;
    for (std::size_t i = 0; i < width_; ++i) values_.push_back(vector[i]);
    return n;
  }

 private:
  static constexpr std::uint32_t kFree = 0xFFFFFFFFu;
  static constexpr std::size_t kLeast = 512, kMost = std::size_t{1} << 16;

  // By their bits: 0.0 is not -0.0. Nearly all vectors are too short to be worth a call.
  bool is_same(const double* a, const double* b) const {
    for (std::size_t i = 0; i < width_; ++i) {
      if (std::bit_cast<std::uint64_t>(a[i]) != std::bit_cast<std::uint64_t>(b[i])) return false;
    }
    return true;
  }

  std::size_t hash_of(const double* vector) const {
    std::uint64_t hash = 0x9E3779B97F4A7C15u;
    for (std::size_t i = 0; i < width_; ++i) {
      hash = (hash ^ std::bit_cast<std::uint64_t>(vector[i])) * 0xFF51AFD7ED558CCDu;
      hash ^= hash >> 32;
    }
    return hash;
  }

  void grow() {
    slots_.assign(2 * slots_.size(), kFree);
    for (std::uint32_t value = 0; value < values_.size() / width_; ++value) {
      std::size_t at = hash_of(&values_[value * width_]) & (slots_.size() - 1);
      while (slots_[at] != kFree) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = value;
    }
  }

  std::size_t width_;
  AlignedVector<double>& values_;
  std::vector<std::uint32_t> slots_;  // a power of two, at least half of them free
};

std::size_t output_of(const Tree& tree) { return static_cast<std::size_t>(std::max(tree.output, 0)); }

std::size_t padded_width(std::size_t n_columns) { return n_columns <= 2 ? n_columns : (n_columns + 7) / 8 * 8; }

}  // namespace

NodeValues::NodeValues(const ForestView& forest)
    : vectors_(forest.n_columns > 1),
      float32_(forest.float32_score),
      width_(padded_width(forest.n_columns)),
      base_score_(forest.base_score.begin(), forest.base_score.end()) {}

NodeValues::NodeValues(const ForestView& forest, std::span<const double> values) : NodeValues(forest) {
  require(are_payloads() ? values.empty() : !values.empty() && values.size() % width_ == 0, "values");
  if (reinterpret_cast<std::uintptr_t>(values.data()) % 64 != 0) {
    own_.assign(values.begin(), values.end());
    values = own_;
  }
  table_ = values;
}

std::vector<std::uint32_t> NodeValues::index_leaves(const ForestView& forest) { return index(forest, true, {}); }

std::vector<std::uint32_t> NodeValues::index_nodes(const ForestView& forest, std::span<const double> weights) {
  return index(forest, false, weights);
}

std::vector<std::uint32_t> NodeValues::index(const ForestView& forest, bool leaves_only,
                                             std::span<const double> weights) {
  std::vector<std::uint32_t> payloads(forest.end_of_leaves());
  VectorTable distinct(width_, payloads.size(), own_);
  if (forest.packed != nullptr && !are_payloads()) own_.reserve(payloads.size() * width_);  // they are mostly distinct
  std::vector<double> vector(width_);
  const auto add = [&](std::size_t node) {
    read(forest, weights, node, vector.data());
    payloads[node] =
        are_payloads() ? std::bit_cast<std::uint32_t>(static_cast<float>(vector[0])) : distinct.index_of(vector.data());
  };
  if (leaves_only) {
    for_each_leaf(forest, add);
  } else {
    for (std::size_t node = 0; node < forest.n_nodes(); ++node) add(node);
  }
  if (own_.size() < own_.capacity() / 8 * 7) own_.shrink_to_fit();  // else it would be copied for little
  table_ = own_;
  return payloads;
}

std::uint32_t NodeValues::append(const ForestView& forest, std::span<const double> weights,
                                 std::span<const std::int32_t> nodes) {
  const std::size_t first = size();
  own_.resize((first + nodes.size()) * width_);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    read(forest, weights, static_cast<std::size_t>(nodes[i]), &own_[(first + i) * width_]);
  }
  own_.shrink_to_fit();
  table_ = own_;
  return static_cast<std::uint32_t>(first);
}

// Reads what a node adds to the sums.
void NodeValues::read(const ForestView& forest, std::span<const double> weights, std::size_t node,
                      double* vector) const {
  forest.read_value(node, vector);
  if (weights.empty() && forest.aggregation != Aggregation::kVote) return;
  const double weight = weights.empty() ? 1.0 : weights[node];
  double* const end = vector + forest.n_columns;
  if (forest.aggregation == Aggregation::kVote) {
    const auto voted = std::max_element(vector, end) - vector;
    std::fill(vector, end, 0.0);
    vector[voted] = weight;
  } else {
    std::transform(vector, end, vector, [=](double v) { return v * weight; });
  }
}

template <class Real>
void NodeValues::start(std::size_t n, AlignedVector<Real>& sums) const {
  sums.resize(n * (vectors_ ? width_ : base_score_.size()));
  for (std::size_t k = 0; k < base_score_.size(); ++k) {
    const auto base = static_cast<Real>(base_score_[k]);
    if (vectors_) {
      for (std::size_t row = 0; row < n; ++row) sums[row * width_ + k] = base;
    } else {
      std::fill_n(sums.begin() + static_cast<std::ptrdiff_t>(k * n), n, base);
    }
  }
}

// The table has doubles; each is rounded here, as a single one is when it becomes a payload.
void NodeValues::add_float_vector(std::uint32_t payload, float* sums) const {
  const double* value = at(payload);
  for (std::size_t k = 0; k < base_score_.size(); ++k) sums[k] += static_cast<float>(value[k]);
}

template <class Real>
void NodeValues::add(const Tree& tree, const std::uint32_t* payload, std::size_t n, Real* sums) const {
  Real* of_output = sums + output_of(tree) * n;
  if constexpr (std::is_same_v<Real, float>) {
    if (!vectors_) return kernels().sums.add_floats(payload, n, of_output);
    for (std::size_t row = 0; row < n; ++row) add_float_vector(payload[row], sums + row * width_);
  } else if (vectors_) {
    kernels().sums.add_vectors(table_.data(), width_, payload, n, sums);
  } else {
    kernels().sums.add_doubles(table_.data(), payload, n, of_output);
  }
}

template <class Real>
void NodeValues::add_row(const std::vector<Tree>& trees, const std::uint32_t* payload, Real* sums) const {
  const auto value_of = [&](std::size_t t) {
    if constexpr (std::is_same_v<Real, float>)
      return std::bit_cast<float>(payload[t]);
    else
      return table_[payload[t]];
  };
  if (vectors_) {
    if constexpr (std::is_same_v<Real, double>) {
      kernels().sums.sum_vectors(table_.data(), width_, payload, trees.size(), sums);
    } else {
      for (std::size_t t = 0; t < trees.size(); ++t) add_float_vector(payload[t], sums);
    }
  } else if (base_score_.size() == 1) {
    Real sum = sums[0];  // in a register: in memory, each addition would wait for the store of the last one
    for (std::size_t t = 0; t < trees.size(); ++t) sum += value_of(t);
    sums[0] = sum;
  } else {
    for (std::size_t t = 0; t < trees.size(); ++t) sums[output_of(trees[t])] += value_of(t);
  }
}

template void NodeValues::start(std::size_t, AlignedVector<float>&) const;
template void NodeValues::start(std::size_t, AlignedVector<double>&) const;
template void NodeValues::add(const Tree&, const std::uint32_t*, std::size_t, float*) const;
template void NodeValues::add(const Tree&, const std::uint32_t*, std::size_t, double*) const;
template void NodeValues::add_row(const std::vector<Tree>&, const std::uint32_t*, float*) const;
template void NodeValues::add_row(const std::vector<Tree>&, const std::uint32_t*, double*) const;

}  // namespace scurry
