// Engine: a forest lowered once, ready to predict from many threads at a time. Immutable after construction.
#pragma once

#include <cstdint>
#include <vector>

#include "aligned.h"
#include "columns.h"
#include "kernels.h"
#include "readout.h"
#include "trees.h"

namespace scurry {

class Engine {
 public:
  // With leaf_ids a payload is the leaf's node index in the forest, and only leaves() may be called.
  Engine(const ForestView& forest, std::vector<std::int64_t> labels, bool leaf_ids);

  void labels(const RowsView& rows, std::int64_t* out, std::size_t n_threads) const;
  void probabilities(const RowsView& rows, double* out, std::size_t n_threads) const;
  void scores(const RowsView& rows, double* out, std::size_t n_threads) const;
  void leaves(const RowsView& rows, std::int32_t* out, std::size_t n_threads) const;

  std::size_t n_features() const { return n_features_; }
  std::size_t n_trees() const { return trees_.trees().size(); }
  std::size_t n_outputs() const { return readout_.n_outputs(); }
  std::size_t n_probabilities() const { return readout_.n_probabilities(); }
  bool leaf_ids() const { return leaf_ids_; }
  std::size_t node_bytes() const { return trees_.bytes(); }
  std::size_t leaf_bytes() const { return values_.size() * sizeof(double); }

 private:
  struct Scratch;

  Leaves make_leaves(const ForestView& forest);
  void load(const RowsView& rows, std::size_t first, std::size_t n, Scratch& scratch) const;
  void walk(const Tree& tree, Scratch& scratch) const;
  void walk_one_row(const std::uint32_t* keys, std::uint32_t* payload) const;

  // Calls finish(first_row, n_rows, sums, spacing of rows, spacing of outputs) once per block.
  template <class Real, class Finish>
  void sum_blocks(const RowsView& rows, std::size_t n_threads, Finish finish) const;
  template <class Real>
  void sum_block(Scratch& scratch, AlignedVector<Real>& sums) const;
  template <class Real>
  void sum_row(Scratch& scratch, AlignedVector<Real>& sums) const;
  template <class Finish>
  void sum_and_finish(const RowsView& rows, std::size_t n_threads, Finish finish) const;
  template <class Work>
  void for_each_block(std::size_t n_rows, std::size_t n_threads, Work work) const;

  std::size_t n_features_;
  bool leaf_ids_;
  bool vector_leaves_;  // a leaf adds to every output, not to its tree's one
  std::size_t width_;   // doubles per leaf value and per row's sums, padded for the kernels
  Columns columns_;
  AlignedVector<double> values_;  // distinct leaf values, [payload][width_]
  Trees trees_;
  Readout readout_;
};

}  // namespace scurry
