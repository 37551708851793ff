#include "early_exit.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace scurry {
namespace {

constexpr std::size_t kFewRows = 4;  // as many or fewer finish one by one, many trees at a time

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

ExitSide side_of(std::int32_t sum, std::int32_t lower, std::int32_t upper) {
  return sum <= lower ? ExitSide::kLower : sum >= upper ? ExitSide::kUpper : ExitSide::kNone;
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

struct EarlyExit::Alive {
  Scratch& scratch;
  std::size_t stride, n_columns;
  std::uint32_t* keys;  // [n][stride], the block's rows
  std::uint32_t* ids;   // each row's place in the batch
  std::int32_t* sums;
  std::uint32_t* exits;
  std::size_t n;

  void record(std::uint32_t at, std::size_t n_trees, ExitSide side, const ExitOutcome& outcome) const {
    outcome.sums[ids[at]] = sums[at];
    outcome.n_trees[ids[at]] = static_cast<std::int32_t>(n_trees);
    outcome.sides[ids[at]] = static_cast<std::uint8_t>(side);
  }

  // Closes the gaps of the first n_exits `exits` (ascending) with rows from the end: never more moves than exits.
  void remove(std::size_t n_exits) {
    const std::size_t left = n - n_exits;
    std::size_t in_tail = std::lower_bound(exits, exits + n_exits, static_cast<std::uint32_t>(left)) - exits;
    std::size_t gap = 0;
    for (std::size_t from = left; from < n; ++from) {
      if (in_tail < n_exits && exits[in_tail] == from) {
        ++in_tail;
      } else {
        move(from, exits[gap++]);
      }
    }
    n = left;
  }

  void move(std::size_t from, std::size_t to) {
    std::copy_n(keys + from * stride, stride, keys + to * stride);
    if (scratch.block.by_column != nullptr) {
      std::uint32_t* column = scratch.columns.data();
      for (std::size_t c = 0; c < n_columns; ++c, column += scratch.block.column_stride) column[to] = column[from];
    }
    ids[to] = ids[from];
    sums[to] = sums[from];
  }
};

EarlyExit::EarlyExit(const ForestView& forest, std::span<const std::int32_t> order,
                     std::span<const std::int32_t> increments, std::vector<ExitPolicy> policies, std::int32_t start,
                     std::uint64_t seed, bool shuffle_rows)
    : n_features_(forest.n_features),
      walker_(forest, leaves_of(increments)),
      policies_(std::move(policies)),
      start_(start),
      seed_(mix(seed + 0x9E3779B97F4A7C15u)),
      shuffle_rows_(shuffle_rows) {
  for (const std::int32_t tree : order) plan_.push_back(walker_.trees().at(static_cast<std::size_t>(tree)));
  if (policies_.empty()) throw std::invalid_argument("an early exit needs a policy");
  for (const ExitPolicy& policy : policies_) {
    if (policy.lower.size() != plan_.size() || policy.upper.size() != plan_.size()) {
      throw std::invalid_argument("a policy needs a threshold for every position");
    }
  }
}

void EarlyExit::run(const RowsView& rows, const ExitOutcome& outcome, std::size_t n_threads) const {
  walker_.for_each_block(rows.n_rows, n_threads,
                         [&](std::size_t first, std::size_t n) { run_block(rows, first, n, outcome); });
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
  if (n <= kFewRows || shuffle_rows_) {
    for (std::size_t row = first; row < first + n; ++row) {
      walker_.load_row(rows, row, kLanes, scratch);
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
  Alive alive{scratch, stride, walker_.columns().pad() + 1, nullptr, buffers.ids.data(), buffers.sums.data(), buffers.exits.data(), 0};
  if (policies_.size() == 1) {
    std::iota(alive.ids, alive.ids + n, static_cast<std::uint32_t>(first));
    alive.keys = scratch.keys.data();
    alive.n = n;
    return run_alive(policies_[0], alive, outcome);
  }
  // Rows of one policy at a time, gathered from the encoded block.
  buffers.keys.assign(scratch.keys.begin(), scratch.keys.begin() + static_cast<std::ptrdiff_t>(n * stride));
  buffers.policy_of_row.resize(n);
  for (std::size_t row = 0; row < n; ++row) buffers.policy_of_row[row] = draw_policy(buffers.keys.data() + row * stride);
  for (std::size_t p = 0; p < policies_.size(); ++p) {
    alive.keys = scratch.keys.data();
    alive.n = 0;
    for (std::size_t row = 0; row < n; ++row) {
      if (buffers.policy_of_row[row] != p) continue;
      std::copy_n(buffers.keys.data() + row * stride, stride, alive.keys + alive.n * stride);
      alive.ids[alive.n] = static_cast<std::uint32_t>(first + row);
      alive.sums[alive.n++] = start_;
    }
    run_alive(policies_[p], alive, outcome);
  }
}

void EarlyExit::run_alive(const ExitPolicy& policy, Alive& alive, const ExitOutcome& outcome) const {
  constexpr std::size_t kEnoughForColumns = kChunk / 2;
  Block& block = alive.scratch.block;
  block = {alive.keys, nullptr, 0, round_up(alive.n, kChunk)};
  if (alive.n >= kEnoughForColumns) walker_.index_columns(alive.scratch);
  for (std::size_t position = 0; position < plan_.size() && alive.n > kFewRows; ++position) {
    if (alive.n < kEnoughForColumns) block.by_column = nullptr;
    block.n = round_up(alive.n, block.by_column != nullptr ? kChunk : kLanes);
    walker_.walk(plan_[position], alive.scratch);
    const std::int32_t lower = policy.lower[position], upper = policy.upper[position];
    const std::size_t n_exits =
        kernels().add_and_test(alive.scratch.payload.data(), alive.n, alive.sums, lower, upper, alive.exits);
    for (std::size_t e = 0; e < n_exits; ++e) {
      alive.record(alive.exits[e], position + 1, side_of(alive.sums[alive.exits[e]], lower, upper), outcome);
    }
    if (n_exits > 0) alive.remove(n_exits);
    if (position + 1 == plan_.size()) {
      for (std::uint32_t at = 0; at < alive.n; ++at) alive.record(at, plan_.size(), ExitSide::kNone, outcome);
      return;
    }
    if (alive.n > kFewRows) continue;
    for (std::size_t at = 0; at < alive.n; ++at) {
      run_row(policy, plan_, alive.keys + at * alive.stride, position + 1, alive.sums[at], alive.ids[at], outcome);
    }
    return;
  }
  for (std::size_t at = 0; at < alive.n; ++at) {
    run_row(policy, plan_, alive.keys + at * alive.stride, 0, start_, alive.ids[at], outcome);
  }
}

// One row from `position` on: several trees are walked ahead, their increments then tested one by one.
void EarlyExit::run_row(const ExitPolicy& policy, const std::vector<Tree>& plan, const std::uint32_t* keys,
                        std::size_t position, std::int32_t sum, std::size_t row, const ExitOutcome& outcome) const {
  std::uint32_t payload[kLanes];
  ExitSide side = ExitSide::kNone;
  while (position < plan.size() && side == ExitSide::kNone) {
    const std::size_t ahead = std::min(kLanes, plan.size() - position);
    walker_.walk_row(plan.data() + position, ahead, keys, payload);
    for (std::size_t i = 0; i < ahead && side == ExitSide::kNone; ++i, ++position) {
      sum += static_cast<std::int32_t>(payload[i]);
      side = side_of(sum, policy.lower[position], policy.upper[position]);
    }
  }
  outcome.sums[row] = sum;
  outcome.n_trees[row] = static_cast<std::int32_t>(position);
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
