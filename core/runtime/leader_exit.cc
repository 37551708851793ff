// Runs leader exits block by block; the last few rows finish one by one.
#include "runtime/leader_exit.h"

#include <limits>
#include <map>
#include <numeric>
#include <stdexcept>

#include "runtime/alive_rows.h"

namespace scurry {
namespace {

constexpr std::int32_t kNeverLeads = std::numeric_limits<std::int32_t>::min();  // below any sum

struct Buffers {
  AlignedVector<std::uint32_t> ids;
  std::vector<std::uint64_t> exits;
  AlignedVector<std::int32_t> sums, first, second;

  static Buffers& of_this_thread() {
    thread_local Buffers buffers;
    return buffers;
  }
};

}  // namespace

LeaderExit::LeaderExit(const ForestView& forest, std::span<const std::int32_t> order, std::size_t trees_per_round,
                       std::span<const std::int32_t> increments, std::vector<std::int32_t> start, LeaderRule rule)
    : n_features_(forest.n_features),
      n_classes_(start.size()),
      vector_leaves_(forest.n_columns > 1),
      width_(round_up(n_classes_, kIntLanes)),
      walker_(forest, make_leaves(forest, increments)),
      trees_per_round_(trees_per_round),
      n_rounds_(order.size() / trees_per_round),
      start_(std::move(start)),
      rule_(std::move(rule)) {
  for (const std::int32_t tree : order) plan_.push_back(walker_.trees().at(static_cast<std::size_t>(tree)));
  const std::size_t n = n_rounds_ + 1;
  if (n_classes_ < 2 || n_rounds_ * trees_per_round_ != plan_.size() || rule_.lead.size() != n ||
      (!rule_.need.empty() && rule_.need.size() != n * n)) {
    throw std::invalid_argument("the parts of a leader rule do not fit together");
  }
  start_.resize(width_, kNeverLeads);
}

Leaves LeaderExit::make_leaves(const ForestView& forest, std::span<const std::int32_t> increments) {
  Leaves leaves{std::vector<std::uint32_t>(forest.n_nodes()), true};
  std::map<std::vector<std::int32_t>, std::uint32_t> index;
  for (std::size_t node = 0; node < forest.n_nodes(); ++node) {
    if (forest.left[node] >= 0) continue;
    const std::int32_t* vector = increments.data() + node * forest.n_columns;
    if (!vector_leaves_) {
      leaves.payload_of_node[node] = static_cast<std::uint32_t>(*vector);
      continue;
    }
    const auto [entry, added] =
        index.try_emplace({vector, vector + n_classes_}, static_cast<std::uint32_t>(index.size()));
    if (added) {
      table_.insert(table_.end(), vector, vector + n_classes_);
      table_.resize(index.size() * width_);
    }
    leaves.payload_of_node[node] = entry->second;
  }
  return leaves;
}

std::int32_t LeaderExit::leader(const std::int32_t* sums) const {
  return static_cast<std::int32_t>(std::max_element(sums, sums + n_classes_) - sums);
}

bool LeaderExit::stops(std::size_t round, std::int32_t first, std::int32_t second) const {
  if (!may_stop(round)) return false;
  if (!rule_.need.empty()) return first >= rule_.need[round * (n_rounds_ + 1) + static_cast<std::size_t>(second)];
  return std::int64_t{first} - second >= rule_.lead[round];
}

void LeaderExit::add(const Tree& tree, std::uint32_t payload, std::int32_t* sums) const {
  if (!vector_leaves_) {
    sums[tree.output] += static_cast<std::int32_t>(payload);
    return;
  }
  const std::int32_t* vector = table_.data() + payload * width_;
  for (std::size_t k = 0; k < n_classes_; ++k) sums[k] += vector[k];
}

void LeaderExit::record(const std::int32_t* sums, std::size_t round, bool decided, std::size_t row,
                        const LeaderOutcome& outcome) const {
  std::copy_n(sums, n_classes_, outcome.sums + row * n_classes_);
  outcome.n_trees[row] = static_cast<std::int32_t>(round * trees_per_round_);
  outcome.leaders[row] = leader(sums);
  outcome.decided[row] = decided;
}

void LeaderExit::run(const RowsView& rows, const LeaderOutcome& outcome, std::size_t n_threads) const {
  walker_.for_each_block(rows.n_rows, n_threads, [&](std::size_t first, std::size_t n) {
    run_block(
        rows, first, n,
        {outcome.sums + first * n_classes_, outcome.n_trees + first, outcome.leaders + first, outcome.decided + first});
  });
}

void LeaderExit::labels(const RowsView& rows, std::span<const std::int64_t> classes, std::int32_t tolerance,
                        const Engine& exact, std::int64_t* out, std::size_t n_threads) const {
  walker_.for_each_block(rows.n_rows, n_threads, [&](std::size_t first, std::size_t n) {
    thread_local std::vector<std::int32_t> sums, n_trees, leaders;
    thread_local std::vector<std::uint8_t> decided;
    sums.resize(n * n_classes_);
    n_trees.resize(n);
    leaders.resize(n);
    decided.resize(n);
    run_block(rows, first, n, {sums.data(), n_trees.data(), leaders.data(), decided.data()});
    for (std::size_t i = 0; i < n; ++i) {
      std::int32_t* sum = sums.data() + i * n_classes_;
      out[first + i] = classes[static_cast<std::size_t>(leaders[i])];
      if (decided[i] || tolerance < 0) continue;
      const std::int64_t leading = sum[leaders[i]];
      sum[leaders[i]] = kNeverLeads;
      if (leading - *std::max_element(sum, sum + n_classes_) <= tolerance) {
        exact.labels(rows.row(first + i), out + first + i, 1);
      }
    }
  });
}

void LeaderExit::run_block(const RowsView& rows, std::size_t first, std::size_t n, const LeaderOutcome& outcome) const {
  Scratch& scratch = Scratch::of_this_thread();
  Buffers& buffers = Buffers::of_this_thread();
  walker_.load(rows, first, n, scratch);
  buffers.ids.resize(n);
  std::iota(buffers.ids.begin(), buffers.ids.end(), 0u);
  buffers.exits.resize(n / kChunk + 1);
  buffers.first.resize(n);
  buffers.second.resize(n);
  buffers.sums.resize(n * width_);
  for (std::size_t row = 0; row < n; ++row) {
    std::copy(start_.begin(), start_.end(), buffers.sums.begin() + row * width_);
  }
  AliveRows alive{scratch,
                  walker_.columns().stride(),
                  walker_.columns().pad() + 1,
                  width_,
                  scratch.keys.data(),
                  buffers.ids.data(),
                  buffers.sums.data(),
                  buffers.exits.data(),
                  n};
  if (walker_.worth_columns(alive.n)) walker_.index_columns(scratch);
  std::size_t round = 0;
  while (round < n_rounds_ && alive.n > AliveRows::kFew) {
    alive.fit_block();
    for (std::size_t t = 0; t < trees_per_round_; ++t) {
      const Tree& tree = plan_[round * trees_per_round_ + t];
      walker_.walk(tree, scratch);
      if (vector_leaves_) {
        kernels().sums.add_int_vectors(table_.data(), width_, scratch.payload.data(), alive.n, alive.sums);
      } else {
        for (std::size_t at = 0; at < alive.n; ++at) add(tree, scratch.payload[at], alive.sums + at * width_);
      }
    }
    ++round;
    if (!may_stop(round)) continue;
    kernels().sums.top_two(alive.sums, width_, alive.n, buffers.first.data(), buffers.second.data());
    std::size_t n_exits = 0;
    std::fill(buffers.exits.begin(), buffers.exits.end(), 0u);
    for (std::size_t at = 0; at < alive.n; ++at) {
      if (!stops(round, buffers.first[at], buffers.second[at])) continue;
      record(alive.sums + at * width_, round, true, alive.ids[at], outcome);
      alive.exits[at / kChunk] |= std::uint64_t{1} << (at % kChunk);
      ++n_exits;
    }
    if (n_exits > 0) alive.remove(n_exits);
  }
  for (std::size_t at = 0; at < alive.n; ++at) {
    finish_row(alive.keys + at * alive.stride, round, alive.sums + at * width_, alive.ids[at], outcome);
  }
}

void LeaderExit::finish_row(const std::uint32_t* keys, std::size_t round, std::int32_t* sums, std::size_t row,
                            const LeaderOutcome& outcome) const {
  std::uint32_t payload[kLanes];
  std::size_t tree = round * trees_per_round_;
  bool decided = false;
  while (!decided && tree < plan_.size()) {
    const std::size_t ahead = std::min(kLanes, plan_.size() - tree);
    walker_.walk_row(plan_.data() + tree, ahead, keys, payload);
    for (std::size_t i = 0; i < ahead && !decided; ++i, ++tree) {
      add(plan_[tree], payload[i], sums);
      if ((tree + 1) % trees_per_round_ != 0) continue;
      std::int32_t first, second;
      kernels().sums.top_two(sums, width_, 1, &first, &second);
      decided = stops(++round, first, second);
    }
  }
  record(sums, round, decided, row, outcome);
}

}  // namespace scurry
