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
  AlignedVector<std::uint32_t> ids, policies, exits;
  AlignedVector<std::int32_t> sums;

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
                     std::span<const std::int32_t> increments, const std::vector<ExitPolicy>& policies, ExitPieces pieces,
                     std::int32_t start, std::uint64_t seed, bool shuffle_rows)
    : n_features_(forest.n_features),
      walker_(forest, leaves_of(increments)),
      policy_stride_(round_up(policies.size(), kIntLanes)),
      pieces_(std::move(pieces)),
      start_(start),
      seed_(mix(seed + 0x9E3779B97F4A7C15u)),
      shuffle_rows_(shuffle_rows) {
  for (const std::int32_t tree : order) plan_.push_back(walker_.trees().at(static_cast<std::size_t>(tree)));
  lay_out(policies);
  Draws draws(seed_);
  for (std::uint32_t c = 0; c <= walker_.columns().size(); ++c) salt_.push_back(static_cast<std::uint32_t>(draws.next() >> 32));
  const std::size_t n = plan_.size() + 1;
  if (!pieces_.empty() && (pieces_.offset.size() != n + 1 || pieces_.offset[0] != 0 || pieces_.offset[n] != pieces_.edges.size() ||
      !std::is_sorted(pieces_.offset.begin(), pieces_.offset.end()) || pieces_.sides.size() != pieces_.edges.size() + n)) {
    throw std::invalid_argument("the pieces of an early exit do not fit together");
  }
  for (std::uint32_t p = 0; p < ends_.size(); ++p) answers_at_once_ |= side_of(p, 0, start_) != ExitSide::kNone;
}

void EarlyExit::lay_out(const std::vector<ExitPolicy>& policies) {
  if (policies.empty()) throw std::invalid_argument("an early exit needs a policy");
  const std::size_t n = plan_.size() + 1;
  lower_.assign(n * policy_stride_, kNeverBelow);
  upper_.assign(n * policy_stride_, kNeverAbove);
  for (std::size_t p = 0; p < policies.size(); ++p) {
    const ExitPolicy& policy = policies[p];
    if (policy.lower.size() != n || policy.upper.size() != n) {
      throw std::invalid_argument("a policy needs thresholds for every number of trees");
    }
    ends_.push_back(policy.weight + (p > 0 ? ends_[p - 1] : 0.0));
    for (std::size_t r = 0; r < n; ++r) {
      lower_[r * policy_stride_ + p] = policy.lower[r];
      upper_[r * policy_stride_ + p] = policy.upper[r];
    }
  }
}

ExitSide EarlyExit::side_of(std::uint32_t policy, std::size_t n_trees, std::int32_t sum) const {
  if (!pieces_.empty()) return pieces_.side_of(n_trees, sum);
  const std::size_t at = n_trees * policy_stride_ + policy;
  return sum <= lower_[at] ? ExitSide::kLower : sum >= upper_[at] ? ExitSide::kUpper : ExitSide::kNone;
}

// Adds the payloads of the tree just walked; returns how many rows are done, their places being in alive.exits.
std::size_t EarlyExit::test(std::size_t n_trees, AliveRows& alive) const {
  const std::uint32_t* payload = alive.scratch.payload.data();
  if (pieces_.empty()) {
    const std::size_t at = n_trees * policy_stride_;
    const ExitBounds bounds{lower_.data() + at, upper_.data() + at, ends_.size(), alive.policies};
    return kernels().sums.add_and_test(payload, alive.n, alive.sums, bounds, alive.exits);
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

// Only what the forest reads is hashed, in the form it is compared: float32 and float64 input draw alike. A sum of products
// of salted pairs: two different rows collide with a chance of 2^-32 over the salts.
std::uint64_t EarlyExit::hash_row(const std::uint32_t* keys) const {
  const std::size_t n = walker_.columns().size();
  const auto salted = [&](std::size_t c) { return std::uint64_t{keys[c] + salt_[c]}; };
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
        run_row(draw_policy(keys), plan_, keys, 0, start_, row, outcome);
      }
    }
    return;
  }

  walker_.load(rows, first, n, scratch);
  Buffers& buffers = Buffers::of_this_thread();
  const std::size_t room = scratch.block.n + kChunk;
  buffers.ids.resize(room);
  std::iota(buffers.ids.begin(), buffers.ids.end(), 0u);
  buffers.exits.resize(room);
  buffers.sums.assign(room, start_);
  AliveRows alive{scratch,
                  stride,
                  walker_.columns().pad() + 1,
                  1,
                  scratch.keys.data(),
                  buffers.ids.data(),
                  buffers.sums.data(),
                  nullptr,
                  buffers.exits.data(),
                  n};
  if (ends_.size() > 1) {
    buffers.policies.assign(room, 0);
    for (std::size_t row = 0; row < n; ++row) buffers.policies[row] = draw_policy(alive.keys + row * stride);
    alive.policies = buffers.policies.data();
  }
  run_alive(alive, outcome);
}

void EarlyExit::run_alive(AliveRows& alive, const ExitOutcome& outcome) const {
  std::size_t n_trees = 0;
  if (answers_at_once_) {
    std::size_t n_exits = 0;
    for (std::uint32_t at = 0; at < alive.n; ++at) {
      alive.exits[n_exits] = at;
      n_exits += side_of(alive.policy_of(at), 0, start_) != ExitSide::kNone;
    }
    stop(alive, n_exits, 0, outcome);
  }
  if (alive.worth_columns() && !walker_.prefers_rows()) walker_.index_columns(alive.scratch);
  while (n_trees < plan_.size() && alive.n > AliveRows::kFew) {
    alive.fit_block();
    walker_.walk(plan_[n_trees++], alive.scratch);
    stop(alive, test(n_trees, alive), n_trees, outcome);
  }
  for (std::size_t at = 0; at < alive.n; ++at) {
    run_row(alive.policy_of(at), plan_, alive.keys + at * alive.stride, n_trees, alive.sums[at], alive.ids[at], outcome);
  }
}

// Records and removes the rows at the first n_exits places of alive.exits.
void EarlyExit::stop(AliveRows& alive, std::size_t n_exits, std::size_t n_trees, const ExitOutcome& outcome) const {
  for (std::size_t e = 0; e < n_exits; ++e) {
    const std::uint32_t at = alive.exits[e], row = alive.ids[at], policy = alive.policy_of(at);
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

// One row from its first `n_trees` trees on: several are walked ahead, their increments then tested one by one.
void EarlyExit::run_row(std::uint32_t policy, const std::vector<Tree>& plan, const std::uint32_t* keys,
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
  run_row(draw_policy(keys), plan, keys, 0, start_, row, outcome);
}

}  // namespace scurry
