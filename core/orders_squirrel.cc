#include "orders_squirrel.h"

#include <algorithm>
#include <limits>

namespace scurry {

Squirrel::Squirrel(const Descent& descent, bool down)
    : down_(down), position_(descent), change_of_leaf_(descent.n_leaves()) {
  const std::size_t n_trees = descent.n_trees(), n_rows = descent.n_rows();
  if (!descent.regression()) bound_changes();
  if (descent.n_margins() == 1) {
    margin_of_leaf_.resize(descent.n_leaves());
    leaf_.resize(n_rows * n_trees);
    for (std::size_t tree = 0; tree < n_trees; ++tree) {
      for (std::size_t row = 0; row < n_rows; ++row) leaf_[row * n_trees + tree] = descent.leaves(tree)[row];
    }
  }
  for (std::size_t tree = 0; tree < n_trees; ++tree) {
    for (std::size_t level = 0; !down && level < descent.depth(tree); ++level) position_.step_down(tree);
    read_next(tree);
  }
}

void Squirrel::bound_changes() {
  const Descent& descent = position_.descent();
  lowest_.resize(descent.n_rows() * descent.n_margins());
  highest_.resize(lowest_.size());
  std::vector<std::int32_t> changes(lowest_.size());
  for (std::size_t tree = 0; tree < descent.n_trees(); ++tree) {
    for (std::size_t level = 1; level <= descent.depth(tree); ++level) {
      descent.read_step(tree, level, change_of_leaf_.data());
      descent.changes(tree, change_of_leaf_.data(), 0, descent.n_rows(), changes.data());
      for (std::size_t i = 0; i < changes.size(); ++i) {
        const std::int32_t change = down_ ? changes[i] : -changes[i];
        lowest_[i] = std::min(lowest_[i], change);
        highest_[i] = std::max(highest_[i], change);
      }
    }
  }
}

void Squirrel::read_next(std::size_t tree) {
  const Descent& descent = position_.descent();
  if (done(tree)) return;
  descent.read_step(tree, position_.level(tree) + (down_ ? 1 : 0), change_of_leaf_.data());
  if (descent.n_margins() > 1) return;
  const auto [begin, end] = descent.leaf_range(tree);
  for (std::uint32_t leaf = begin; leaf < end; ++leaf) {
    const std::int32_t change = *descent.change(change_of_leaf_[leaf]);
    margin_of_leaf_[leaf] = down_ ? change : -change;
  }
}

void Squirrel::step(std::size_t tree) {
  if (down_) {
    position_.step_down(tree);
  } else {
    position_.step_up(tree);
  }
  read_next(tree);
}

std::vector<double> Squirrel::look() {
  const Descent& descent = position_.descent();
  std::vector<double> losses = descent.regression()       ? look_at_residuals()
                               : descent.n_margins() == 1 ? look_at_single_margins()
                                                          : look_at_rivals();
  for (std::size_t tree = 0; tree < descent.n_trees(); ++tree) {
    if (done(tree)) losses[tree] = std::numeric_limits<double>::infinity();
  }
  return losses;
}

std::vector<double> Squirrel::look_at_residuals() const {
  const std::size_t n_trees = position_.descent().n_trees();
  std::vector<double> losses(n_trees, 0.0);
  for (std::size_t row = 0; row < position_.descent().n_rows(); ++row) {
    const std::uint32_t* leaf = &leaf_[row * n_trees];
    for (std::size_t tree = 0; tree < n_trees; ++tree) {
      const double after = position_.margins()[row] + margin_of_leaf_[leaf[tree]];
      losses[tree] += after * after;
    }
  }
  return losses;
}

std::vector<double> Squirrel::look_at_single_margins() const {
  const Descent& descent = position_.descent();
  const std::size_t n_trees = descent.n_trees();
  std::vector<std::size_t> wrong(n_trees, 0);
  std::size_t surely_wrong = 0;
  for (std::size_t row = 0; row < descent.n_rows(); ++row) {
    const std::int32_t margin = position_.margins()[row];
    if (margin + lowest_[row] > 0) continue;
    if (margin + highest_[row] <= 0) {
      ++surely_wrong;
      continue;
    }
    const std::int32_t sign = row < descent.class_begin(1) ? 1 : -1;
    const std::uint32_t* leaf = &leaf_[row * n_trees];
    for (std::size_t tree = 0; tree < n_trees; ++tree) wrong[tree] += margin + sign * margin_of_leaf_[leaf[tree]] <= 0;
  }
  std::vector<double> losses;
  for (const std::size_t count : wrong) losses.push_back(static_cast<double>(surely_wrong + count));
  return losses;
}

std::vector<double> Squirrel::look_at_rivals() const {
  const Descent& descent = position_.descent();
  struct Rival {
    std::uint32_t c;
    std::int32_t margin;
  };
  struct OpenRow {
    std::uint32_t row, y;
    std::size_t rivals_end;
  };
  std::vector<Rival> rivals;  // of all open rows
  std::vector<OpenRow> open;
  std::size_t surely_wrong = 0;
  const std::size_t n_classes = descent.n_margins();
  for (std::uint32_t y = 0; y < n_classes; ++y) {
    for (std::size_t row = descent.class_begin(y); row < descent.class_begin(y + 1); ++row) {
      const std::size_t before = rivals.size();
      bool lost = false;
      for (std::uint32_t c = 0; c < n_classes && !lost; ++c) {
        const std::size_t at = row * n_classes + c;
        const std::int32_t margin = position_.margins()[at];
        lost = margin + highest_[at] <= 0;
        if (margin + lowest_[at] <= 0) rivals.push_back({c, margin});
      }
      if (lost) {
        ++surely_wrong;
        rivals.resize(before);
      } else if (rivals.size() > before) {
        open.push_back({static_cast<std::uint32_t>(row), y, rivals.size()});
      }
    }
  }
  std::vector<double> losses(descent.n_trees());
  const std::int32_t twice = down_ ? 2 : -2;
  for (std::size_t tree = 0; tree < descent.n_trees(); ++tree) {
    const std::uint32_t* leaf = descent.leaves(tree);
    std::size_t wrong = surely_wrong, r = 0;
    for (const OpenRow& row : open) {
      const std::int32_t* change = descent.change(change_of_leaf_[leaf[row.row]]);
      bool loses = false;
      for (; r < row.rivals_end; ++r) loses |= rivals[r].margin + twice * (change[row.y] - change[rivals[r].c]) <= 0;
      wrong += loses;
    }
    losses[tree] = static_cast<double>(wrong);
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
