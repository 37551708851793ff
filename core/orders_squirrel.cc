#include "orders_squirrel.h"

#include <algorithm>
#include <limits>

namespace scurry {

Squirrel::Squirrel(const Descent& descent, bool down)
    : descent_(descent), down_(down), level_(descent.n_trees(), 0), change_of_leaf_(descent.n_leaves()) {
  if (descent.n_margins() > 1) {
    rivals_.emplace(descent, down);
  } else {
    singles_.emplace(descent, down);
  }
  for (std::size_t tree = 0; tree < n_trees(); ++tree) {
    if (!down) level_[tree] = descent.depth(tree);
    read_next(tree);
  }
}

void Squirrel::read_next(std::size_t tree) {
  if (done(tree)) return;
  descent_.read_step(tree, level_[tree] + (down_ ? 1 : 0), change_of_leaf_.data());
  if (singles_) singles_->read_next(tree, change_of_leaf_.data());
}

void Squirrel::step(std::size_t tree) {
  if (singles_) {
    singles_->step(tree);
  } else {
    rivals_->step(tree, change_of_leaf_.data());
  }
  level_[tree] = down_ ? level_[tree] + 1 : level_[tree] - 1;
  read_next(tree);
}

std::vector<double> Squirrel::look() const {
  std::vector<double> losses = singles_ ? singles_->losses() : std::vector<double>(n_trees());
  for (std::size_t tree = 0; tree < n_trees(); ++tree) {
    if (done(tree)) {
      losses[tree] = std::numeric_limits<double>::infinity();
    } else if (rivals_) {
      losses[tree] = static_cast<double>(rivals_->wrong_after(tree, change_of_leaf_.data()));
    }
  }
  return losses;
}

std::vector<std::int32_t> squirrel_order(const Descent& descent, bool down) {
  Squirrel squirrel(descent, down);
  std::vector<std::int32_t> order;
  while (order.size() < descent.n_steps()) {
    const std::vector<double> losses = squirrel.look();
    const auto tree = std::min_element(losses.begin(), losses.end()) - losses.begin();
    squirrel.step(static_cast<std::size_t>(tree));
    order.push_back(static_cast<std::int32_t>(tree));
  }
  if (!down) std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace scurry
