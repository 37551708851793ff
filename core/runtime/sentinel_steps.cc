// What a sentinel exit prepares for sliced trees, and for answers that are labels alone.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "runtime/sentinel_exit.h"

namespace scurry {

// A whole number exceeds a limit if it exceeds the next whole number below. No sum of lanes is as small as the least
// integer, which stands for limits that stop no row.
void SentinelExit::round_limits() {
  using Limits = std::numeric_limits<std::int32_t>;
  for (const Sentinel& sentinel : sentinels_) {
    std::vector<std::int32_t>& whole = whole_limits_.emplace_back();
    if (sentinel.square != 0.0) continue;
    for (const double limit : sentinel.limits) {
      whole.push_back(limit >= Limits::max()   ? Limits::max()
                      : limit > Limits::min() ? static_cast<std::int32_t>(std::floor(limit))
                                              : Limits::min());
    }
  }
}

void SentinelExit::slice_lanes() {
  // Numbers are moved as often as rows are, so that keeping them pays where many rows stop after few trees. Where
  // sentinels go on nearly to the last tree, hardly a row is left that the model itself has to answer. If no row stops,
  // a block keeps a byte for each row and tree.
  constexpr std::size_t kFewTrees = 16, kMostTrees = 1024;
  keeps_numbers_ = kernels().sliced_lanes.number != nullptr && kernels().compress.bytes != nullptr &&
                   !sentinels_.empty() && sentinels_[0].n_trees <= kFewTrees &&
                   sentinels_.back().n_trees <= std::min(kMostTrees, plan_.size() * 3 / 4);
  for (std::size_t j = 0; keeps_numbers_ && j < sentinels_.size(); ++j) {
    std::vector<SlicedTree> trees;
    for (std::size_t place = segments_[j].first_tree; place < sentinels_[j].n_trees; ++place) {
      trees.push_back(walker_.sliced()->trees()[plan_[place].index]);
    }
    numbered_.push_back(walker_.sliced()->run_of(std::move(trees)));
  }
  sliced_sums_ = SlicedSums::make(
      *walker_.sliced(), walker_.trees(), values_,
      [&, &at = place_of_tree_](auto tree, auto payload) { return values_of(at[tree])[leaf_of(at[tree], payload)]; },
      keeps_numbers_);
  steps_ = plan_steps();
  SlicedLanes sliced;
  std::vector<std::size_t> lanes;
  for (std::size_t j = 0; sliced_sums_ && j < sentinels_.size(); ++j) {
    const Step& step = steps_[j];
    if (step.starts) {
      std::size_t last = j;
      while (last + 1 < steps_.size() && !steps_[last + 1].starts) ++last;
      lanes = lanes_of(j, last);
    }
    const std::span<const Tree> trees(plan_.data() + step.first_tree, step.n_trees);
    const auto lane_of = [&](std::size_t tree, std::uint32_t payload, std::size_t lane) {
      const std::size_t place = step.first_tree + tree;
      const Segment& segment = segments_[segment_of_tree_[place]];
      return table_[segment.first_lane + leaf_of(place, payload) * segment.width + lanes[lane]];
    };
    if (!sliced.append(*walker_.sliced(), trees, step.n_lanes, lane_of, keeps_numbers_)) sliced_sums_.reset();
  }
  if (sliced_sums_) sliced_lanes_ = std::move(sliced);
}

// The lanes that sentinels `first` to `last` read, those that are read longest first.
std::vector<std::size_t> SentinelExit::lanes_of(std::size_t first, std::size_t last) const {
  std::vector<std::size_t> lanes;
  if (spread_lane_ != kNoLane) lanes.push_back(static_cast<std::size_t>(spread_lane_));
  for (std::size_t j = last + 1; j-- > first;) {
    if (std::find(lanes.begin(), lanes.end(), sentinels_[j].lane) == lanes.end()) lanes.push_back(sentinels_[j].lane);
  }
  return lanes;
}

// Divides sentinels into the phases that take the least time, about: a third of the rows is taken to stop at each
// second sentinel. Which phases there are changes no sum.
std::vector<SentinelExit::Step> SentinelExit::plan_steps() const {
  // Measured, in time: to find the leaves of a tree; to add one to a lane; to begin and end a lane.
  constexpr double kFind = 0.4, kAdd = 0.035, kLane = 0.15, kStay = 0.8;
  const std::size_t n = sentinels_.size();
  const auto step_of = [&](std::size_t j, std::size_t first, std::size_t last) {
    const bool starts = j == first;
    const std::size_t first_tree = starts ? 0 : sentinels_[j - 1].n_trees;
    const std::size_t place = [&] {
      const std::vector<std::size_t> lanes = lanes_of(first, last);
      return static_cast<std::size_t>(std::find(lanes.begin(), lanes.end(), sentinels_[j].lane) - lanes.begin());
    }();
    return Step{first_tree, sentinels_[j].n_trees - first_tree, lanes_of(j, last).size(), place, starts};
  };
  std::vector<double> least(n + 1, 0.0);  // from each sentinel on
  std::vector<std::size_t> last_of(n);
  for (std::size_t first = n; first-- > 0;) {
    least[first] = std::numeric_limits<double>::infinity();
    for (std::size_t last = first; last < n; ++last) {
      double time = least[last + 1];
      for (std::size_t j = first; j <= last; ++j) {
        const Step step = step_of(j, first, last);
        const auto n_trees = static_cast<double>(step.n_trees), n_lanes = static_cast<double>(step.n_lanes);
        const std::size_t n_before = j == 0 ? 0 : sentinels_[j - 1].n_trees;
        const auto n_found = keeps_numbers_ ? static_cast<double>(sentinels_[j].n_trees - n_before) : n_trees;
        time += std::pow(kStay, j) * (n_found * kFind + n_trees * kAdd * n_lanes + kLane * n_lanes);
      }
      if (time < least[first]) {
        least[first] = time;
        last_of[first] = last;
      }
    }
  }
  std::vector<Step> steps;
  for (std::size_t first = 0; first < n; first = last_of[first] + 1) {
    for (std::size_t j = first; j <= last_of[first]; ++j) steps.push_back(step_of(j, first, last_of[first]));
  }
  return steps;
}

// Finds at which sums the labels of estimates change: a label depends on the score alone, and changes once.
void SentinelExit::cut_labels() {
  for (std::size_t j = 0; j < sentinels_.size(); ++j) {
    const auto label_of = [&](std::int64_t sum) {
      std::int64_t label;
      record_stop(j, static_cast<std::int32_t>(sum), 0, {nullptr, nullptr, &label, nullptr});
      return label;
    };
    std::int64_t below = std::numeric_limits<std::int32_t>::min(), above = std::numeric_limits<std::int32_t>::max();
    const std::int64_t label_below = label_of(below), label_above = label_of(above);
    while (above - below > 1) {
      const std::int64_t middle = below + (above - below) / 2;
      (label_of(middle) == label_below ? below : above) = middle;
    }
    label_cuts_.push_back({static_cast<std::int32_t>(above), label_below, label_above});
  }
}

}  // namespace scurry
