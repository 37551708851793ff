// Runs early exits block by block: rows that stop leave the block, and the others move together.
#include "runtime/early_exit.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "runtime/alive_rows.h"
#include "runtime/interrupt.h"

namespace scurry {
namespace {

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// A random generator, good enough to shuffle trees and cheap enough to be seeded for every row (SplitMix64).
class Draws {
 public:
  explicit Draws(std::uint64_t state) : state_(state) {}
  std::uint64_t next() { return mix(state_ += 0x9E3779B97F4A7C15u); }
  // Uniform on [0, n), up to a bias of 2^-32 that no rule can notice.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(((next() >> 32) * n) >> 32); }

 private:
  std::uint64_t state_;
};

double unit(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

// The least and the greatest increment of a tree's leaves.
std::pair<std::int32_t, std::int32_t> range_of_leaves(const Walker& walker, const Tree& tree) {
  std::int32_t least = kNeverAbove, most = kNeverBelow;
  walker.for_each_leaf(tree, [&](std::uint32_t payload) {
    least = std::min(least, static_cast<std::int32_t>(payload));
    most = std::max(most, static_cast<std::int32_t>(payload));
  });
  return {least, most};
}

// Rows in a block are numbered with 32 bits.
constexpr std::size_t kMaxRows = std::size_t{1} << 30;

}  // namespace

ExitSide ExitPieces::side_of(std::size_t n_trees, std::int32_t sum) const {
  const auto first = edges.begin() + offset[n_trees], last = edges.begin() + offset[n_trees + 1];
  return sides[offset[n_trees] + n_trees + static_cast<std::size_t>(std::upper_bound(first, last, sum) - first)];
}

EarlyExit::EarlyExit(Walker walker, std::span<const std::int32_t> order, std::vector<ExitPolicy> policies,
                     ExitPieces pieces, std::uint64_t seed, bool shuffle_rows)
    : walker_(std::move(walker)),
      policies_(std::move(policies)),
      pieces_(std::move(pieces)),
      seed_(mix(seed + 0x9E3779B97F4A7C15u)),
      shuffle_rows_(shuffle_rows) {
  for (const std::int32_t tree : order) plan_.push_back(walker_.trees().at(static_cast<std::size_t>(tree)));
  const std::size_t n = plan_.size() + 1;
  if (policies_.empty()) throw std::invalid_argument("an early exit needs a policy");
  for (const ExitPolicy& policy : policies_) {
    if (policy.lower.size() != n || policy.upper.size() != n) {
      throw std::invalid_argument("a policy needs thresholds for every number of trees");
    }
    ends_.push_back(policy.weight + (ends_.empty() ? 0.0 : ends_.back()));
  }
  if (!pieces_.empty() &&
      (pieces_.offset.size() != n + 1 || pieces_.offset[0] != 0 || pieces_.offset[n] != pieces_.edges.size() ||
       !std::is_sorted(pieces_.offset.begin(), pieces_.offset.end()) ||
       pieces_.sides.size() != pieces_.edges.size() + n)) {
    throw std::invalid_argument("the pieces of an early exit do not fit together");
  }
  make_gates();
  Draws draws(seed_);
  for (std::uint32_t c = 0; c <= walker_.columns().size(); ++c) {
    salt_.push_back(static_cast<std::uint32_t>(draws.next() >> 32));
    read_.push_back(c < walker_.columns().size() && walker_.columns().is_read(c) ? ~0u : 0u);
  }
}

void EarlyExit::make_gates() {
  std::int64_t least = 0, most = 0;  // the sums that the trees so far can give
  for (std::size_t r = 0; r <= plan_.size(); ++r) {
    if (r > 0) {
      const auto [low, high] = range_of_leaves(walker_, plan_[r - 1]);
      least += low;
      most += high;
    }
    Gate gate{kNeverBelow, kNeverAbove, kNeverAbove, kNeverBelow, true, true};
    for (const ExitPolicy& policy : policies_) {
      gate.inner_lower = std::max(gate.inner_lower, policy.lower[r]);
      gate.outer_lower = std::min(gate.outer_lower, policy.lower[r]);
      gate.inner_upper = std::min(gate.inner_upper, policy.upper[r]);
      gate.outer_upper = std::max(gate.outer_upper, policy.upper[r]);
    }
    gate.is_open = !pieces_.empty() || gate.inner_lower >= least || gate.inner_upper <= most;
    gate.is_sure = pieces_.empty() && gate.inner_lower == gate.outer_lower && gate.inner_upper == gate.outer_upper;
    gates_.push_back(gate);
    if (n_entered_ == 0 && (gate.is_open || r == plan_.size())) n_entered_ = r;
  }
  if (walker_.has_ranks()) n_entered_ = 0;
}

ExitSide EarlyExit::side_of(std::uint32_t policy, std::size_t n_trees, std::int32_t sum) const {
  if (!pieces_.empty()) return pieces_.side_of(n_trees, sum);
  const auto& [weight, lower, upper] = policies_[policy];
  return sum <= lower[n_trees]   ? ExitSide::kNegative
         : sum >= upper[n_trees] ? ExitSide::kPositive
                                 : ExitSide::kContinue;
}

// The same for a row of a block, which draws its policy only if that matters.
ExitSide EarlyExit::side_of(const AliveRows& alive, std::size_t at, std::size_t n_trees) const {
  const Gate& gate = gates_[n_trees];
  const std::int32_t sum = alive.sums[at];
  const bool all_stop = sum <= gate.outer_lower || (sum >= gate.outer_upper && sum > gate.inner_lower);
  if (all_stop && pieces_.empty()) return sum <= gate.outer_lower ? ExitSide::kNegative : ExitSide::kPositive;
  return side_of(draw_policy(alive.keys + at * alive.stride), n_trees, sum);
}

void EarlyExit::run(const RowsView& rows, const ExitOutcome& outcome, std::size_t n_threads) const {
  for_each_range(rows.n_rows, kMaxRows, n_threads, [&](std::size_t first, std::size_t n) {
    run_block(rows, first, n, [&](std::size_t row, std::int32_t sum, std::size_t n_trees, ExitSide side) {
      outcome.sums[first + row] = sum;
      outcome.n_trees[first + row] = static_cast<std::int32_t>(n_trees);
      outcome.sides[first + row] = side;
    });
  });
}

void EarlyExit::labels(const RowsView& rows, const ExitDecision& decision, const Engine& exact, std::int64_t* out,
                       std::size_t n_threads) const {
  const std::int64_t label_of[] = {decision.negative_label, decision.positive_label};
  for_each_range(rows.n_rows, kMaxRows, n_threads, [&](std::size_t first, std::size_t n) {
    thread_local std::vector<std::size_t> close;
    close.clear();
    run_block(rows, first, n, [&](std::size_t row, std::int32_t sum, std::size_t, ExitSide side) {
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

// Hashes only what the forest reads, in the form in which it is compared, so that float32 and float64 input draw alike.
// It is a sum of products of salted pairs: over the salts, two different rows collide with probability 2^-32.
std::uint64_t EarlyExit::hash_row(const std::uint32_t* keys) const {
  const std::size_t n = walker_.columns().size();
  const auto salted = [&](std::size_t c) { return std::uint64_t{(keys[c] & read_[c]) + salt_[c]}; };
  std::uint64_t hash = seed_;
  for (std::size_t c = 0; c + 1 < n; c += 2) hash += salted(c) * salted(c + 1);
  if (n % 2 != 0) hash += salted(n - 1) * salt_[n];
  return mix(hash);
}

std::uint32_t EarlyExit::draw_policy(const std::uint32_t* keys) const {
  if (ends_.size() == 1) return 0;
  const double u = unit(mix(hash_row(keys) + 1));
  std::uint32_t policy = 0;
  for (std::size_t p = 0; p + 1 < ends_.size(); ++p) policy += u >= ends_[p];
  return policy;
}

template <class Record>
void EarlyExit::run_block(const RowsView& rows, std::size_t first, std::size_t n, const Record& record) const {
  Scratch& scratch = Scratch::of_this_thread();
  if (n <= AliveRows::kFew || shuffle_rows_) {
    for (std::size_t row = 0; row < n; ++row) {
      poll_interrupt_now_and_then();
      walker_.load_row(rows, first + row, kLanes, scratch);
      const std::uint32_t* keys = scratch.keys.data();
      if (shuffle_rows_) {
        run_shuffled(keys, row, record);
      } else {
        run_row(draw_policy(keys), plan_, keys, 0, 0, row, record);
      }
    }
    return;
  }

  const std::int32_t start[] = {0};
  run_in_lots(
      walker_, rows, first, n, {start}, [&](AliveRows& entering) { enter(entering, record); },
      [&](AliveRows& alive) { finish(alive, record); });
}

// Evaluates the first trees of rows just loaded, up to the first tree after which a row may stop.
template <class Record>
void EarlyExit::enter(AliveRows& alive, const Record& record) const {
  if (gates_[0].is_open) {
    alive.mark_all();
    stop(alive, 0, record);
  }
  if (n_entered_ == 0) return;
  Scratch& scratch = alive.scratch;
  if (walker_.worth_columns(alive.n)) walker_.index_columns(scratch);
  alive.fit_block();
  if (alive.n == 0) return;
  walker_.walk_each(std::span(plan_).first(n_entered_), scratch, [&](std::size_t i, const std::uint32_t* payload) {
    // finish() makes it again, of the rows that continue.
    if (i + 1 == n_entered_) scratch.block.drop_columns();
    add(alive, i + 1, payload, record);
  });
}

// Evaluates the remaining trees of rows that have entered.
template <class Record>
void EarlyExit::finish(AliveRows& alive, const Record& record) const {
  Scratch& scratch = alive.scratch;
  if (walker_.worth_columns(alive.n)) walker_.index_columns(scratch);
  std::size_t n_trees = n_entered_;
  while (n_trees < plan_.size() && alive.n > AliveRows::kFew) {
    alive.fit_block();
    if (n_trees + 1 < plan_.size()) walker_.fetch_ahead(plan_[n_trees + 1], alive.n);
    walker_.walk(plan_[n_trees++], scratch);
    add(alive, n_trees, scratch.payload.data(), record);
  }
  for (std::size_t at = 0; at < alive.n; ++at) {
    const std::uint32_t* keys = alive.keys + at * alive.stride;
    run_row(draw_policy(keys), plan_, keys, n_trees, alive.sums[at], alive.ids[at], record);
  }
}

// Adds the increments of the tree just walked and stops the rows that may stop.
template <class Record>
void EarlyExit::add(AliveRows& alive, std::size_t n_trees, const std::uint32_t* payload, const Record& record) const {
  const Gate& gate = gates_[n_trees];
  if (gate.is_open && pieces_.empty()) {
    kernels().sums.add_and_test(payload, alive.n, alive.sums, gate.inner_lower, gate.inner_upper, alive.exits);
    return stop(alive, n_trees, record);
  }
  for (std::size_t at = 0; at < alive.n; ++at) alive.sums[at] += static_cast<std::int32_t>(payload[at]);
  if (!gate.is_open) return;
  alive.mark_all();
  stop(alive, n_trees, record);
}

// Of the marked rows, records and removes those that their own policy stops.
template <class Record>
void EarlyExit::stop(AliveRows& alive, std::size_t n_trees, const Record& record) const {
  const Gate gate = gates_[n_trees];
  std::size_t n_exits = 0;
  if (gate.is_sure) {
    for (std::size_t first = 0; first < alive.n; first += kChunk) {
      for (std::uint64_t left = alive.exits[first / kChunk]; left != 0; left &= left - 1, ++n_exits) {
        const std::size_t at = first + static_cast<std::size_t>(std::countr_zero(left));
        const bool is_negative = alive.sums[at] <= gate.outer_lower;
        record(alive.ids[at], alive.sums[at], n_trees, is_negative ? ExitSide::kNegative : ExitSide::kPositive);
      }
    }
    if (n_exits > 0) alive.remove(n_exits);
    return;
  }
  for (std::size_t first = 0; first < alive.n; first += kChunk) {
    std::uint64_t& exits = alive.exits[first / kChunk];
    for (std::uint64_t left = exits; left != 0; left &= left - 1) {
      const std::size_t at = first + static_cast<std::size_t>(std::countr_zero(left));
      const std::int32_t sum = alive.sums[at];
      const ExitSide side = side_of(alive, at, n_trees);
      if (side == ExitSide::kContinue) {
        exits &= ~(left & -left);
      } else if (side == ExitSide::kFull) {
        run_row(0, plan_, alive.keys + at * alive.stride, n_trees, sum, alive.ids[at], record);
      } else {
        record(alive.ids[at], sum, n_trees, side);
      }
    }
    n_exits += static_cast<std::size_t>(std::popcount(exits));
  }
  if (n_exits > 0) alive.remove(n_exits);
}

// Runs one row from its first `n_trees` trees on. Several trees are walked at once, then their increments are tested
// one by one.
template <class Record>
void EarlyExit::run_row(std::uint32_t policy, const std::vector<Tree>& plan, const std::uint32_t* keys,
                        std::size_t n_trees, std::int32_t sum, std::size_t row, const Record& record) const {
  std::uint32_t payload[kLanes];
  ExitSide side = side_of(policy, n_trees, sum);
  const auto continues = [&] {
    return n_trees < plan.size() && (side == ExitSide::kContinue || side == ExitSide::kFull);
  };
  while (continues()) {
    const std::size_t ahead = std::min(kLanes, plan.size() - n_trees);
    walker_.walk_row(plan.data() + n_trees, ahead, keys, payload);
    for (std::size_t i = 0; i < ahead && continues(); ++i) {
      sum += static_cast<std::int32_t>(payload[i]);
      ++n_trees;
      if (side != ExitSide::kFull) side = side_of(policy, n_trees, sum);
    }
  }
  record(row, sum, n_trees, side == ExitSide::kFull ? ExitSide::kContinue : side);
}

template <class Record>
void EarlyExit::run_shuffled(const std::uint32_t* keys, std::size_t row, const Record& record) const {
  thread_local std::vector<Tree> plan;
  plan = plan_;
  Draws draws(hash_row(keys));
  for (std::size_t i = plan.size(); i > 1; --i) std::swap(plan[i - 1], plan[draws.below(i)]);
  run_row(draw_policy(keys), plan, keys, 0, 0, row, record);
}

}  // namespace scurry
