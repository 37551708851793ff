// Sorts rows by class and lists, for each tree step, what it changes for the rows of each leaf.
#include "orders/descent.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace scurry {

Descent::Descent(const DescentInput& input)
    : regression_(input.regression),
      last_class_wins_ties_(input.last_class_wins_ties),
      n_margins_(input.start.size() <= 2 ? 1 : input.start.size()),
      row_order_(input.target.size()),
      start_(input.start.begin(), input.start.end()) {
  sort_rows(input);
  number_leaves(input);
}

void Descent::sort_rows(const DescentInput& input) {
  if (regression_) {
    std::iota(row_order_.begin(), row_order_.end(), 0u);
    target_.assign(input.target.begin(), input.target.end());
    class_begin_ = {0, n_rows()};
    return;
  }
  class_begin_.assign(start_.size() + 1, 0);
  for (const std::int32_t y : input.target) {
    if (y < 0 || static_cast<std::size_t>(y) >= start_.size()) throw std::invalid_argument("a target is not a class");
    ++class_begin_[y + 1];
  }
  std::partial_sum(class_begin_.begin(), class_begin_.end(), class_begin_.begin());
  std::vector<std::size_t> next = class_begin_;
  for (std::uint32_t row = 0; row < n_rows(); ++row) row_order_[next[input.target[row]]++] = row;
}

// Numbers leaves from left to right, so that the leaves below any node are a range.
void Descent::number_leaves(const DescentInput& input) {
  const std::size_t n_nodes = input.left.size(), n_trees = input.tree_offset.size() - 1;
  std::vector<std::uint32_t> count(n_nodes, 1), first(n_nodes, 0);
  for (std::size_t node = n_nodes; node-- > 0;) {
    if (input.left[node] >= 0) count[node] = count[input.left[node]] + count[input.right[node]];
  }
  leaf_begin_.push_back(0);
  for (std::size_t tree = 0; tree < n_trees; ++tree) {
    first[input.tree_offset[tree]] = leaf_begin_.back();
    leaf_begin_.push_back(leaf_begin_.back() + count[input.tree_offset[tree]]);
  }
  for (std::size_t node = 0; node < n_nodes; ++node) {
    if (input.left[node] < 0) continue;
    first[input.left[node]] = first[node];
    first[input.right[node]] = first[node] + count[input.left[node]];
  }
  leaf_.resize(n_trees * n_rows());
  constexpr std::size_t kTile = 64;  // rows that are transposed together, so that both sides stay in cache
  for (std::size_t top = 0; top < n_rows(); top += kTile) {
    const std::size_t end = std::min(n_rows(), top + kTile);
    for (std::size_t tree = 0; tree < n_trees; ++tree) {
      for (std::size_t row = top; row < end; ++row) {
        const std::int64_t leaf = input.leaf[row_order_[row] * n_trees + tree];
        if (leaf < input.tree_offset[tree] || leaf >= input.tree_offset[tree + 1] || input.left[leaf] >= 0) {
          throw std::invalid_argument("a row's leaf is not a leaf of its tree");
        }
        leaf_[tree * n_rows() + row] = first[leaf];
      }
    }
  }
  list_steps(input, first, count);
}

void Descent::list_steps(const DescentInput& input, const std::vector<std::uint32_t>& first_leaf,
                         const std::vector<std::uint32_t>& leaf_count) {
  const std::size_t n_trees = leaf_begin_.size() - 1, n_outputs = start_.size();
  for (std::size_t tree = 0; tree < n_trees; ++tree) {
    const auto level = input.level.begin();
    depth_.push_back(static_cast<std::size_t>(
        *std::max_element(level + input.tree_offset[tree], level + input.tree_offset[tree + 1])));
  }
  first_step_.resize(n_trees + 1, 0);
  std::partial_sum(depth_.begin(), depth_.end(), first_step_.begin() + 1);

  const auto for_each_change = [&](auto visit) {
    for (std::size_t tree = 0; tree < n_trees; ++tree) {
      for (std::int64_t node = input.tree_offset[tree]; node < input.tree_offset[tree + 1]; ++node) {
        if (input.level[node] > 0) visit(first_step_[tree] + static_cast<std::size_t>(input.level[node]) - 1, node);
      }
    }
  };
  step_begin_.assign(first_step_.back() + 1, 0);
  for_each_change([&](std::size_t step, std::int64_t) { ++step_begin_[step + 1]; });
  std::partial_sum(step_begin_.begin(), step_begin_.end(), step_begin_.begin());

  std::vector<std::size_t> next = step_begin_;
  reach_.resize(next.back());
  change_.assign((next.back() + 1) * n_margins_, 0);
  for_each_change([&](std::size_t step, std::int64_t node) {
    const std::size_t at = next[step]++;
    const std::int32_t* change = &input.change[node * n_outputs];
    reach_[at] = {first_leaf[node], leaf_count[node]};
    if (n_margins_ > 1) {
      std::copy(change, change + n_margins_, &change_[at * n_margins_]);
    } else {
      change_[at] = regression_ ? change[0] : 2 * (change[0] - change[1]);
    }
  });
}

std::vector<std::int32_t> Descent::start() const {
  std::vector<std::int32_t> margins(n_rows() * n_margins_);
  if (regression_) {
    for (std::size_t row = 0; row < n_rows(); ++row) margins[row] = start_[0] - target_[row];
    return margins;
  }
  for (std::size_t y = 0; y < start_.size(); ++y) {
    const std::vector<std::int32_t> of_class = start_of(y);
    for (std::size_t row = class_begin_[y]; row < class_begin_[y + 1]; ++row) {
      std::copy(of_class.begin(), of_class.end(), &margins[row * n_margins_]);
    }
  }
  return margins;
}

std::vector<std::int32_t> Descent::start_of(std::size_t y) const {
  std::vector<std::int32_t> margins;
  for (std::size_t c = 0; c < start_.size(); ++c) {
    const std::int32_t on_tie = (c > y) != last_class_wins_ties_ ? 1 : -1;
    margins.push_back(c == y ? kOwnMargin : 2 * (start_[y] - start_[c]) + on_tie);
  }
  if (n_margins_ == 1) margins = {margins[1 - y]};
  return margins;
}

void Descent::read_step(std::size_t tree, std::size_t level, std::uint32_t* change_of_leaf) const {
  // Rows at a leaf above this level stay there: theirs is the last change, which is 0.
  std::fill(change_of_leaf + leaf_begin_[tree], change_of_leaf + leaf_begin_[tree + 1],
            static_cast<std::uint32_t>(reach_.size()));
  const std::size_t step = first_step_[tree] + level - 1;
  for (std::size_t at = step_begin_[step]; at < step_begin_[step + 1]; ++at) {
    std::fill_n(change_of_leaf + reach_[at].first, reach_[at].count, static_cast<std::uint32_t>(at));
  }
}

void Descent::changes(std::size_t tree, const std::uint32_t* change_of_leaf, std::size_t first, std::size_t n,
                      std::int32_t* out) const {
  const std::uint32_t* leaf = leaves(tree);
  for (std::size_t y = 0; y + 1 < class_begin_.size(); ++y) {
    const std::size_t begin = std::max(first, class_begin_[y]), end = std::min(first + n, class_begin_[y + 1]);
    if (n_margins_ == 1) {
      const std::int32_t sign = y == 0 ? 1 : -1;
      for (std::size_t row = begin; row < end; ++row) out[row - first] = sign * change_[change_of_leaf[leaf[row]]];
      continue;
    }
    for (std::size_t row = begin; row < end; ++row) {
      const std::int32_t* change_of_class = change(change_of_leaf[leaf[row]]);
      const std::int32_t own = change_of_class[y];
      std::int32_t* margin = out + (row - first) * n_margins_;
      for (std::size_t c = 0; c < n_margins_; ++c) margin[c] = 2 * (own - change_of_class[c]);
    }
  }
}

}  // namespace scurry
