// NodeValues: what nodes add to the sums of rows, and those sums, in the order and precision of the source model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/aligned.h"
#include "runtime/forest_view.h"
#include "runtime/trees.h"

namespace scurry {

class NodeValues {
 public:
  explicit NodeValues(const ForestView& forest);
  // Values of a file, which stay where they lie if that is at a multiple of 64 bytes.
  NodeValues(const ForestView& forest, std::span<const double> values);
  NodeValues(const NodeValues&) = delete;  // table_ may be a view of own_
  NodeValues(NodeValues&&) = default;

  // The payloads that stand for the values of nodes, by node of the forest. With weights, values are multiplied by
  // them.
  std::vector<std::uint32_t> index_leaves(const ForestView& forest);
  std::vector<std::uint32_t> index_nodes(const ForestView& forest, std::span<const double> weights);

  // Whether values are so small that a walk which may end at any node keeps one per node, in the order of nodes: a
  // table of distinct values would take two look-ups in memory instead of one.
  bool are_small() const { return !float32_ && width_ <= 2; }
  // Appends the values of these nodes, in this order. Returns the payload of the first; the others follow it.
  std::uint32_t append(const ForestView& forest, std::span<const double> weights, std::span<const std::int32_t> nodes);

  // Whether the source sums in float32.
  bool in_float32() const { return float32_; }
  bool are_vectors() const { return vectors_; }  // a node adds to every output, not to its tree's one
  std::size_t n_outputs() const { return base_score_.size(); }
  // The value that a payload stands for; not in float32, unless values are vectors.
  const double* at(std::uint32_t payload) const { return &table_[payload * width_]; }
  // Whether a value is its own payload; else payloads are below size().
  bool are_payloads() const { return float32_ && !vectors_; }
  std::size_t size() const { return table_.size() / width_; }
  std::span<const double> table() const { return table_; }
  double base_score(std::size_t output) const { return base_score_[output]; }
  std::size_t bytes() const { return table_.size() * sizeof(double); }

  // How the sums of n rows are laid out.
  std::size_t row_spacing() const { return vectors_ ? width_ : 1; }
  std::size_t output_spacing(std::size_t n) const { return vectors_ ? 1 : n; }

  // Sets the sums of n rows to the base scores.
  template <class Real>
  void start(std::size_t n, AlignedVector<Real>& sums) const;
  // Adds the values of the nodes that n rows reached in a tree.
  template <class Real>
  void add(const Tree& tree, const std::uint32_t* payload, std::size_t n, Real* sums) const;
  // Adds, for a single row, the values of the nodes it reached in all trees.
  template <class Real>
  void add_row(const std::vector<Tree>& trees, const std::uint32_t* payload, Real* sums) const;

 private:
  std::vector<std::uint32_t> index(const ForestView& forest, bool leaves_only, std::span<const double> weights);
  void add_float_vector(std::uint32_t payload, float* sums) const;
  void read(const ForestView& forest, std::span<const double> weights, std::size_t node, double* vector) const;

  bool vectors_, float32_;
  std::size_t width_;  // doubles per value and per row's sums, padded for the kernels
  std::vector<double> base_score_;
  AlignedVector<double> own_;
  std::span<const double> table_;  // [payload][width_], own ones or those of a file; a single float32 is the payload itself
};

}  // namespace scurry
