// SingleRows: rows with one margin each (two classes, or a regressor) on their way, and the loss after one more step in
// each tree.
#pragma once

#include "orders/descent.h"

namespace scurry {

class SingleRows {
 public:
  SingleRows(const Descent& descent, bool down);  // at the roots, to go down; or at the leaves, to go up

  void read_next(std::size_t tree, const std::uint32_t* change_of_leaf);  // the tree's next step, which this holds
  void step(std::size_t tree) { add(tree, next_.data()); }                // takes it

  // The loss after the next step of each tree.
  std::vector<double> losses() const { return descent_.regression() ? squares() : wrongs(); }

 private:
  void bound_changes();
  void go_to_leaves();
  void add(std::size_t tree, const std::int32_t* change_of_leaf);
  std::vector<double> squares() const;
  std::vector<double> wrongs() const;

  std::int32_t sign_of(std::size_t y) const { return y == 0 ? 1 : -1; }

  const Descent& descent_;
  std::int32_t factor_;                // from a change on the way down to what a step adds
  std::vector<std::int32_t> margins_;  // [row]
  std::vector<std::int32_t> next_;     // [leaf] what its tree's next step adds to a row of the first class
  std::vector<std::uint32_t> leaf_;    // [row][tree]
  std::vector<std::int32_t> safe_,
      lost_;  // [row] a margin above safe stays right, one up to lost stays wrong, whatever the step
  std::vector<std::uint32_t> open_;  // the rows that are neither safe nor lost,
  std::size_t n_open_ = 0;           // and their number
  std::size_t surely_wrong_ = 0;
};

}  // namespace scurry
