// Runs sentinel exits block by block. Which leaf a row reached in each tree is kept, so that the rows that stop nowhere
// get the model's own sum, in the source's order of trees.
#include "runtime/sentinel_exit.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "runtime/alive_rows.h"
#include "runtime/interrupt.h"
#include "runtime/sentinel_buffers.h"

namespace scurry {
namespace {

// The leaves of a block in all trees should stay in the caches near a core. Large trees are not there when a block comes
// to them, which pays if it has many rows, even after some have stopped.
constexpr std::size_t kLeafBytes = 4 * 1024 * 1024, kMaxRows = 4096, kLargeTree = 16 * 1024;

// Rows that stopped stay in the block until they are this share of it: moving rows together takes as long as walking
// them down a few trees.
constexpr std::size_t kWorthRemoving = 16;
// In sliced trees a row is moved in the time of this many trees. If half of the rows have stopped, half of the gaps are
// filled by rows from the end, and the others are at the end. Where all rows are moved at once (AliveRows::compresses),
// each takes about as long as a tree, as do the numbers of its leaves in so many trees, and a test as long as two.
constexpr std::size_t kTreesOfMove = 8, kTreesOfTest = 2, kNumbersOfTree = 20;

// Lanes as the kernels add them: 1, 2, 4, 8 or a multiple of 16.
std::size_t padded_width(std::size_t n_lanes) {
  return n_lanes > kIntLanes ? round_up(n_lanes, kIntLanes) : std::bit_ceil(n_lanes);
}

ForestView without_mean(ForestView forest) {
  forest.aggregation = Aggregation::kSum;
  return forest;
}

}  // namespace

SentinelExit::SentinelExit(const ForestView& forest, std::vector<std::int64_t> labels,
                           std::span<const std::int32_t> order, std::span<const std::int32_t> lanes,
                           std::int32_t spread_lane, std::vector<Sentinel> sentinels, const SharedTrees& shared)
    : n_features_(forest.n_features),
      n_outputs_(forest.n_outputs()),
      are_leads_(n_outputs_ == 2 && forest.aggregation == Aggregation::kSum),
      are_shares_(forest.n_classes == 2 && forest.link == Link::kIdentity && forest.aggregation != Aggregation::kSum),
      spread_lane_(spread_lane),
      sentinels_(std::move(sentinels)),
      width_(sort_lanes(lanes.size() / forest.n_nodes())),
      values_(forest),
      walker_(lower(forest, make_leaves(forest, order, lanes), order, lanes, shared)),
      answers_(forest, labels),
      estimate_answers_(without_mean(forest), std::move(labels)) {
  if (n_outputs_ > 2 || (n_outputs_ == 2 && forest.n_classes != 2)) {
    throw std::invalid_argument("sentinels are for a regressor or for two classes");
  }
  place_of_tree_.resize(order.size());
  for (const std::int32_t tree : order) {
    place_of_tree_.at(static_cast<std::size_t>(tree)) = plan_.size();
    plan_.push_back(walker_.trees().at(static_cast<std::size_t>(tree)));
  }
  if (plan_.size() != walker_.trees().size()) throw std::invalid_argument("the order must name every tree");
  round_limits();
  if (walker_.sliced()) slice_lanes();
  if (forest.n_classes == 2) cut_labels();
}

// Puts the lanes that are read longest first, so that each segment adds the first few. Returns the width of the first.
std::size_t SentinelExit::sort_lanes(std::size_t n_lanes) {
  std::vector<std::size_t> place(n_lanes, n_lanes);
  const auto put = [&](std::size_t lane) {
    if (place.at(lane) == n_lanes) {
      place[lane] = lane_order_.size();
      lane_order_.push_back(lane);
    }
    return place[lane];
  };
  if (spread_lane_ != kNoLane && !sentinels_.empty()) {
    spread_lane_ = static_cast<std::int32_t>(put(static_cast<std::size_t>(spread_lane_)));
  }
  segments_.resize(sentinels_.size() + 1);
  for (std::size_t j = sentinels_.size(); j-- > 0;) {
    sentinels_[j].lane = put(sentinels_[j].lane);
    segments_[j].n_lanes = lane_order_.size();
    segments_[j].width = padded_width(segments_[j].n_lanes);
  }
  return sentinels_.empty() ? 0 : segments_[0].width;
}

Leaves SentinelExit::make_leaves(const ForestView& forest, std::span<const std::int32_t> order,
                                 std::span<const std::int32_t> lanes) {
  const std::vector<std::uint32_t> value_of_node = values_.index_leaves(forest);
  const std::size_t n_lanes = lanes.size() / forest.n_nodes();
  Leaves leaves{std::vector<std::uint32_t>(forest.n_nodes()), false};
  std::size_t place = 0;
  for (std::size_t j = 0; j < segments_.size(); ++j) {
    Segment& segment = segments_[j];
    const std::size_t end = j < sentinels_.size() ? sentinels_[j].n_trees : order.size();
    if (end < place || end > order.size()) throw std::invalid_argument("sentinels must rise up to the number of trees");
    segment = {place, end - place, value_of_leaf_.size(), table_.size(), segment.n_lanes, segment.width};
    for (; place < end; ++place) {
      segment_of_tree_.push_back(static_cast<std::uint32_t>(j));
      const auto tree = static_cast<std::size_t>(order[place]);
      if (tree >= forest.n_trees()) throw std::invalid_argument("the order names a tree that is not there");
      for (auto node = static_cast<std::size_t>(forest.tree_offset[tree]);
           node < static_cast<std::size_t>(forest.tree_offset[tree + 1]); ++node) {
        if (forest.left[node] >= 0) continue;
        leaves.payload_of_node[node] = static_cast<std::uint32_t>(value_of_leaf_.size() - segment.first_leaf);
        value_of_leaf_.push_back(value_of_node[node]);
        const std::size_t first = table_.size();
        table_.resize(first + segment.width);
        for (std::size_t i = 0; i < std::min(segment.width, lane_order_.size()); ++i) {
          table_[first + i] = lanes[node * n_lanes + lane_order_[i]];
        }
      }
    }
    table_.resize(round_up(table_.size(), kIntLanes));  // the next segment begins at a whole vector
  }
  table_.shrink_to_fit();
  return leaves;
}

std::size_t SentinelExit::rows_at_once() const {
  if (sliced_lanes_) return 8 * kMaxRows;
  // Slicing (sliced.h) wants many too: hundreds of rows take as long as one.
  const bool is_large = walker_.bytes() / plan_.size() >= kLargeTree;
  const std::size_t factor = is_large ? 8 : walker_.has_ranks() ? 4 : 1;
  const std::size_t fitting = factor * kLeafBytes / sizeof(std::uint32_t) / plan_.size() / kChunk * kChunk;
  return std::clamp(fitting, kChunk, factor * kMaxRows);
}

void SentinelExit::run(const RowsView& rows, const SentinelOutcome& outcome, std::size_t n_threads) const {
  const auto test = [&](std::size_t j, std::size_t lane, const AliveRows& alive, Buffers& buffers) {
    const Sentinel& sentinel = sentinels_[j];
    const bool has_spread = spread_lane_ != kNoLane;
    const std::size_t spread = has_spread ? static_cast<std::size_t>(spread_lane_) : 0, apart = alive.sum_apart;
    const std::vector<std::int32_t>& whole = whole_limits_[j];
    kernels().lane_tests.test({lane * apart, spread * apart, has_spread, sentinel.square, sentinel.edges.data(),
                               sentinel.edges.size(), sentinel.limits.data(), whole.empty() ? nullptr : whole.data()},
                              alive.sums, alive.row_apart, alive.n, buffers.stopped.data());
  };
  // Blocks of equal size: at late sentinels, a short one would have too few rows to fill slices.
  for_each_range(rows.n_rows, even_range(rows.n_rows, rows_at_once()), n_threads, [&](std::size_t first, std::size_t n) {
    if (n <= AliveRows::kFew) {
      for (std::size_t row = first; row < first + n; ++row) run_row(rows, row, outcome);
    } else {
      run_rows(rows, first, n, AliveRows::kFew, test, outcome);
    }
    if (outcome.probabilities != nullptr && answers_.are_of_one_sum()) {
      double* sums = outcome.probabilities + 2 * first;
      values_.in_float32() ? answers_.link_sums<float>(sums, n) : answers_.link_sums<double>(sums, n);
    }
  });
}

void SentinelExit::rank(const RowsView& rows, std::span<const std::int64_t> offset, const TopK& top,
                        const SentinelOutcome& outcome, std::size_t n_threads) const {
  // A block has whole queries, at least one.
  const auto row_of = [&](std::size_t query) { return static_cast<std::size_t>(offset[query]); };
  const std::size_t most = std::min(rows_at_once(), rows.n_rows / (n_threads > 1 ? 4 * n_threads : 1) + 1);
  std::vector<std::size_t> blocks{0};  // the first query of each block
  for (std::size_t query = 1; query < offset.size(); ++query) {
    const bool is_last = query + 1 == offset.size();
    if (is_last || row_of(query + 1) - row_of(blocks.back()) > most) blocks.push_back(query);
  }
  parallel_for(blocks.size() - 1, n_threads, [&](std::size_t block) {
    const std::size_t begin = blocks[block], end = blocks[block + 1], first = row_of(begin);
    thread_local TopRanks ranks;
    ranks.start(top, offset.subspan(begin, end - begin + 1), first);
    const auto spread = spread_lane_ == kNoLane ? std::nullopt : std::optional(static_cast<std::size_t>(spread_lane_));
    const auto test = [&](std::size_t j, std::size_t lane, const AliveRows& alive, Buffers& buffers) {
      ranks.test(alive, {lane, spread, sentinels_[j].limits[0]}, buffers.removed.data(), buffers.stopped.data());
    };
    if (row_of(end) > first) run_rows(rows, first, row_of(end) - first, 0, test, outcome);
    ranks.settle(outcome.scores + first);
  });
}

void SentinelExit::add(const Segment& segment, const std::uint32_t* payload, std::size_t spacing, std::size_t n,
                       std::int32_t* sums) const {
  kernels().sums.add_lanes({table_.data() + segment.first_lane, segment.width}, payload, spacing, segment.n_trees, n,
                           sums, width_);
}

bool SentinelExit::stops(const Sentinel& sentinel, const std::int32_t* sums) const {
  const std::int32_t sum = sums[sentinel.lane];
  const auto interval = std::upper_bound(sentinel.edges.begin(), sentinel.edges.end(), sum) - sentinel.edges.begin();
  const auto wide = static_cast<double>(sum);
  const double spread = spread_lane_ == kNoLane ? 0.0 : static_cast<double>(sums[spread_lane_]);
  return spread - sentinel.square * (wide * wide) <= sentinel.limits[static_cast<std::size_t>(interval)];
}

template <class Test>
void SentinelExit::run_rows(const RowsView& rows, std::size_t first, std::size_t n, std::size_t few, const Test& test,
                            const SentinelOutcome& outcome) const {
  sliced_lanes_ && n >= AliveRows::kEnoughForColumns ? run_sliced(rows, first, n, test, outcome)
                                                     : run_block(rows, first, n, few, test, outcome);
}

template <class Test>
std::size_t SentinelExit::stop_rows(std::size_t j, std::size_t lane, const AliveRows& alive, std::size_t first,
                                    const Test& test, Buffers& buffers, const SentinelOutcome& outcome) const {
  test(j, lane, alive, buffers);
  const bool is_brief = outcome.stops == nullptr && outcome.scores == nullptr;
  const bool only_labels = is_brief && outcome.labels != nullptr && outcome.probabilities == nullptr;
  const bool only_values = is_brief && outcome.labels == nullptr && estimate_answers_.are_sums();
  const bool only_scores = outcome.stops == nullptr && outcome.labels == nullptr && outcome.probabilities == nullptr;
  const bool only_sums = is_brief && outcome.labels == nullptr && answers_.are_of_one_sum();
  // Calls record(id, sum) for each row that stops, and returns how many these are. What it reads are copies, because the
  // compiler must assume that writing answers could change the originals.
  const auto for_each_stop = [&, ids = alive.ids, sums = alive.sums + lane * alive.sum_apart, apart = alive.row_apart,
                              n = alive.n](const auto& record) {
    std::size_t n_stopped = 0;
    for (std::size_t word = 0; word * kChunk < n; ++word) {
      const std::uint64_t stopped = buffers.stopped[word] & ~buffers.removed[word];
      buffers.removed[word] |= stopped;
      n_stopped += static_cast<std::size_t>(std::popcount(stopped));
      for (std::uint64_t left = stopped; left != 0; left &= left - 1) {
        const std::size_t at = word * kChunk + static_cast<std::size_t>(std::countr_zero(left));
        record(ids[at], sums[at * apart]);
      }
    }
    return n_stopped;
  };
  if (only_labels) {
    return for_each_stop([cut = label_cuts_[j], labels = outcome.labels + first](std::uint32_t id, std::int32_t sum) {
      labels[id] = sum >= cut.first_above ? cut.above : cut.below;
    });
  }
  if (only_values || only_sums || (only_scores && !are_shares_)) {
    const std::size_t apart = only_sums ? 2 : 1;
    double* plain = (only_scores ? outcome.scores : outcome.probabilities + (only_sums ? 1 : 0)) + first * apart;
    const auto estimate = [offset = sentinels_[j].offset, scale = sentinels_[j].scale](std::int32_t sum) {
      return offset + scale * static_cast<double>(sum);
    };
    if (values_.in_float32()) {
      return for_each_stop([=](std::uint32_t id, std::int32_t sum) {
        plain[id * apart] = static_cast<double>(static_cast<float>(estimate(sum)));
      });
    }
    return for_each_stop([=](std::uint32_t id, std::int32_t sum) { plain[id * apart] = estimate(sum); });
  }
  return for_each_stop([&](std::uint32_t id, std::int32_t sum) { record_stop(j, sum, first + id, outcome); });
}

template <class Test>
void SentinelExit::run_sliced(const RowsView& rows, std::size_t first, std::size_t n, const Test& test,
                              const SentinelOutcome& outcome) const {
  Scratch& scratch = Scratch::of_this_thread();
  Buffers& buffers = Buffers::of_this_thread();
  walker_.load_ranks(rows, first, n, scratch);
  std::size_t most_lanes = 0;
  for (const Step& step : steps_) most_lanes = std::max(most_lanes, step.n_lanes);
  buffers.start(n, 0, most_lanes);
  AliveRows alive{.scratch = scratch,
                  .stride = 0,  // keys are not read again
                  .n_columns = 0,
                  .width = 0,
                  .row_apart = 1,
                  .sum_apart = buffers.room,
                  .keys = scratch.keys.data(),
                  .ids = buffers.ids.data(),
                  .sums = buffers.sums.data(),
                  .exits = buffers.removed.data(),
                  .n = n};
  buffers.lots.clear();
  std::size_t n_removed = 0;  // rows that have stopped and are still in the block
  const auto remove = [&] {
    for (const Buffers::Lot& lot : buffers.lots) {
      if (n_removed == 0) break;
      kernels().compress.bytes(buffers.numbers.data() + lot.first, lot.n_trees, lot.apart, alive.exits, alive.n);
    }
    if (n_removed > 0) alive.remove(std::exchange(n_removed, 0));
    std::fill(buffers.removed.begin(), buffers.removed.end(), 0u);
  };
  for (std::size_t j = 0; j < sentinels_.size() && alive.n > n_removed; ++j) {
    poll_interrupt_now_and_then();
    const Step& step = steps_[j];
    alive.width = step.starts ? 0 : step.n_lanes;
    const std::size_t n_numbered = keeps_numbers_ && j > 0 ? sentinels_[j - 1].n_trees : 0;
    const bool pays = alive.compresses() ? n_removed * (step.n_trees + kTreesOfTest) * kNumbersOfTree >
                                               alive.n * (kNumbersOfTree + n_numbered)
                                         : (alive.n - n_removed) * kTreesOfMove < alive.n * step.n_trees;
    if (pays) remove();
    scratch.block.n = round_up(alive.n, kChunk);
    for (std::size_t lane = 0; step.starts && lane < step.n_lanes; ++lane) {
      std::fill_n(alive.sums + lane * alive.sum_apart, scratch.block.n, 0);
    }
    const std::uint8_t* const* numbers = nullptr;
    if (keeps_numbers_) {
      const SlicedRun& run = numbered_[j];
      const Buffers::Lot& lot = buffers.add_lot(run.trees().size(), scratch.block.n);
      kernels().sliced_lanes.number(run.trees(), run.complete(walker_.sliced()->program()), scratch.block.ranks,
                                    scratch.block.n, buffers.numbers.data() + lot.first, lot.apart, run.slices());
      numbers = buffers.numbers_of_tree.data() + step.first_tree;
    }
    sliced_lanes_->add(j, *walker_.sliced(), scratch.block, alive.sums, alive.sum_apart, numbers);
    n_removed += stop_rows(j, step.lane, alive, first, test, buffers, outcome);
  }
  alive.width = 0;
  remove();
  if (alive.n == 0) return;
  scratch.block.n = round_up(alive.n, kChunk);
  complete_block(scratch.block, alive, first, outcome);
}

template <class Test>
void SentinelExit::run_block(const RowsView& rows, std::size_t first, std::size_t n, std::size_t few, const Test& test,
                             const SentinelOutcome& outcome) const {
  Scratch& scratch = Scratch::of_this_thread();
  Buffers& buffers = Buffers::of_this_thread();
  walker_.load(rows, first, n, scratch);
  if (n >= AliveRows::kEnoughForColumns) walker_.index_columns(scratch);
  buffers.start(n, plan_.size(), width_);
  buffers.start_epoch(n);
  AliveRows alive{.scratch = scratch,
                  .stride = walker_.columns().stride(),
                  .n_columns = walker_.columns().pad() + 1,
                  .width = width_,
                  .row_apart = width_,
                  .sum_apart = 1,
                  .keys = scratch.keys.data(),
                  .ids = buffers.ids.data(),
                  .sums = buffers.sums.data(),
                  .exits = buffers.removed.data(),
                  .n = n};
  std::size_t n_removed = 0;  // rows that have stopped and are still in the block
  const auto remove = [&] {
    alive.remove(n_removed);
    std::fill(buffers.removed.begin(), buffers.removed.end(), 0u);
    n_removed = 0;
    buffers.start_epoch(alive.n);
  };
  const auto walk = [&](const Segment& segment) {
    alive.fit_block();
    buffers.make_space(segment.first_tree, segment.n_trees, alive.n);
    for (std::size_t tree = segment.first_tree; tree < segment.first_tree + segment.n_trees; ++tree) {
      walker_.walk(plan_[tree], scratch, buffers.leaves_of(tree));
    }
  };
  std::size_t j = 0;
  for (; j < sentinels_.size() && alive.n - n_removed > few; ++j) {
    walk(segments_[j]);
    add(segments_[j], buffers.leaves_of(segments_[j].first_tree), buffers.apart, alive.n, alive.sums);
    n_removed += stop_rows(j, sentinels_[j].lane, alive, first, test, buffers, outcome);
    if (n_removed * kWorthRemoving >= alive.n) remove();
  }
  if (n_removed > 0) remove();
  if (alive.n > few) {
    walk(segments_.back());
    return complete_rows(buffers, alive.n, first, outcome);
  }
  std::uint32_t* leaves = buffers.leaves_of_row.data();
  for (std::size_t at = 0; at < alive.n; ++at) {
    const std::uint32_t id = alive.ids[at];
    if (finish_row(alive.keys + at * alive.stride, j, alive.sums + at * width_, leaves, first + id, outcome)) continue;
    for (std::size_t tree = 0; tree < segments_[j].first_tree; ++tree) leaves[tree] = buffers.leaf(tree, id);
    complete_row(leaves, first + id, outcome);
  }
}

void SentinelExit::run_row(const RowsView& rows, std::size_t row, const SentinelOutcome& outcome) const {
  poll_interrupt_now_and_then();
  Scratch& scratch = Scratch::of_this_thread();
  AlignedVector<std::int32_t>& sums = Buffers::of_this_thread().sums;
  walker_.load_row(rows, row, plan_.size(), scratch);
  sums.assign(width_, 0);
  std::uint32_t* leaves = scratch.payload.data();
  if (!finish_row(scratch.keys.data(), 0, sums.data(), leaves, row, outcome)) complete_row(leaves, row, outcome);
}

// Runs one row from sentinel j on, and returns whether it stopped. The leaves it reaches are written by place in the
// plan. Several trees are walked at once, even where each has a sentinel.
bool SentinelExit::finish_row(const std::uint32_t* keys, std::size_t j, std::int32_t* sums, std::uint32_t* leaves,
                              std::size_t row, const SentinelOutcome& outcome) const {
  std::size_t n_walked = segments_[j].first_tree;
  const auto walk_to = [&](std::size_t n_trees) {
    if (n_trees <= n_walked) return;
    n_trees = std::min(std::max(n_trees, n_walked + kLanes), plan_.size());
    walker_.walk_row(plan_.data() + n_walked, n_trees - n_walked, keys, leaves + n_walked);
    n_walked = n_trees;
  };
  for (; j < sentinels_.size(); ++j) {
    walk_to(sentinels_[j].n_trees);
    add(segments_[j], leaves + segments_[j].first_tree, 1, 1, sums);
    if (!stops(sentinels_[j], sums)) continue;
    record_stop(j, sums[sentinels_[j].lane], row, outcome);
    return true;
  }
  walk_to(plan_.size());
  return false;
}

}  // namespace scurry
