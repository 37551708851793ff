// Position: the state of a forest after some tree steps, and how well it answers there.
#pragma once

#include "orders/descent.h"

namespace scurry {

class Position {
 public:
  explicit Position(const Descent& descent);  // every tree at its root

  const Descent& descent() const { return descent_; }
  std::size_t level(std::size_t tree) const { return level_[tree]; }
  const std::vector<std::int32_t>& margins() const { return margins_; }  // [row][margin]

  void step_down(std::size_t tree) { add_step(tree, ++level_[tree], 1); }
  void step_up(std::size_t tree) { add_step(tree, level_[tree]--, -1); }

  // The number of rows answered wrongly, or the sum of squared residuals.
  double loss() const;

 private:
  void add_step(std::size_t tree, std::size_t level, std::int32_t sign);

  const Descent& descent_;
  std::vector<std::size_t> level_;
  std::vector<std::int32_t> margins_;
  std::vector<std::uint32_t> change_of_leaf_;
  std::vector<std::int32_t> changes_;
};

// losses[i] = the loss after the first i of `steps`.
std::vector<double> losses_along(const Descent& descent, std::span<const std::int32_t> steps);

}  // namespace scurry
