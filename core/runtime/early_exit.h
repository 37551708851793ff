// EarlyExit: evaluates trees in a fixed order, keeps one integer sum per row, and tests after every tree whether the
// row may stop.
//
// Votes and scores are the same thing here: a leaf adds a signed increment (a vote, or a leaf score in grid units), and
// a row stops after r trees once its sum is <= lower[r] or >= upper[r]. Sums of integers depend neither on order nor on
// rounding, so a batch, a single row, any block size and any number of threads give identical outcomes.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "runtime/engine.h"

namespace scurry {

struct AliveRows;

constexpr std::int32_t kNeverBelow = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t kNeverAbove = std::numeric_limits<std::int32_t>::max();

// Thresholds by number of trees evaluated, from 0 to all of them. A row draws one policy with these weights, by the
// seed and its own values alone.
struct ExitPolicy {
  double weight;
  std::vector<std::int32_t> lower, upper;
};

// What a test of a row's sum decides. Plans store these numbers: they are part of the file format (docs/format.md).
enum class ExitSide : std::uint8_t {
  kContinue = 0,  // evaluate the next tree and test again
  kNegative = 1,  // stop with the first class
  kPositive = 2,  // stop with the second class
  kFull = 3,      // evaluate every tree and test no more
};

// Instead of two thresholds: after r trees the sums are cut at edges[offset[r]..offset[r + 1]) and each interval [edge,
// next edge) has a side; Empty if thresholds are used.
struct ExitPieces {
  std::vector<std::uint32_t> offset;  // n_trees + 2 entries
  std::vector<std::int32_t> edges;
  std::vector<ExitSide> sides;  // one more than edges at every r, those of r starting at offset[r] + r

  bool empty() const { return offset.empty(); }
  ExitSide side_of(std::size_t n_trees, std::int32_t sum) const;
};

// How outcomes become labels: by the side on which a row stopped, or by its sum if every tree was evaluated.
struct ExitDecision {
  std::int64_t negative_label, positive_label;
  std::int32_t threshold;  // sums >= threshold are positive ...
  std::int32_t tolerance;  // ... and sums this close to it are decided by the exact engine
};

// Where outcomes go, one entry per row.
struct ExitOutcome {
  std::int32_t* sums;
  std::int32_t* n_trees;
  ExitSide* sides;
};

class EarlyExit {
 public:
  // The payloads of leaves are what they add. With shuffle_rows every row draws its own order of trees.
  EarlyExit(Walker walker, std::span<const std::int32_t> order, std::vector<ExitPolicy> policies, ExitPieces pieces,
            std::uint64_t seed, bool shuffle_rows);

  void run(const RowsView& rows, const ExitOutcome& outcome, std::size_t n_threads) const;
  void labels(const RowsView& rows, const ExitDecision& decision, const Engine& exact, std::int64_t* out,
              std::size_t n_threads) const;
  std::size_t n_features() const { return walker_.n_features(); }
  std::size_t n_trees() const { return plan_.size(); }
  std::size_t bytes() const { return walker_.bytes(); }
  std::size_t shared_bytes() const { return walker_.shared_bytes(); }

 private:
  // All policies together, after a number of trees. Outside the inner bounds some policy stops a row, outside the outer
  // bounds all do. Few rows are ever between the two, so few rows have to draw a policy.
  struct Gate {
    std::int32_t inner_lower, inner_upper, outer_lower, outer_upper;
    bool is_open;  // the trees can give a sum outside the inner bounds
    bool is_sure;  // the bounds are the same
  };

  void make_gates();
  ExitSide side_of(std::uint32_t policy, std::size_t n_trees, std::int32_t sum) const;
  ExitSide side_of(const AliveRows& alive, std::size_t at, std::size_t n_trees) const;
  std::uint64_t hash_row(const std::uint32_t* keys) const;
  std::uint32_t draw_policy(const std::uint32_t* keys) const;
  // record(row, sum, n_trees, side) is called once for each row of the block.
  template <class Record>
  void run_block(const RowsView& rows, std::size_t first, std::size_t n, const Record& record) const;
  template <class Record>
  void enter(AliveRows& alive, const Record& record) const;
  template <class Record>
  void finish(AliveRows& alive, const Record& record) const;
  template <class Record>
  void add(AliveRows& alive, std::size_t n_trees, const std::uint32_t* payload, const Record& record) const;
  template <class Record>
  void stop(AliveRows& alive, std::size_t n_trees, const Record& record) const;
  template <class Record>
  void run_row(std::uint32_t policy, const std::vector<Tree>& plan, const std::uint32_t* keys, std::size_t n_trees,
               std::int32_t sum, std::size_t row, const Record& record) const;
  template <class Record>
  void run_shuffled(const std::uint32_t* keys, std::size_t row, const Record& record) const;

  Walker walker_;
  std::vector<Tree> plan_;  // trees in the order of evaluation
  std::vector<ExitPolicy> policies_;
  std::vector<double> ends_;  // cumulative weights: where in [0, 1) the draws of each policy end
  ExitPieces pieces_;
  std::vector<Gate> gates_;     // by number of trees
  std::size_t n_entered_ = 0;   // trees that rows evaluate before they are gathered
  std::uint64_t seed_;
  std::vector<std::uint32_t> salt_;  // random words, one per column and one more
  std::vector<std::uint32_t> read_;  // all ones where some node reads the column
  bool shuffle_rows_;
};

}  // namespace scurry
