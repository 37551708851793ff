// Squirrel: a position from which one sees the loss after one more step in each tree, in one direction.
//
// No single step moves the margin of a row by more than a bound that is known from the start. Rows whose answer no step
// can change are counted once; only the others (about one in a hundred in a large forest) are counted for every tree.
#pragma once

#include <optional>

#include "orders/rivals.h"
#include "orders/single.h"

namespace scurry {

class Squirrel {
 public:
  Squirrel(const Descent& descent, bool down);  // from the roots down, or from the leaves up

  std::size_t n_trees() const { return descent_.n_trees(); }
  bool done(std::size_t tree) const { return level_[tree] == (down_ ? descent_.depth(tree) : 0); }

  // The loss after a step in each tree; infinity where it has none left.
  std::vector<double> look() const;
  void step(std::size_t tree);

 private:
  void read_next(std::size_t tree);

  const Descent& descent_;
  bool down_;
  std::vector<std::size_t> level_;             // of each tree
  std::vector<std::size_t> unfinished_;        // trees with a step left
  std::vector<std::uint32_t> change_of_leaf_;  // by the next step of its tree
  std::optional<RivalRows> rivals_;            // if there are several margins,
  std::optional<SingleRows> singles_;          // else
};

// The greedy order: trees in the order of their steps from the roots down; equal losses go to the lowest tree.
std::vector<std::int32_t> squirrel_order(const Descent& descent, bool down);

}  // namespace scurry
