#include "orders_squirrel.h"

#include <algorithm>
#include <limits>

namespace scurry {

Squirrel::Squirrel(const Descent& descent, bool down)
    : descent_(descent), down_(down), level_(descent.n_trees(), 0), change_of_leaf_(descent.n_leaves()) {
  const std::size_t n_rows = descent.n_rows();
  for (std::size_t tree = 0; !down && tree < n_trees(); ++tree) level_[tree] = descent.depth(tree);
  if (descent.n_margins() > 1) {
    rivals_.emplace(descent, down);
  } else {
    position_.emplace(descent);
    for (std::size_t tree = 0; tree < n_trees(); ++tree) {
      for (std::size_t level = 0; level < level_[tree]; ++level) position_->step_down(tree);
    }
    if (!descent.regression()) bound_changes();
    margin_of_leaf_.resize(descent.n_leaves());
    leaf_.resize(n_rows * n_trees());
    for (std::size_t tree = 0; tree < n_trees(); ++tree) {
      for (std::size_t row = 0; row < n_rows; ++row) leaf_[row * n_trees() + tree] = descent.leaves(tree)[row];
    }
  }
  for (std::size_t tree = 0; tree < n_trees(); ++tree) read_next(tree);
}

void Squirrel::bound_changes() {
  lowest_.resize(descent_.n_rows());
  highest_.resize(lowest_.size());
  std::vector<std::int32_t> changes(lowest_.size());
  for (std::size_t tree = 0; tree < n_trees(); ++tree) {
    for (std::size_t level = 1; level <= descent_.depth(tree); ++level) {
      descent_.read_step(tree, level, change_of_leaf_.data());
      descent_.changes(tree, change_of_leaf_.data(), 0, descent_.n_rows(), changes.data());
      for (std::size_t i = 0; i < changes.size(); ++i) {
        const std::int32_t change = down_ ? changes[i] : -changes[i];
        lowest_[i] = std::min(lowest_[i], change);
        highest_[i] = std::max(highest_[i], change);
      }
    }
  }
}

void Squirrel::read_next(std::size_t tree) {
  if (done(tree)) return;
  descent_.read_step(tree, level_[tree] + (down_ ? 1 : 0), change_of_leaf_.data());
  if (rivals_) return;
  const auto [begin, end] = descent_.leaf_range(tree);
  for (std::uint32_t leaf = begin; leaf < end; ++leaf) {
    const std::int32_t change = *descent_.change(change_of_leaf_[leaf]);
    margin_of_leaf_[leaf] = down_ ? change : -change;
  }
}

void Squirrel::step(std::size_t tree) {
  if (rivals_) {
    rivals_->step(tree, change_of_leaf_.data());
  } else if (down_) {
    position_->step_down(tree);
  } else {
    position_->step_up(tree);
  }
  level_[tree] = down_ ? level_[tree] + 1 : level_[tree] - 1;
  read_next(tree);
}

std::vector<double> Squirrel::look() const {
  std::vector<double> losses = descent_.regression() ? look_at_residuals()
                               : rivals_             ? look_at_rivals()
                                                     : look_at_single_margins();
  for (std::size_t tree = 0; tree < n_trees(); ++tree) {
    if (done(tree)) losses[tree] = std::numeric_limits<double>::infinity();
  }
  return losses;
}

std::vector<double> Squirrel::look_at_residuals() const {
  std::vector<double> losses(n_trees(), 0.0);
  for (std::size_t row = 0; row < descent_.n_rows(); ++row) {
    const std::uint32_t* leaf = &leaf_[row * n_trees()];
    for (std::size_t tree = 0; tree < n_trees(); ++tree) {
      const double after = position_->margins()[row] + margin_of_leaf_[leaf[tree]];
      losses[tree] += after * after;
    }
  }
  return losses;
}

std::vector<double> Squirrel::look_at_single_margins() const {
  std::vector<std::size_t> wrong(n_trees(), 0);
  std::size_t surely_wrong = 0;
  for (std::size_t row = 0; row < descent_.n_rows(); ++row) {
    const std::int32_t margin = position_->margins()[row];
    if (margin + lowest_[row] > 0) continue;
    if (margin + highest_[row] <= 0) {
      ++surely_wrong;
      continue;
    }
    const std::int32_t sign = row < descent_.class_begin(1) ? 1 : -1;
    const std::uint32_t* leaf = &leaf_[row * n_trees()];
    for (std::size_t tree = 0; tree < n_trees(); ++tree) wrong[tree] += margin + sign * margin_of_leaf_[leaf[tree]] <= 0;
  }
  std::vector<double> losses;
  for (const std::size_t count : wrong) losses.push_back(static_cast<double>(surely_wrong + count));
  return losses;
}

std::vector<double> Squirrel::look_at_rivals() const {
  std::vector<double> losses(n_trees(), 0.0);
  for (std::size_t tree = 0; tree < n_trees(); ++tree) {
    if (!done(tree)) losses[tree] = static_cast<double>(rivals_->wrong_after(tree, change_of_leaf_.data()));
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
