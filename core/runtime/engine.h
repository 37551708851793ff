// Engine: a forest ready to predict. It sums leaves in the order and precision of the source model.
//
// How the parts of runtime/ fit together, from the bottom up:
//   ForestView     the arrays of a forest as Python holds them
//   Columns        encodes the values of rows as unsigned keys, so that every numeric split is one comparison
//   Trees          the nodes in the layout that the kernels (kernels/kernels.h) walk
//   Symmetric      trees that ask one question per level, which have a faster loop
//   Sliced         trees of up to 64 leaves, which have another one
//   Walker         all of them: takes blocks of rows to their leaves, on several threads
//   NodeValues     what nodes add to the sums of rows
//   LabelSums      the same in small integers, for labels alone
//   Answers        what sums say: scores, probabilities, labels
// and the four ways to run a forest that are made of them: Engine (every tree), EarlyExit (two classes, rows stop
// early), LeaderExit (the same for more classes) and Anytime (tree step by tree step, under a deadline).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/answers.h"
#include "runtime/label_sums.h"
#include "runtime/node_values.h"
#include "runtime/walker.h"

namespace scurry {

class Engine;

// The trees of an engine, for others than it: every node of the forest has the number of one of its values.
struct SharedTrees {
  const Engine* engine = nullptr;  // null: there are none
  std::span<const std::int32_t> value_of_node;  // read at leaves
};

class Engine {
 public:
  // With leaf_ids, payloads are indices of leaves in the forest, and only leaves() may be called.
  Engine(const ForestView& forest, std::vector<std::int64_t> labels, bool leaf_ids);
  // One that was stored. Of the forest, arrays of nodes are not read. The parts must outlive it.
  Engine(const ForestView& forest, std::vector<std::int64_t> labels, const EngineParts& parts);

  // Whether store() may be called: symmetric trees are lowered anew.
  bool can_store() const { return !leaf_ids_ && !walker_.symmetric(); }
  StoredEngine store() const;

  // What leaves add is one of so many values, by whose numbers leaves are known; 0 if leaves hold it themselves.
  std::size_t n_values() const { return leaf_ids_ || values_.are_payloads() ? 0 : values_.size(); }
  const NodeValues& values() const { return values_; }
  // The trees with other payloads, by the number of the value that a leaf has.
  Walker share(std::span<const std::uint32_t> payload_of_value) const;
  // The trees with the numbers of values as payloads.
  Walker share() const;

  // Makes what rows are predicted by now, which the first rows would wait for otherwise.
  void prepare() const {
    walker_.prepare();
    sliced_sums();
  }
  void labels(const RowsView& rows, std::int64_t* out, std::size_t n_threads) const;
  void probabilities(const RowsView& rows, double* out, std::size_t n_threads) const;
  void scores(const RowsView& rows, double* out, std::size_t n_threads) const;
  void leaves(const RowsView& rows, std::int32_t* out, std::size_t n_threads) const;

  std::size_t n_features() const { return n_features_; }
  std::size_t n_trees() const { return walker_.trees().size(); }
  std::size_t n_outputs() const { return answers_.n_outputs(); }
  std::size_t n_probabilities() const { return answers_.n_probabilities(); }
  const char* loop() const { return walker_.loop(); }
  bool slices_tops() const { return walker_.slices_tops(); }
  bool slices_large() const { return walker_.large() != nullptr; }
  // About how long n rows take, each of them, in walks of a tree.
  double cost_of_row(std::size_t n) const { return static_cast<double>(n_trees()) * walker_.cost_of_tree(n); }
  std::size_t node_bytes() const { return walker_.bytes(); }
  std::size_t column_bytes() const { return walker_.columns().bytes(); }  // by which rows are encoded
  std::size_t leaf_bytes() const {
    return values_.bytes() + (symmetric_sums_ ? symmetric_sums_->bytes() : 0) +
           (sliced_sums() ? sliced_sums()->bytes() : 0) + (label_sums_ ? label_sums_->bytes() : 0);
  }

 private:
  Leaves make_leaves(const ForestView& forest);
  std::optional<SymmetricSums> make_symmetric_sums() const;
  const std::optional<SlicedSums>& sliced_sums() const;

  // The labels of a batch by label_sums_, and of the few rows that these cannot tell by their exact sums.
  void labels_by_integers(const RowsView& rows, std::int64_t* out, std::size_t n_threads) const;
  PayloadRange payloads() const;
  bool has_packed_payloads() const { return label_sums_ && label_sums_->are_packed(); }
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
  std::optional<LabelSums> label_sums_;
  Walker walker_;
  std::optional<SymmetricSums> symmetric_sums_;
  MadeOnce<std::optional<SlicedSums>> sliced_sums_;
  Answers answers_;
};

}  // namespace scurry
