// RivalRows: rows of several classes on their way, and which of them one more tree step could make right or wrong.
//
// Margins are those of Descent, which are odd; lanes beyond the classes repeat the first.
#pragma once

#include "kernels/kernels.h"
#include "orders/descent.h"
#include "runtime/aligned.h"

namespace scurry {

class RivalRows {
 public:
  RivalRows(const Descent& descent, bool down);  // at the roots, to go down; or at the leaves, to go up

  // Takes the next step of a tree, which change_of_leaf holds.
  void step(std::size_t tree, const std::uint32_t* change_of_leaf);

  // The number of rows wrong after the next step of each of these trees.
  std::vector<std::size_t> wrongs(std::span<const std::size_t> trees, const std::uint32_t* change_of_leaf) const;

 private:
  void scale_changes(std::int32_t factor);
  void start();
  void bound_changes();
  void go_to_leaves();
  void take(std::size_t tree, const std::uint32_t* change_of_leaf, const std::int32_t* changes);

  const Descent& descent_;
  std::size_t n_lanes_;
  std::vector<std::uint32_t> own_;         // [row] its class
  AlignedVector<std::int32_t> changes_;    // [change + 1][lane] what a step adds to twice a class's sum
  AlignedVector<std::int32_t> margins_;    // [row][lane]
  std::vector<std::int32_t> safe_, lost_;  // [row] the RivalBounds, whatever the step
  std::vector<std::uint32_t> open_;        // the rows that are neither safe nor lost,
  std::size_t n_open_ = 0;                 // and their number
  std::size_t surely_wrong_ = 0;
};

}  // namespace scurry
