// CellExit: an early exit whose order of trees and whose thresholds depend on the cell of a row.
//
// The router that finds the cell is one more tree of the walker: the payload of its leaves is the number of a cell. Rows
// of a batch are gathered by cell, and each group runs as in EarlyExit. All cells share the nodes of the trees; a cell
// has its own order (2 bytes for each tree) and thresholds (8 bytes).
//
// Its labels are those of the model. So labels() evaluates all trees where that takes less time: a cell has few rows of
// a small batch, and trees that are sliced (sliced.h) cost a fraction of those that are walked in an order of their own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/early_exit.h"

namespace scurry {

struct CellPlans {
  std::span<const std::int32_t> order;         // [cell][tree]
  std::span<const std::int32_t> lower, upper;  // [cell][0 .. n_trees]
  std::span<const std::int32_t> first_open;    // [cell] the fewest trees after which a row may stop
};

// Where outcomes go, one entry per row.
struct CellOutcome {
  ExitOutcome exits;
  std::int32_t* cells;
};

class CellExit {
 public:
  // The last tree of the forest is the router. `increments` are by node and read at leaves: what they add, and at those
  // of the router the numbers of the cells.
  CellExit(const ForestView& forest_and_router, std::span<const std::int32_t> increments, const CellPlans& plans);

  void run(const RowsView& rows, const CellOutcome& outcome, std::size_t n_threads) const;
  void labels(const RowsView& rows, const ExitDecision& decision, const Engine& exact, std::int64_t* out,
              std::size_t n_threads) const;
  std::size_t n_features() const { return n_features_; }
  std::size_t n_trees() const { return n_trees_; }
  std::size_t n_cells() const { return first_open_.size(); }
  std::size_t bytes() const;

 private:
  struct Limits {
    std::int32_t lower, upper;  // a row stops at <= lower or >= upper
  };

  // About how long n rows take, each of them, in walks of a tree.
  double cost_of_row(std::size_t n) const;
  const Limits* limits_of(std::size_t cell) const { return limits_.data() + cell * (n_trees_ + 1); }
  const std::uint16_t* order_of(std::size_t cell) const { return order_.data() + cell * n_trees_; }
  // record(row, cell, sum, n_trees, side) is called once for each row of the block.
  template <class Record>
  void run_block(const RowsView& rows, std::size_t first, std::size_t n, const Record& record) const;
  template <class Record>
  void run_part(const RowsView& rows, std::size_t first, std::size_t n, std::size_t offset, const Record& record) const;
  template <class Record>
  void run_group(AliveRows& alive, std::size_t cell, bool has_missing, const Record& record) const;
  template <class Record>
  void run_row(std::size_t cell, const std::uint32_t* keys, std::size_t n_trees, std::int32_t sum, std::size_t row,
               const Record& record) const;

  std::size_t n_features_, n_trees_;
  Walker walker_;
  Tree router_;
  std::vector<std::uint16_t> order_;
  std::vector<Limits> limits_;
  std::vector<std::int32_t> first_open_;
  double mean_trees_;  // about that many are evaluated
};

}  // namespace scurry
