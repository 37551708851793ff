// NodeValues: what nodes add to the sums of rows, and those sums, in the source's order and precision.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "aligned.h"
#include "forest_view.h"
#include "trees.h"

namespace scurry {

class NodeValues {
 public:
  explicit NodeValues(const ForestView& forest);

  // Payloads by which the sums know nodes, by the forest's node index. With weights, a node's value counts that many times.
  std::vector<std::uint32_t> index_leaves(const ForestView& forest);
  std::vector<std::uint32_t> index_nodes(const ForestView& forest, std::span<const double> weights);

  // Whether the source sums in float32. It never does so with vectors.
  bool in_float32() const { return float32_; }
  bool are_vectors() const { return vectors_; }  // a node adds to every output, not to its tree's one
  double base_score(std::size_t output) const { return base_score_[output]; }
  std::size_t bytes() const { return table_.size() * sizeof(double); }

  // The sums of n rows are spaced so.
  std::size_t row_spacing() const { return vectors_ ? width_ : 1; }
  std::size_t output_spacing(std::size_t n) const { return vectors_ ? 1 : n; }

  // Makes the sums of n rows their base scores.
  template <class Real>
  void start(std::size_t n, AlignedVector<Real>& sums) const;
  // Adds the values of the nodes that n rows reached in a tree.
  template <class Real>
  void add(const Tree& tree, const std::uint32_t* payload, std::size_t n, Real* sums) const;
  // The same for a single row.
  template <class Real>
  void add_one(const Tree& tree, std::uint32_t payload, Real* sums) const;

 private:
  std::vector<std::uint32_t> index(const ForestView& forest, bool leaves_only, std::span<const double> weights);

  bool vectors_, float32_;
  std::size_t width_;  // doubles per value and per row's sums, padded for the kernels
  std::vector<double> base_score_;
  AlignedVector<double> table_;  // distinct values, [payload][width_]; in float32 the payload is the value itself
};

template <class Real>
void NodeValues::add_one(const Tree& tree, std::uint32_t payload, Real* sums) const {
  const auto output = static_cast<std::size_t>(std::max(tree.output, 0));
  if constexpr (std::is_same_v<Real, float>) {
    sums[output] += std::bit_cast<float>(payload);
  } else if (vectors_) {
    const double* value = table_.data() + payload * width_;
    for (std::size_t k = 0; k < base_score_.size(); ++k) sums[k] += value[k];
  } else {
    sums[output] += table_[payload];
  }
}

}  // namespace scurry
