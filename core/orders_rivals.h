// RivalRows: rows of several classes on their way, and which of them one more step could put right or wrong.
//
// A row has twice its sum for every class, less twice the sum its own class started with; the sums of the other classes
// carry who wins a tie in their lowest bit. It is right iff none exceeds its own. Vectors are padded with what never does.
#pragma once

#include "aligned.h"
#include "orders_descent.h"

namespace scurry {

class RivalRows {
 public:
  RivalRows(const Descent& descent, bool down);  // at the roots, to go down; or at the leaves, to go up

  // Takes the next step of a tree, which change_of_leaf holds.
  void step(std::size_t tree, const std::uint32_t* change_of_leaf);

  // The number of rows wrong after the next step of a tree.
  std::size_t wrong_after(std::size_t tree, const std::uint32_t* change_of_leaf) const;

 private:
  void start(bool down);
  void bound_changes();

  const Descent& descent_;
  std::int32_t factor_;  // from a class's change on the way down to what a step adds
  std::size_t n_lanes_;
  AlignedVector<std::int32_t> sums_;       // [row][lane]
  AlignedVector<std::int32_t> changes_;    // [change][lane]
  std::vector<std::int32_t> own_;          // [row] its class
  std::vector<std::int64_t> fall_, rise_;  // [row] how much a step can lose, or win, against any class
  std::vector<std::uint32_t> open_;        // rows whose answer a step can change
  std::size_t n_open_ = 0, surely_wrong_ = 0;
};

}  // namespace scurry
