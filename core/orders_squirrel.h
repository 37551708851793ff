// Squirrel: a position that sees what one more step in each tree would lead to, in one direction.
//
// No single step moves a row's margin by more than a bound known from the start. Rows whose answer no step can change
// are counted once; only the others (about one in a hundred in a large forest) are looked at for every tree.
#pragma once

#include "orders_position.h"

namespace scurry {

class Squirrel {
 public:
  Squirrel(const Descent& descent, bool down);  // from the roots down, or from the leaves up

  std::size_t n_trees() const { return position_.descent().n_trees(); }
  bool done(std::size_t tree) const { return position_.level(tree) == (down_ ? position_.descent().depth(tree) : 0); }

  // The loss after a step in each tree; infinity where it has none left.
  std::vector<double> look();
  void step(std::size_t tree);

 private:
  void bound_changes();
  void read_next(std::size_t tree);
  std::vector<double> look_at_residuals() const;
  std::vector<double> look_at_single_margins() const;
  std::vector<double> look_at_rivals() const;

  bool down_;
  Position position_;
  std::vector<std::uint32_t> change_of_leaf_;   // by the next step of its tree
  std::vector<std::int32_t> margin_of_leaf_;    // one margin: what that change adds to a row of the first class
  std::vector<std::uint32_t> leaf_;             // one margin: [row][tree]
  std::vector<std::int32_t> lowest_, highest_;  // [row][margin] no step changes a margin by less, by more
};

// The greedy order: trees in the order of their steps from the roots down; equal losses go to the lowest tree.
std::vector<std::int32_t> squirrel_order(const Descent& descent, bool down);

}  // namespace scurry
