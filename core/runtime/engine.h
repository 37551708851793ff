// Engine: a forest ready to predict: leaves summed in the source's order and precision, then read out.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/node_values.h"
#include "runtime/readout.h"
#include "runtime/walker.h"

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
  std::size_t n_trees() const { return walker_.trees().size(); }
  std::size_t n_outputs() const { return readout_.n_outputs(); }
  std::size_t n_probabilities() const { return readout_.n_probabilities(); }
  std::size_t node_bytes() const { return walker_.bytes(); }
  std::size_t leaf_bytes() const { return values_.bytes(); }

 private:
  Leaves make_leaves(const ForestView& forest);

  // Calls finish(first row, rows, sums, spacing of rows, spacing of outputs) once per block.
  template <class Finish>
  void sum(const RowsView& rows, std::size_t n_threads, Finish finish) const;
  template <class Real, class Finish>
  void sum_as(const RowsView& rows, std::size_t n_threads, Finish finish) const;
  template <class Real>
  void sum_block(Scratch& scratch, AlignedVector<Real>& sums) const;
  template <class Real>
  void sum_row(Scratch& scratch, AlignedVector<Real>& sums) const;

  std::size_t n_features_;
  bool leaf_ids_;
  NodeValues values_;
  Walker walker_;
  Readout readout_;
};

}  // namespace scurry
