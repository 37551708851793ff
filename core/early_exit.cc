#include "early_exit.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <stdexcept>

#include "alive_rows.h"

namespace scurry {
namespace {

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// A generator good enough to shuffle trees, seeded per row.
class Draws {
 public:
  explicit Draws(std::uint64_t state) : state_(state) {}
  std::uint64_t next() { return mix(state_ += 0x9E3779B97F4A7C15u); }
  // Uniform on [0, n); the bias of 2^-32 is far below what any rule can notice.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(((next() >> 32) * n) >> 32); }

 private:
  std::uint64_t state_;
};

double unit(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

Leaves leaves_of(std::span<const std::int32_t> increments) {
  Leaves leaves;
  leaves.payload_of_node.assign(increments.begin(), increments.end());
  return leaves;
}

struct Buffers {
  AlignedVector<std::uint32_t> keys, ids, exits;
  AlignedVector<std::int32_t> sums;
  std::vector<std::size_t> policy_of_row;

  static Buffers& of_this_thread() {
    thread_local Buffers buffers;
    return buffers;
  }
};

}  // namespace

ExitSide ExitPieces::side_of(std::size_t n_trees, std::int32_t sum) const {
  const auto first = edges.begin() + offset[n_trees], last = edges.begin() + offset[n_trees + 1];
  return static_cast<ExitSide>(sides[offset[n_trees] + n_trees + static_cast<std::size_t>(std::upper_bound(first, last, sum) - first)]);
}

EarlyExit::EarlyExit(const ForestView& forest, std::span<const std::int32_t> order,
                     std::span<const std::int32_t> increments, std::vector<ExitPolicy> policies, ExitPieces pieces,
                     std::int32_t start, std::uint64_t seed, bool shuffle_rows)
    : n_features_(forest.n_features),
      walker_(forest, leaves_of(increments)),
      policies_(std::move(policies)),
      pieces_(std::move(pieces)),
      start_(start),
      seed_(mix(seed + 0x9E3779B97F4A7C15u)),
      shuffle_rows_(shuffle_rows) {
  for (const std::int32_t tree : order) plan_.push_back(walker_.trees().at(static_cast<std::size_t>(tree)));
  if (policies_.empty()) throw std::invalid_argument("an early exit needs a policy");
  for (const ExitPolicy& policy : policies_) {
    if (policy.lower.size() != plan_.size() + 1 || policy.upper.size() != plan_.size() + 1) {
      throw std::invalid_argument("a policy needs thresholds for every number of trees");
    }
  }
  if (pieces_.empty()) return;
  const std::size_t n = plan_.size() + 1;
  if (pieces_.offset.size() != n + 1 || pieces_.offset[0] != 0 || pieces_.offset[n] != pieces_.edges.size() ||
      !std::is_sorted(pieces_.offset.begin(), pieces_.offset.end()) || pieces_.sides.size() != pieces_.edges.size() + n) {
    throw std::invalid_argument("the pieces of an early exit do not fit together");
  }
}

ExitSide EarlyExit::side_of(const ExitPolicy& policy, std::size_t n_trees, std::int32_t sum) const {
  if (!pieces_.empty()) return pieces_.side_of(n_trees, sum);
  return sum <= policy.lower[n_trees] ? ExitSide::kLower : sum >= policy.upper[n_trees] ? ExitSide::kUpper : ExitSide::kNone;
}

// Adds the payloads of the tree just walked; returns how many rows are done, their places being in alive.exits.
std::size_t EarlyExit::test(const ExitPolicy& policy, std::size_t n_trees, AliveRows& alive) const {
  const std::uint32_t* payload = alive.scratch.payload.data();
  if (pieces_.empty()) {
    return kernels().sums.add_and_test(payload, alive.n, alive.sums, policy.lower[n_trees], policy.upper[n_trees], alive.exits);
  }
  std::size_t n_exits = 0;
  for (std::uint32_t at = 0; at < alive.n; ++at) {
    alive.sums[at] += static_cast<std::int32_t>(payload[at]);
    alive.exits[n_exits] = at;
    n_exits += pieces_.side_of(n_trees, alive.sums[at]) != ExitSide::kNone;
  }
  return n_exits;
}

void EarlyExit::run(const RowsView& rows, const ExitOutcome& outcome, std::size_t n_threads) const {
  walker_.for_each_block(rows.n_rows, n_threads,
                         [&](std::size_t first, std::size_t n) {
                           run_block(rows, first, n, {outcome.sums + first, outcome.n_trees + first, outcome.sides + first});
                         });
}

void EarlyExit::labels(const RowsView& rows, const ExitDecision& decision, const Engine& exact, std::int64_t* out,
                       std::size_t n_threads) const {
  walker_.for_each_block(rows.n_rows, n_threads, [&](std::size_t first, std::size_t n) {
    thread_local std::vector<std::int32_t> sums, n_trees;
    thread_local std::vector<std::uint8_t> sides;
    sums.resize(n);
    n_trees.resize(n);
    sides.resize(n);
    run_block(rows, first, n, {sums.data(), n_trees.data(), sides.data()});
    for (std::size_t i = 0; i < n; ++i) {
      bool upper = sides[i] == static_cast<std::uint8_t>(ExitSide::kUpper);
      if (sides[i] == static_cast<std::uint8_t>(ExitSide::kNone)) {
        const std::int64_t above = std::int64_t{sums[i]} - decision.threshold;
        if (std::abs(above) <= decision.tolerance) {
          exact.labels(rows.row(first + i), out + first + i, 1);
          continue;
        }
        upper = above >= 0;
      }
      out[first + i] = upper ? decision.upper_label : decision.lower_label;
    }
  });
}

// Only what the forest reads is hashed, in the form it is compared: float32 and float64 input draw alike.
std::uint64_t EarlyExit::hash_row(const std::uint32_t* keys) const {
  std::uint64_t hash = seed_;
  for (std::uint32_t c = 0; c < walker_.columns().size(); ++c) hash = (hash ^ keys[c]) * 0xFF51AFD7ED558CCDu + (hash >> 29);
  return mix(hash);
}

std::size_t EarlyExit::draw_policy(const std::uint32_t* keys) const {
  if (policies_.size() == 1) return 0;
  double u = unit(mix(hash_row(keys) + 1));
  for (std::size_t p = 0; p + 1 < policies_.size(); ++p) {
    if (u < policies_[p].weight) return p;
    u -= policies_[p].weight;
  }
  return policies_.size() - 1;
}

void EarlyExit::run_block(const RowsView& rows, std::size_t first, std::size_t n, const ExitOutcome& outcome) const {
  Scratch& scratch = Scratch::of_this_thread();
  const std::size_t stride = walker_.columns().stride();
  if (n <= AliveRows::kFew || shuffle_rows_) {
    for (std::size_t row = 0; row < n; ++row) {
      walker_.load_row(rows, first + row, kLanes, scratch);
      const std::uint32_t* keys = scratch.keys.data();
      if (shuffle_rows_) {
        run_shuffled(keys, row, outcome);
      } else {
        run_row(policies_[draw_policy(keys)], plan_, keys, 0, start_, row, outcome);
      }
    }
    return;
  }

  walker_.load(rows, first, n, scratch);
  Buffers& buffers = Buffers::of_this_thread();
  const std::size_t room = scratch.block.n + kChunk;
  buffers.ids.resize(room);
  buffers.exits.resize(room);
  buffers.sums.assign(room, start_);
  AliveRows alive{scratch,          stride, walker_.columns().pad() + 1, 1, scratch.keys.data(), buffers.ids.data(),
                  buffers.sums.data(), buffers.exits.data(), 0};
  if (policies_.size() == 1) {
    std::iota(alive.ids, alive.ids + n, 0u);
    alive.n = n;
    return run_alive(policies_[0], alive, outcome);
  }
  // Rows of one policy at a time, gathered from the encoded block.
  buffers.keys.assign(scratch.keys.begin(), scratch.keys.begin() + static_cast<std::ptrdiff_t>(n * stride));
  buffers.policy_of_row.resize(n);
  for (std::size_t row = 0; row < n; ++row) buffers.policy_of_row[row] = draw_policy(buffers.keys.data() + row * stride);
  for (std::size_t p = 0; p < policies_.size(); ++p) {
    alive.n = 0;
    for (std::size_t row = 0; row < n; ++row) {
      if (buffers.policy_of_row[row] != p) continue;
      std::copy_n(buffers.keys.data() + row * stride, stride, alive.keys + alive.n * stride);
      alive.ids[alive.n] = static_cast<std::uint32_t>(row);
      alive.sums[alive.n++] = start_;
    }
    run_alive(policies_[p], alive, outcome);
  }
}

void EarlyExit::run_alive(const ExitPolicy& policy, AliveRows& alive, const ExitOutcome& outcome) const {
  alive.scratch.block = {alive.keys, nullptr, 0, round_up(alive.n, kChunk), alive.scratch.block.has_missing};
  if (alive.worth_columns()) walker_.index_columns(alive.scratch);
  std::size_t n_trees = 0;
  // Some policies answer without asking a tree; they leave all rows to run_row.
  const bool asks = side_of(policy, 0, start_) == ExitSide::kNone;
  while (asks && n_trees < plan_.size() && alive.n > AliveRows::kFew) {
    alive.fit_block();
    walker_.walk(plan_[n_trees++], alive.scratch);
    const std::size_t n_exits = test(policy, n_trees, alive);
    for (std::size_t e = 0; e < n_exits; ++e) {
      const std::uint32_t at = alive.exits[e], row = alive.ids[at];
      const ExitSide side = side_of(policy, n_trees, alive.sums[at]);
      if (side == ExitSide::kNever) {
        run_row(policy, plan_, alive.keys + at * alive.stride, n_trees, alive.sums[at], row, outcome);
        continue;
      }
      outcome.sums[row] = alive.sums[at];
      outcome.n_trees[row] = static_cast<std::int32_t>(n_trees);
      outcome.sides[row] = static_cast<std::uint8_t>(side);
    }
    if (n_exits > 0) alive.remove(n_exits);
  }
  for (std::size_t at = 0; at < alive.n; ++at) {
    run_row(policy, plan_, alive.keys + at * alive.stride, n_trees, alive.sums[at], alive.ids[at], outcome);
  }
}

// One row from its first `n_trees` trees on: several are walked ahead, their increments then tested one by one.
void EarlyExit::run_row(const ExitPolicy& policy, const std::vector<Tree>& plan, const std::uint32_t* keys,
                        std::size_t n_trees, std::int32_t sum, std::size_t row, const ExitOutcome& outcome) const {
  std::uint32_t payload[kLanes];
  ExitSide side = side_of(policy, n_trees, sum);
  const auto goes_on = [&] { return n_trees < plan.size() && (side == ExitSide::kNone || side == ExitSide::kNever); };
  while (goes_on()) {
    const std::size_t ahead = std::min(kLanes, plan.size() - n_trees);
    walker_.walk_row(plan.data() + n_trees, ahead, keys, payload);
    for (std::size_t i = 0; i < ahead && goes_on(); ++i) {
      sum += static_cast<std::int32_t>(payload[i]);
      ++n_trees;
      if (side != ExitSide::kNever) side = side_of(policy, n_trees, sum);
    }
  }
  if (side == ExitSide::kNever) side = ExitSide::kNone;
  outcome.sums[row] = sum;
  outcome.n_trees[row] = static_cast<std::int32_t>(n_trees);
  outcome.sides[row] = static_cast<std::uint8_t>(side);
}

void EarlyExit::run_shuffled(const std::uint32_t* keys, std::size_t row, const ExitOutcome& outcome) const {
  thread_local std::vector<Tree> plan;
  plan = plan_;
  Draws draws(hash_row(keys));
  for (std::size_t i = plan.size(); i > 1; --i) std::swap(plan[i - 1], plan[draws.below(i)]);
  run_row(policies_[draw_policy(keys)], plan, keys, 0, start_, row, outcome);
}

}  // namespace scurry
