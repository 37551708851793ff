// LeaderExit: early exit for more than two classes. It keeps one integer sum per class, and a row stops once the
// leading class is far enough ahead of the second.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "runtime/engine.h"

namespace scurry {

struct AliveRows;

// After r rounds a row stops if leader - second >= lead[r]; the largest number means that no row stops. For votes,
// need[r][second] is the number of votes that the leader needs instead; it is empty if leads are used.
struct LeaderRule {
  std::vector<std::int32_t> lead;
  std::vector<std::int32_t> need;  // [n_rounds + 1][n_rounds + 1]
};

// Where outcomes go, one entry per row; sums has n_classes entries per row.
struct LeaderOutcome {
  std::int32_t* sums;
  std::int32_t* n_trees;
  std::int32_t* leaders;  // the leading class, the first of equals
  std::uint8_t* decided;  // whether the row stopped early
};

// Trees whose leaves add a vector, or one number to the class of the tree.
struct LeaderLeaves {
  Walker walker;
  std::vector<std::int32_t> vectors;  // [payload][class]; empty: payloads are the numbers

  // `increments` is [n_nodes][n_columns] and read at leaves.
  static LeaderLeaves lower(const ForestView& forest, std::span<const std::int32_t> increments);
};

class LeaderExit {
 public:
  // A round is one tree whose leaves add a vector, or one tree per class: trees of `order` in groups of
  // `trees_per_round`.
  LeaderExit(LeaderLeaves leaves, std::span<const std::int32_t> order, std::size_t trees_per_round,
             std::vector<std::int32_t> start, LeaderRule rule);

  void run(const RowsView& rows, const LeaderOutcome& outcome, std::size_t n_threads) const;
  // If every tree was evaluated and the lead is at most `tolerance`, the exact engine decides.
  void labels(const RowsView& rows, std::span<const std::int64_t> classes, std::int32_t tolerance, const Engine& exact,
              std::int64_t* out, std::size_t n_threads) const;

  std::size_t n_features() const { return walker_.n_features(); }
  std::size_t n_trees() const { return plan_.size(); }
  std::size_t n_classes() const { return n_classes_; }
  std::size_t bytes() const { return walker_.bytes() + table_.size() * sizeof(std::int32_t); }
  std::size_t shared_bytes() const { return walker_.shared_bytes(); }

 private:
  std::int32_t leader(const std::int32_t* sums) const;
  bool may_stop(std::size_t round) const { return rule_.lead[round] != std::numeric_limits<std::int32_t>::max(); }
  bool stops(std::size_t round, std::int32_t first, std::int32_t second) const;
  void add(const Tree& tree, std::uint32_t payload, std::int32_t* sums) const;
  // record(row, sums, n_rounds, decided) is called once for each row of the block.
  template <class Record>
  void run_block(const RowsView& rows, std::size_t first, std::size_t n, const Record& record) const;
  // Evaluates round `round`, counted from 0, of all rows, and removes those that stop after it.
  template <class Record>
  void take_round(AliveRows& alive, std::size_t round, const Record& record) const;
  template <class Record>
  void stop(AliveRows& alive, std::size_t n_rounds, const Record& record) const;
  void test_votes(AliveRows& alive, std::size_t n_rounds) const;
  template <class Record>
  void finish_row(const std::uint32_t* keys, std::size_t round, std::int32_t* sums, std::size_t row,
                  const Record& record) const;

  std::size_t n_classes_;
  bool vector_leaves_;
  std::size_t width_;                  // sums per row: the classes, with vectors padded with sums that never lead
  AlignedVector<std::int32_t> table_;  // distinct leaf vectors, [payload][width_]
  Walker walker_;
  std::vector<Tree> plan_;
  std::size_t trees_per_round_, n_rounds_;
  std::size_t n_entered_;  // rounds that rows evaluate before they are gathered
  std::vector<std::int32_t> start_;
  LeaderRule rule_;
};

}  // namespace scurry
