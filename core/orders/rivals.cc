// Sorts rows of several classes into safe, lost and open ones, and counts the open ones for every tree.
#include "orders/rivals.h"

#include <algorithm>
#include <numeric>

namespace scurry {

namespace {

constexpr std::size_t lanes_for(std::size_t n_classes) {
  return n_classes <= 8 ? 8 : (n_classes + kIntLanes - 1) / kIntLanes * kIntLanes;
}

}  // namespace

RivalRows::RivalRows(const Descent& descent, bool down)
    : descent_(descent),
      n_lanes_(lanes_for(descent.n_margins())),
      own_(descent.n_rows()),
      changes_((descent.n_changes() + 1) * n_lanes_, 0),
      margins_(descent.n_rows() * n_lanes_),
      safe_(descent.n_rows() + kRivalsTogether, 0),
      lost_(descent.n_rows() + kRivalsTogether, 0),
      open_(descent.n_rows() + kRivalsTogether) {
  scale_changes(down ? 2 : -2);
  start();
  bound_changes();
  if (!down) go_to_leaves();
  // A step that changes nothing, to sort the rows.
  const std::vector<std::uint32_t> none(descent.n_leaves(), static_cast<std::uint32_t>(descent.n_changes()));
  step(0, none.data());
}

void RivalRows::scale_changes(std::int32_t factor) {
  for (std::size_t at = 0; at < descent_.n_changes(); ++at) {
    const std::int32_t* change = descent_.change(static_cast<std::uint32_t>(at));
    std::int32_t* scaled = &changes_[at * n_lanes_];
    for (std::size_t lane = 0; lane < n_lanes_; ++lane) {
      scaled[lane] = factor * change[lane < descent_.n_margins() ? lane : 0];
    }
  }
}

void RivalRows::start() {
  for (std::size_t y = 0; y < descent_.n_margins(); ++y) {
    std::vector<std::int32_t> margins = descent_.start_of(y);
    margins.resize(n_lanes_, margins[0]);
    for (std::size_t row = descent_.class_begin(y); row < descent_.class_begin(y + 1); ++row) {
      own_[row] = static_cast<std::uint32_t>(y);
      std::copy(margins.begin(), margins.end(), &margins_[row * n_lanes_]);
    }
  }
}

void RivalRows::bound_changes() {
  std::vector<Extremes> extremes(descent_.n_changes() + 1);
  kernels().rivals.find_extremes(changes_.data(), n_lanes_, extremes.size(), extremes.data());
  std::vector<std::int32_t> safe, lost;  // [leaf of a tree][class]
  for (std::size_t tree = 0; tree < descent_.n_trees(); ++tree) {
    const auto [begin, end] = descent_.leaf_range(tree);
    safe.assign((end - begin) * n_lanes_, 0);
    lost.assign((end - begin) * n_lanes_, 0);
    kernels().rivals.bound_leaves(descent_.changes_of(tree), changes_.data(), extremes.data(), n_lanes_, safe.data(),
                                  lost.data());
    for (std::size_t y = 0; y < descent_.n_margins(); ++y) {
      for (std::size_t row = descent_.class_begin(y); row < descent_.class_begin(y + 1); ++row) {
        const std::size_t at = (descent_.leaves(tree)[row] - begin) * n_lanes_ + y;
        safe_[row] = std::max(safe_[row], safe[at]);
        lost_[row] = std::min(lost_[row], lost[at]);
      }
    }
  }
}

void RivalRows::go_to_leaves() {
  std::vector<std::uint32_t> leaf_of_tree(descent_.n_leaves());
  for (std::size_t tree = 0; tree < descent_.n_trees(); ++tree) {
    const auto [begin, end] = descent_.leaf_range(tree);
    AlignedVector<std::int32_t> way((end - begin) * n_lanes_, 0);  // [leaf of the tree][lane] all steps down to it
    descent_.for_each_change(tree, [&, first = begin](std::size_t leaf, std::uint32_t at) {
      for (std::size_t lane = 0; lane < n_lanes_; ++lane) {
        way[(leaf - first) * n_lanes_ + lane] -= changes_[at * n_lanes_ + lane];
      }
    });
    std::iota(leaf_of_tree.begin() + begin, leaf_of_tree.begin() + end, 0u);
    take(tree, leaf_of_tree.data(), way.data());
  }
}

void RivalRows::take(std::size_t tree, const std::uint32_t* change_of_leaf, const std::int32_t* changes) {
  n_open_ = kernels().rivals.take({own_.data(), change_of_leaf, changes, n_lanes_}, descent_.leaves(tree),
                                  {safe_.data(), lost_.data()}, descent_.n_rows(), margins_.data(), open_.data(),
                                  &surely_wrong_);
}

void RivalRows::step(std::size_t tree, const std::uint32_t* change_of_leaf) {
  take(tree, change_of_leaf, changes_.data());
}

std::vector<std::size_t> RivalRows::wrongs(std::span<const std::size_t> trees,
                                           const std::uint32_t* change_of_leaf) const {
  std::vector<std::size_t> wrong(trees.size(), surely_wrong_);
  std::vector<const std::uint32_t*> leaves;
  for (const std::size_t tree : trees) leaves.push_back(descent_.leaves(tree));
  kernels().rivals.count({own_.data(), change_of_leaf, changes_.data(), n_lanes_}, leaves.data(), trees.size(),
                         open_.data(), n_open_, margins_.data(), wrong.data());
  return wrong;
}

}  // namespace scurry
