// Sorts rows with one margin into safe, lost and open ones, and computes the loss for every tree.
#include "orders/single.h"

#include <algorithm>

namespace scurry {

SingleRows::SingleRows(const Descent& descent, bool down)
    : descent_(descent),
      factor_(down ? 1 : -1),
      margins_(descent.start()),
      next_(descent.n_leaves(), 0),
      leaf_(descent.n_rows() * descent.n_trees()),
      safe_(descent.n_rows(), 0),
      lost_(descent.n_rows(), 0),
      open_(descent.n_rows() + 1) {
  for (std::size_t tree = 0; tree < descent.n_trees(); ++tree) {
    for (std::size_t row = 0; row < descent.n_rows(); ++row) {
      leaf_[row * descent.n_trees() + tree] = descent.leaves(tree)[row];
    }
  }
  bound_changes();
  if (!down) go_to_leaves();
  add(0, next_.data());  // changes nothing yet, but sorts the rows
}

void SingleRows::bound_changes() {
  std::vector<std::int32_t> lowest(descent_.n_leaves(), 0), highest(descent_.n_leaves(), 0);
  for (std::size_t tree = 0; tree < descent_.n_trees(); ++tree) {
    descent_.for_each_change(tree, [&](std::size_t leaf, std::uint32_t at) {
      const std::int32_t change = factor_ * *descent_.change(at);
      lowest[leaf] = std::min(lowest[leaf], change);
      highest[leaf] = std::max(highest[leaf], change);
    });
    for (std::size_t row = 0; row < descent_.n_rows(); ++row) {
      const std::uint32_t leaf = descent_.leaves(tree)[row];
      const bool first_class = row < descent_.class_begin(1);
      safe_[row] = std::max(safe_[row], first_class ? -lowest[leaf] : highest[leaf]);
      lost_[row] = std::min(lost_[row], first_class ? -highest[leaf] : lowest[leaf]);
    }
  }
}

void SingleRows::go_to_leaves() {
  std::vector<std::int32_t> way(descent_.n_leaves(), 0);  // all steps down to it
  for (std::size_t tree = 0; tree < descent_.n_trees(); ++tree) {
    descent_.for_each_change(tree, [&](std::size_t leaf, std::uint32_t at) { way[leaf] += *descent_.change(at); });
    add(tree, way.data());
  }
}

void SingleRows::read_next(std::size_t tree, const std::uint32_t* change_of_leaf) {
  const auto [begin, end] = descent_.leaf_range(tree);
  for (std::size_t leaf = begin; leaf < end; ++leaf) next_[leaf] = factor_ * *descent_.change(change_of_leaf[leaf]);
}

void SingleRows::add(std::size_t tree, const std::int32_t* change_of_leaf) {
  const std::uint32_t* leaf = descent_.leaves(tree);
  std::size_t n_open = 0, surely_wrong = 0, row = 0;
  for (std::size_t y = 0; row < descent_.n_rows(); ++y) {
    for (const std::size_t end = descent_.class_begin(y + 1); row < end; ++row) {
      const std::int32_t margin = margins_[row] += sign_of(y) * change_of_leaf[leaf[row]];
      open_[n_open] = static_cast<std::uint32_t>(row);
      n_open += static_cast<std::size_t>(margin <= safe_[row]) & static_cast<std::size_t>(margin > lost_[row]);
      surely_wrong += margin <= lost_[row];
    }
  }
  n_open_ = n_open;
  surely_wrong_ = surely_wrong;
}

std::vector<double> SingleRows::squares() const {
  const std::size_t n_trees = descent_.n_trees();
  std::vector<double> losses(n_trees, 0.0);
  for (std::size_t row = 0; row < descent_.n_rows(); ++row) {
    const std::uint32_t* leaf = &leaf_[row * n_trees];
    for (std::size_t tree = 0; tree < n_trees; ++tree) {
      const double after = margins_[row] + next_[leaf[tree]];
      losses[tree] += after * after;
    }
  }
  return losses;
}

std::vector<double> SingleRows::wrongs() const {
  const std::size_t n_trees = descent_.n_trees();
  std::vector<std::uint32_t> wrong(n_trees, static_cast<std::uint32_t>(surely_wrong_));
  for (std::size_t i = 0; i < n_open_; ++i) {
    const std::size_t row = open_[i];
    const std::int32_t margin = margins_[row], sign = row < descent_.class_begin(1) ? 1 : -1;
    const std::uint32_t* leaf = &leaf_[row * n_trees];
    for (std::size_t tree = 0; tree < n_trees; ++tree) wrong[tree] += margin + sign * next_[leaf[tree]] <= 0;
  }
  return {wrong.begin(), wrong.end()};
}

}  // namespace scurry
