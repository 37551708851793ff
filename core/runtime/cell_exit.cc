// Routes rows to their cells, gathers them by cell, and runs each group with the order and thresholds of its cell.
#include "runtime/cell_exit.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "runtime/alive_rows.h"
#include "runtime/interrupt.h"

namespace scurry {
namespace {

// Rows are routed in lots that fit the nearest cache. So many are gathered by cell that groups are large enough for the
// kernels; a group is run in pieces that fit the second-level cache.
constexpr std::size_t kEntryBytes = 24 * 1024, kPartBytes = 16 * 1024 * 1024, kGroupBytes = 256 * 1024;
constexpr std::size_t kMaxPart = std::size_t{1} << 17;
// Trees of a single row that are walked before its sum is tested: at least as many as the kernel walks together.
constexpr std::size_t kAhead = 2 * kLanes, kMostAhead = 4 * kAhead;
constexpr std::size_t kFewInCell = 8;  // rows: fewer than this are faster one by one

Leaves leaves_of(std::span<const std::int32_t> increments) {
  Leaves leaves;
  leaves.payload_of_node.assign(increments.begin(), increments.end());
  return leaves;
}

struct Buffers {
  AlignedVector<std::uint32_t> keys, ids;
  AlignedVector<std::int32_t> sums;
  std::vector<std::uint64_t> exits;
  std::vector<std::uint32_t> cells, rows, starts;  // cell of each row, rows by cell, where the rows of each cell start

  static Buffers& of_this_thread() {
    thread_local Buffers buffers;
    return buffers;
  }
};

}  // namespace

CellExit::CellExit(const ForestView& forest, std::span<const std::int32_t> increments, const CellPlans& plans)
    : n_features_(forest.n_features),
      n_trees_(forest.n_trees() - 1),
      walker_(forest, leaves_of(increments)),
      router_(walker_.trees().back()),
      order_(plans.order.begin(), plans.order.end()),
      first_open_(plans.first_open.begin(), plans.first_open.end()) {
  const std::size_t n_limits = n_cells() * (n_trees_ + 1);
  if (n_trees_ > std::numeric_limits<std::uint16_t>::max()) throw std::invalid_argument("more than 65,535 trees");
  if (plans.lower.size() != n_limits || plans.upper.size() != n_limits || order_.size() != n_cells() * n_trees_) {
    throw std::invalid_argument("every cell needs an order, and thresholds for every number of trees");
  }
  for (std::size_t i = 0; i < n_limits; ++i) limits_.push_back({plans.lower[i], plans.upper[i]});
  constexpr double kTreesPerFirst = 2.0;  // measured: rows evaluate 1.6 to 2.2 times as many as the first may stop after
  const double sum = std::accumulate(first_open_.begin(), first_open_.end(), 0.0);
  mean_trees_ = std::min(kTreesPerFirst * sum / static_cast<double>(n_cells()), static_cast<double>(n_trees_));
}

double CellExit::cost_of_row(std::size_t n) const {
  // Measured. The fewer rows a cell has, the fewer are walked together; in the end, each is walked alone, and some trees
  // in vain.
  constexpr double kRouting = 8.0, kTogether = 1.3, kRowsApart = 10.0, kAlone = 2.3, kRoutingAlone = 120.0;
  if (n <= AliveRows::kFew) return kRoutingAlone + walker_.cost_of_tree(n) * (mean_trees_ + kLanes);
  const double apart = kRowsApart * static_cast<double>(n_cells()) / static_cast<double>(n);
  return kRouting + mean_trees_ * std::min(kTogether + apart, kAlone);
}

std::size_t CellExit::bytes() const {
  return walker_.bytes() + order_.size() * sizeof(order_[0]) + limits_.size() * sizeof(limits_[0]) +
         first_open_.size() * sizeof(first_open_[0]);
}

void CellExit::run(const RowsView& rows, const CellOutcome& outcome, std::size_t n_threads) const {
  for_each_range(rows.n_rows, kMaxPart, n_threads, [&](std::size_t first, std::size_t n) {
    run_block(rows, first, n,
              [&](std::size_t row, std::size_t cell, std::int32_t sum, std::size_t n_trees, ExitSide side) {
                outcome.exits.sums[first + row] = sum;
                outcome.exits.n_trees[first + row] = static_cast<std::int32_t>(n_trees);
                outcome.exits.sides[first + row] = side;
                outcome.cells[first + row] = static_cast<std::int32_t>(cell);
              });
  });
}

void CellExit::labels(const RowsView& rows, const ExitDecision& decision, const Engine& exact, std::int64_t* out,
                      std::size_t n_threads) const {
  if (exact.cost_of_row(rows.n_rows) < cost_of_row(rows.n_rows)) return exact.labels(rows, out, n_threads);
  const std::int64_t label_of[] = {decision.negative_label, decision.positive_label};
  for_each_range(rows.n_rows, kMaxPart, n_threads, [&](std::size_t first, std::size_t n) {
    thread_local std::vector<std::size_t> close;
    close.clear();
    run_block(rows, first, n, [&](std::size_t row, std::size_t, std::int32_t sum, std::size_t, ExitSide side) {
      if (side == ExitSide::kContinue) {
        const std::int64_t above = std::int64_t{sum} - decision.threshold;
        if (std::abs(above) <= decision.tolerance) close.push_back(first + row);
        side = above >= 0 ? ExitSide::kPositive : ExitSide::kNegative;
      }
      out[first + row] = label_of[side == ExitSide::kPositive];
    });
    for (const std::size_t row : close) exact.labels(rows.row(row), out + row, 1);
  });
}

template <class Record>
void CellExit::run_block(const RowsView& rows, std::size_t first, std::size_t n, const Record& record) const {
  if (n <= AliveRows::kFew) {
    Scratch& scratch = Scratch::of_this_thread();
    for (std::size_t row = 0; row < n; ++row) {
      walker_.load_row(rows, first + row, kLanes, scratch);
      std::uint32_t cell;
      walker_.walk_row(&router_, 1, scratch.keys.data(), &cell);
      run_row(cell, scratch.keys.data(), 0, 0, row, record);
    }
    return;
  }
  const std::size_t most = std::min(walker_.rows_in(kPartBytes), kMaxPart);
  for (std::size_t at = 0; at < n; at += most) run_part(rows, first + at, std::min(most, n - at), at, record);
}

// Runs rows [first, first + n), which the record knows from number `offset` on.
template <class Record>
void CellExit::run_part(const RowsView& rows, std::size_t first, std::size_t n, std::size_t offset,
                        const Record& record) const {
  Scratch& scratch = Scratch::of_this_thread();
  Buffers& buffers = Buffers::of_this_thread();
  const std::size_t stride = walker_.columns().stride(), n_entering = walker_.rows_in(kEntryBytes);
  const std::size_t n_group = std::min(walker_.rows_in(kGroupBytes), round_up(n, kChunk));
  walker_.reserve(round_up(n, kChunk) + kChunk, scratch);
  buffers.cells.resize(n);
  buffers.starts.assign(n_cells() + 1, 0);
  bool has_missing = false;
  for (std::size_t at = 0; at < n; at += n_entering) {
    const std::size_t n_loaded = std::min(n_entering, n - at);
    walker_.load(rows, first + at, n_loaded, scratch, at, n_loaded);
    has_missing |= scratch.block.has_missing;
    walker_.walk(router_, scratch);
    for (std::size_t i = 0; i < n_loaded; ++i) {
      buffers.cells[at + i] = scratch.payload[i];
      ++buffers.starts[scratch.payload[i] + 1];
    }
  }
  for (std::size_t cell = 0; cell < n_cells(); ++cell) buffers.starts[cell + 1] += buffers.starts[cell];
  buffers.rows.resize(n);
  for (std::size_t i = 0; i < n; ++i) buffers.rows[buffers.starts[buffers.cells[i]]++] = static_cast<std::uint32_t>(i);
  // Now each start is where the next cell starts.
  buffers.keys.resize((n_group + kChunk) * stride);
  buffers.ids.resize(n_group + kChunk);
  buffers.sums.resize(n_group + kChunk);
  buffers.exits.resize(n_group / kChunk + 2);
  const auto shifted = [&](std::size_t row, std::size_t cell, std::int32_t sum, std::size_t n_trees, ExitSide side) {
    record(offset + row, cell, sum, n_trees, side);
  };
  for (std::size_t cell = 0, at = 0; cell < n_cells(); ++cell) {
    for (const std::size_t end = buffers.starts[cell]; at < end;) {
      const std::size_t n_rows = std::min(n_group, end - at);
      AliveRows alive{.scratch = scratch,
                      .stride = stride,
                      .n_columns = walker_.columns().pad() + 1,
                      .width = 1,
                      .row_apart = 1,
                      .sum_apart = 1,
                      .keys = buffers.keys.data(),
                      .ids = buffers.ids.data(),
                      .sums = buffers.sums.data(),
                      .exits = buffers.exits.data(),
                      .n = n_rows};
      for (std::size_t i = 0; i < n_rows; ++i) {
        const std::uint32_t row = buffers.rows[at + i];
        std::copy_n(scratch.keys.data() + row * stride, stride, alive.keys + i * stride);
        alive.ids[i] = row;
        alive.sums[i] = 0;
      }
      // The kernels walk whole lanes or chunks: rows of zero keys fill them.
      std::fill_n(alive.keys + n_rows * stride, (round_up(n_rows, kChunk) - n_rows) * stride, 0u);
      run_group(alive, cell, has_missing, shifted);
      at += n_rows;
    }
  }
}

template <class Record>
void CellExit::run_group(AliveRows& alive, std::size_t cell, bool has_missing, const Record& record) const {
  Scratch& scratch = alive.scratch;
  const std::uint16_t* order = order_of(cell);
  const Limits* limits = limits_of(cell);
  const auto first_open = static_cast<std::size_t>(first_open_[cell]);
  scratch.block = {alive.keys, nullptr, 0, round_up(alive.n, kChunk), has_missing};
  if (first_open > 0 && walker_.worth_columns(alive.n)) walker_.index_columns(scratch);
  std::size_t n_trees = 0;
  if (first_open == 0) {
    // With a sum of 0 all rows are on the same side.
    const ExitSide side = 0 <= limits[0].lower   ? ExitSide::kNegative
                          : 0 >= limits[0].upper ? ExitSide::kPositive
                                                 : ExitSide::kContinue;
    for (std::size_t at = 0; side != ExitSide::kContinue && at < alive.n; ++at) {
      record(alive.ids[at], cell, 0, 0, side);
    }
    if (side != ExitSide::kContinue) return;
  }
  while (n_trees < n_trees_ && alive.n > kFewInCell) {
    alive.fit_block();
    walker_.walk(walker_.trees()[order[n_trees++]], scratch);
    const std::uint32_t* payload = scratch.payload.data();
    if (n_trees < first_open) {
      for (std::size_t at = 0; at < alive.n; ++at) alive.sums[at] += static_cast<std::int32_t>(payload[at]);
      continue;
    }
    const auto [lower, upper] = limits[n_trees];
    kernels().sums.add_and_test(payload, alive.n, alive.sums, lower, upper, alive.exits);
    std::size_t n_exits = 0;
    for (std::size_t first = 0; first < alive.n; first += kChunk) {
      for (std::uint64_t left = alive.exits[first / kChunk]; left != 0; left &= left - 1, ++n_exits) {
        const std::size_t at = first + static_cast<std::size_t>(std::countr_zero(left));
        const ExitSide side = alive.sums[at] <= lower ? ExitSide::kNegative : ExitSide::kPositive;
        record(alive.ids[at], cell, alive.sums[at], n_trees, side);
      }
    }
    if (n_exits > 0) alive.remove(n_exits);
  }
  for (std::size_t at = 0; at < alive.n; ++at) {
    run_row(cell, alive.keys + at * alive.stride, n_trees, alive.sums[at], alive.ids[at], record);
  }
}

// Runs one row from its first `n_trees` trees on, several trees at a time.
template <class Record>
void CellExit::run_row(std::size_t cell, const std::uint32_t* keys, std::size_t n_trees, std::int32_t sum,
                       std::size_t row, const Record& record) const {
  poll_interrupt_now_and_then();
  const std::uint16_t* order = order_of(cell);
  const Limits* limits = limits_of(cell);
  const auto side_of = [&] {
    return sum <= limits[n_trees].lower   ? ExitSide::kNegative
           : sum >= limits[n_trees].upper ? ExitSide::kPositive
                                          : ExitSide::kContinue;
  };
  ExitSide side = side_of();
  Tree trees[kMostAhead];
  std::uint32_t payload[kMostAhead];
  const auto first_open = static_cast<std::size_t>(first_open_[cell]);
  while (n_trees < n_trees_ && side == ExitSide::kContinue) {
    // Up to the first tree after which the row may stop, none is evaluated in vain.
    const std::size_t sure = first_open > n_trees ? std::min(kMostAhead, first_open - n_trees) : 0;
    const std::size_t ahead = std::min(std::max(sure, kAhead), n_trees_ - n_trees);
    for (std::size_t i = 0; i < ahead; ++i) trees[i] = walker_.trees()[order[n_trees + i]];
    walker_.walk_row(trees, ahead, keys, payload);
    for (std::size_t i = 0; i < ahead && side == ExitSide::kContinue; ++i) {
      sum += static_cast<std::int32_t>(payload[i]);
      ++n_trees;
      side = side_of();
    }
  }
  record(row, cell, sum, n_trees, side);
}

}  // namespace scurry
