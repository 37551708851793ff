// SentinelExit: evaluates trees in a fixed order, adds up a few integers per row (lanes), and tests at a few numbers of
// trees (sentinels) whether the row may stop. A row that stops answers with an estimate made of one of its sums; the
// others get the model's own answer, without a tree being walked twice.
//
// Sums of integers depend neither on order nor on rounding, so a batch, a single row, any block size and any number of
// threads give identical outcomes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/answers.h"
#include "runtime/engine.h"
#include "runtime/node_values.h"
#include "runtime/top_ranks.h"
#include "runtime/walker.h"

namespace scurry {

struct AliveRows;

// After n_trees trees, with the sums s: a row stops if s[spread] - square * s[lane]^2 is at most the limit of the
// interval between edges that holds s[lane]; without a spread lane, if 0 is.
struct Sentinel {
  std::size_t n_trees, lane;
  double scale, offset;  // the estimate is offset + scale * s[lane]
  double square;
  std::vector<std::int32_t> edges;
  std::vector<double> limits;  // one more than edges
};

constexpr std::int32_t kNoLane = -1;

// Where outcomes go, one entry per row; null where nobody asks.
struct SentinelOutcome {
  std::int32_t* stops;    // the sentinel at which the row stopped; their number if it did not
  double* scores;         // the estimate, or the model's own score
  std::int64_t* labels;   // of that score
  double* probabilities;  // [n_probabilities()] of that score, or a regressor's value
};

class SentinelExit {
 public:
  // `lanes` is [n_nodes][n_lanes] and read at leaves. Two outputs are the scores of two classes. The trees of an engine
  // are shared if leaves with the same value have the same lanes.
  SentinelExit(const ForestView& forest, std::vector<std::int64_t> labels, std::span<const std::int32_t> order,
               std::span<const std::int32_t> lanes, std::int32_t spread_lane, std::vector<Sentinel> sentinels,
               const SharedTrees& shared = {});

  void run(const RowsView& rows, const SentinelOutcome& outcome, std::size_t n_threads) const;
  // Instead of the tests of single rows: documents leave when they cannot change the k best of their query any more, by
  // the first limit of each sentinel. Query q has the rows from offset[q] to offset[q + 1]. Outcomes are stops and
  // scores; in each query the k best have higher scores than the others.
  void rank(const RowsView& rows, std::span<const std::int64_t> offset, const TopK& top, const SentinelOutcome& outcome,
            std::size_t n_threads) const;
  std::size_t n_features() const { return n_features_; }
  std::size_t n_trees() const { return plan_.size(); }
  std::size_t n_probabilities() const { return answers_.n_probabilities(); }
  std::size_t bytes() const {
    return walker_.bytes() + values_.bytes() + table_.size() * sizeof(std::int32_t) +
           (sliced_lanes_ ? sliced_lanes_->bytes() + sliced_sums_->bytes() : 0);
  }
  std::size_t shared_bytes() const { return walker_.shared_bytes(); }

 private:
  // The trees between two sentinels. Payloads are numbers of leaves within a segment.
  struct Segment {
    std::size_t first_tree, n_trees;  // places in the plan
    std::size_t first_leaf;           // in value_of_leaf_
    std::size_t first_lane;           // in table_
    std::size_t n_lanes;              // that sentinels ahead read, which come first in a row's sums
    std::size_t width;                // the same, padded for the kernels
  };
  // What sliced trees add before a sentinel. Sentinels come in phases: the first of a phase starts sums again, from the
  // first tree on, and those before it add to none of its lanes, which few rows need.
  struct Step {
    std::size_t first_tree, n_trees;  // places in the plan
    std::size_t n_lanes;
    std::size_t lane;  // of the sentinel, in the sums of its phase
    bool starts;
  };
  struct Buffers;

  Walker lower(const ForestView& forest, Leaves leaves, std::span<const std::int32_t> order,
               std::span<const std::int32_t> lanes, const SharedTrees& shared);
  Leaves make_leaves(const ForestView& forest, std::span<const std::int32_t> order, std::span<const std::int32_t> lanes);
  std::size_t sort_lanes(std::size_t n_lanes);
  std::size_t rows_at_once() const;
  // test(sentinel, lane, alive, buffers) sets the bits of the rows that stop. This few rows or fewer finish one by one.
  template <class Test>
  void run_block(const RowsView& rows, std::size_t first, std::size_t n, std::size_t few, const Test& test,
                 const SentinelOutcome& outcome) const;
  // The same if lanes are sliced: rows that stop nowhere are evaluated again, from the leaves that are known on.
  template <class Test>
  void run_sliced(const RowsView& rows, std::size_t first, std::size_t n, const Test& test,
                  const SentinelOutcome& outcome) const;
  // Chooses between these two.
  template <class Test>
  void run_rows(const RowsView& rows, std::size_t first, std::size_t n, std::size_t few, const Test& test,
                const SentinelOutcome& outcome) const;
  // Tests the rows of a block at a sentinel, by their sums in a lane, and answers for those that stop. Returns how many these are.
  template <class Test>
  std::size_t stop_rows(std::size_t j, std::size_t lane, const AliveRows& alive, std::size_t first, const Test& test,
                        Buffers& buffers, const SentinelOutcome& outcome) const;
  void run_row(const RowsView& rows, std::size_t row, const SentinelOutcome& outcome) const;
  bool finish_row(const std::uint32_t* keys, std::size_t j, std::int32_t* sums, std::uint32_t* leaves, std::size_t row,
                  const SentinelOutcome& outcome) const;
  void add(const Segment& segment, const std::uint32_t* payload, std::size_t spacing, std::size_t n,
           std::int32_t* sums) const;
  bool stops(const Sentinel& sentinel, const std::int32_t* sums) const;
  void record_stop(std::size_t sentinel, std::int32_t sum, std::size_t row, const SentinelOutcome& outcome) const;
  template <class Real>
  void record_estimate(double estimate, std::size_t row, const SentinelOutcome& outcome) const;
  template <class Real>
  void record_own(const Real* sums, std::size_t spacing, std::size_t row, const SentinelOutcome& outcome) const;
  template <class Real>
  void record_probabilities(const Answers& answers, const Real* sums, std::size_t spacing, std::size_t row,
                            const SentinelOutcome& outcome) const;
  // Answers for a row, given its leaves in all trees; for the n rows that are left in a block; for those of sliced trees.
  void complete_row(const std::uint32_t* leaves, std::size_t row, const SentinelOutcome& outcome) const;
  void complete_rows(const Buffers& buffers, std::size_t n, std::size_t first, const SentinelOutcome& outcome) const;
  void complete_block(const Block& block, const AliveRows& alive, std::size_t first,
                      const SentinelOutcome& outcome) const;
  template <class Real>
  void complete_row_as(const std::uint32_t* leaves, std::size_t row, const SentinelOutcome& outcome) const;
  template <class Real>
  void complete_rows_as(const Buffers& buffers, std::size_t n, std::size_t first, const SentinelOutcome& outcome) const;
  template <class Real>
  void complete_block_as(const Block& block, const AliveRows& alive, std::size_t first,
                         const SentinelOutcome& outcome) const;
  void round_limits();
  void slice_lanes();
  std::vector<Step> plan_steps() const;
  std::vector<std::size_t> lanes_of(std::size_t first, std::size_t last) const;
  void cut_labels();
  // The leaf that a sliced tree of the plan knows by a payload; any for payloads that no leaf of the tree has.
  std::uint32_t leaf_of(std::size_t place, std::uint32_t payload) const {
    const std::size_t segment = segment_of_tree_[place];
    const std::size_t end = segment + 1 < segments_.size() ? segments_[segment + 1].first_leaf : value_of_leaf_.size();
    const std::uint32_t leaf = walker_.own(payload);
    return leaf < end - segments_[segment].first_leaf ? leaf : 0;
  }
  // The payloads by which values_ knows the leaves of a segment, that of a tree of the plan.
  const std::uint32_t* values_of(std::size_t place) const {
    return value_of_leaf_.data() + segments_[segment_of_tree_[place]].first_leaf;
  }

  std::size_t n_features_, n_outputs_;
  bool are_leads_;   // two outputs are scores, not shares: the score is the lead of the second
  bool are_shares_;  // scores are probabilities
  std::int32_t spread_lane_;
  std::vector<Sentinel> sentinels_;
  std::vector<std::vector<std::int32_t>> whole_limits_;  // of each sentinel, see LaneTest; none if it has a square
  std::vector<std::size_t> lane_order_;         // the plan's lane of each place in a row's sums
  std::vector<Segment> segments_;               // one more than sentinels: the last has no lanes
  std::size_t width_;                           // sums per row
  std::vector<std::uint32_t> segment_of_tree_;  // by place in the plan
  AlignedVector<std::int32_t> table_;           // what leaves add, [leaf of the segment][width of the segment]
  NodeValues values_;
  std::vector<std::uint32_t> value_of_leaf_;  // the payload by which values_ knows a leaf, by leaf in plan order
  Walker walker_;
  Answers answers_, estimate_answers_;  // of sums over all trees; of scores
  std::vector<Tree> plan_;
  std::vector<std::size_t> place_of_tree_;  // in the plan, by tree of the model
  struct LabelCut {
    std::int32_t first_above;  // the least sum with the label `above`, unless all have the same
    std::int64_t below, above;
  };
  std::vector<LabelCut> label_cuts_;  // of the estimates at each sentinel, if the forest has labels
  // If trees are sliced and 16 bits are enough for lanes: what leaves add, a part for each step, and the model's own
  // sums.
  std::vector<Step> steps_;
  // Whether the numbers of the leaves that rows reach are kept, so that later phases and the model's own sums need not
  // find them again.
  bool keeps_numbers_ = false;
  std::vector<SlicedRun> numbered_;  // the trees before each sentinel that are not before another
  std::optional<SlicedLanes> sliced_lanes_;
  std::optional<SlicedSums> sliced_sums_;
};

}  // namespace scurry
