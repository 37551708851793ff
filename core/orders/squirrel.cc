// The greedy search for step orders.
#include "orders/squirrel.h"

#include <algorithm>
#include <limits>

#include "runtime/interrupt.h"

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
    if (descent.depth(tree) > 0) unfinished_.push_back(tree);
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
  if (done(tree)) std::erase(unfinished_, tree);
  read_next(tree);
}

std::vector<double> Squirrel::look() const {
  std::vector<double> losses(n_trees(), std::numeric_limits<double>::infinity());
  if (rivals_) {
    const std::vector<std::size_t> wrongs = rivals_->wrongs(unfinished_, change_of_leaf_.data());
    for (std::size_t i = 0; i < unfinished_.size(); ++i) losses[unfinished_[i]] = static_cast<double>(wrongs[i]);
  } else {
    const std::vector<double> of_all = singles_->losses();
    for (const std::size_t tree : unfinished_) losses[tree] = of_all[tree];
  }
  return losses;
}

std::vector<std::int32_t> squirrel_order(const Descent& descent, bool down) {
  Squirrel squirrel(descent, down);
  std::vector<std::int32_t> order;
  while (order.size() < descent.n_steps()) {
    poll_interrupt();
    const std::vector<double> losses = squirrel.look();
    const auto tree = std::min_element(losses.begin(), losses.end()) - losses.begin();
    squirrel.step(static_cast<std::size_t>(tree));
    order.push_back(static_cast<std::int32_t>(tree));
  }
  if (!down) std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace scurry
