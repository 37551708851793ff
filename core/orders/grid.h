// Grid: the losses of many states at once, block by block.
//
// A state is one level per tree; the levels of the last three trees make a block. On the way to a block the other trees
// are fixed one by one, and a row is dropped as soon as the remaining trees cannot change its answer. The remaining
// rows are counted for all states of the block together. Squared errors drop no row, but they are quadratic in the
// changes of the last three trees, so that they need few passes over the rows.
#pragma once

#include "orders/descent.h"

namespace scurry {

class Grid {
 public:
  // Nests the trees that have steps: the deepest outermost, the others from shallow to deep. Trees of a single level
  // are added in front so that there are at least four.
  explicit Grid(const Descent& descent);

  static constexpr std::size_t kBlockTrees = 3;

  std::size_t n_trees() const { return tree_.size(); }
  std::size_t n_levels(std::size_t k) const { return n_levels_[k]; }
  std::size_t stride(std::size_t k) const { return stride_[k]; }  // between states that differ by a step in tree k
  std::size_t n_states() const { return stride_[0] * n_levels_[0]; }
  std::int32_t tree(std::size_t k) const { return tree_[k]; }  // in the forest
  const Descent& descent() const { return descent_; }

  // out[state] of the states that begin with these levels. Loss is std::uint32_t (wrong rows) or double (squared
  // errors).
  template <class Loss>
  void losses(std::span<const std::size_t> levels, Loss* out) const;

 private:
  struct Open;  // the rows still open, each with the rivals it may lose to
  Open open_at_start() const;
  Open after(const Open& open, std::size_t k, std::size_t level) const;
  template <class Loss>
  void descend(const Open& open, std::size_t k, Loss* out) const;
  void count(const Open& open, std::uint32_t* out) const;
  void sum_squares(const Open& open, double* out) const;
  void bound_rest();
  void square_blocks();

  // [level] what tree k adds to a margin on the way from its root.
  const std::int32_t* moved(std::size_t k, std::size_t margin) const { return &moved_[k][margin * n_levels_[k]]; }

  const Descent& descent_;
  std::size_t width_;  // rows times margins
  std::vector<std::int32_t> tree_;
  std::vector<std::size_t> n_levels_, stride_;
  std::vector<std::int32_t> start_;               // [row][margin]
  std::vector<std::vector<std::int32_t>> moved_;  // [k][row][margin][level]
  std::vector<std::int32_t> lowest_, highest_;    // [k][row][margin] of the sum of what trees k, k + 1, … add
  std::vector<double> squares_;                   // [state of a block] of the last three trees' changes alone
};

}  // namespace scurry
