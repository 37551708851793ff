// Runs leader exits block by block; the last few rows finish one by one.
#include "runtime/leader_exit.h"

#include <bit>
#include <limits>
#include <map>
#include <stdexcept>

#include "runtime/alive_rows.h"

namespace scurry {
namespace {

// Rows in a block are numbered with 32 bits.
constexpr std::size_t kMaxRows = std::size_t{1} << 30;
constexpr std::int32_t kNeverLeads = std::numeric_limits<std::int32_t>::min();  // below any sum

// Classes per row of a table of vectors.
std::size_t vector_width(std::size_t n_classes) {
  return n_classes <= kHalfIntLanes ? kHalfIntLanes : round_up(n_classes, kIntLanes);
}

AlignedVector<std::int32_t>& sums_of_this_thread() {
  thread_local AlignedVector<std::int32_t> sums;
  return sums;
}

}  // namespace

LeaderExit::LeaderExit(LeaderLeaves leaves, std::span<const std::int32_t> order, std::size_t trees_per_round,
                       std::vector<std::int32_t> start, LeaderRule rule)
    : n_classes_(start.size()),
      vector_leaves_(!leaves.vectors.empty()),
      width_(vector_leaves_ ? vector_width(n_classes_) : n_classes_),
      walker_(std::move(leaves.walker)),
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
  const std::size_t n_vectors = leaves.vectors.size() / n_classes_;
  table_.resize(n_vectors * width_);
  for (std::size_t i = 0; i < n_vectors; ++i) {
    std::copy_n(leaves.vectors.data() + i * n_classes_, n_classes_, table_.data() + i * width_);
  }
  for (const Tree& tree : walker_.trees()) {
    const bool has_output = tree.output >= 0 && static_cast<std::size_t>(tree.output) < n_classes_;
    if (!vector_leaves_ && !has_output) throw std::invalid_argument("leaves add vectors, or trees have a class");
    walker_.for_each_leaf(tree, [&](std::uint32_t payload) {
      if (vector_leaves_ && payload >= n_vectors) throw std::invalid_argument("a vector is needed for every leaf");
    });
  }
  start_.resize(width_, kNeverLeads);
  n_entered_ = 1;
  while (n_entered_ < n_rounds_ && !may_stop(n_entered_)) ++n_entered_;
  if (walker_.has_ranks()) n_entered_ = 0;
}

LeaderLeaves LeaderLeaves::lower(const ForestView& forest, std::span<const std::int32_t> increments) {
  const std::size_t n_columns = forest.n_columns;
  Leaves leaves{std::vector<std::uint32_t>(forest.n_nodes()), true};
  std::vector<std::int32_t> vectors;
  std::map<std::vector<std::int32_t>, std::uint32_t> index;
  for (std::size_t node = 0; node < forest.n_nodes(); ++node) {
    if (forest.left[node] >= 0) continue;
    const std::int32_t* vector = increments.data() + node * n_columns;
    if (n_columns == 1) {
      leaves.payload_of_node[node] = static_cast<std::uint32_t>(*vector);
      continue;
    }
    const auto [entry, added] =
        index.try_emplace({vector, vector + n_columns}, static_cast<std::uint32_t>(index.size()));
    if (added) vectors.insert(vectors.end(), vector, vector + n_columns);
    leaves.payload_of_node[node] = entry->second;
  }
  return {Walker(forest, std::move(leaves)), std::move(vectors)};
}

// The first class with the largest sum, without branches, which nothing foretells.
std::int32_t LeaderExit::leader(const std::int32_t* sums) const {
  constexpr std::uint32_t kLast = 0xFFFFFFFF;
  std::int64_t most = std::numeric_limits<std::int64_t>::min();
  for (std::size_t k = 0; k < n_classes_; ++k) {
    most = std::max(most, std::int64_t{sums[k]} * (std::int64_t{1} << 32) + (kLast - static_cast<std::uint32_t>(k)));
  }
  return static_cast<std::int32_t>(kLast - static_cast<std::uint32_t>(most));
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

void LeaderExit::run(const RowsView& rows, const LeaderOutcome& outcome, std::size_t n_threads) const {
  for_each_range(rows.n_rows, kMaxRows, n_threads, [&](std::size_t first, std::size_t n) {
    run_block(rows, first, n, [&](std::size_t row, const std::int32_t* sums, std::size_t n_rounds, bool decided) {
      row += first;
      std::copy_n(sums, n_classes_, outcome.sums + row * n_classes_);
      outcome.n_trees[row] = static_cast<std::int32_t>(n_rounds * trees_per_round_);
      outcome.leaders[row] = leader(sums);
      outcome.decided[row] = decided;
    });
  });
}

void LeaderExit::labels(const RowsView& rows, std::span<const std::int64_t> classes, std::int32_t tolerance,
                        const Engine& exact, std::int64_t* out, std::size_t n_threads) const {
  for_each_range(rows.n_rows, kMaxRows, n_threads, [&](std::size_t first, std::size_t n) {
    thread_local std::vector<std::size_t> close;
    close.clear();
    run_block(rows, first, n, [&](std::size_t row, const std::int32_t* sums, std::size_t, bool decided) {
      const auto leading = static_cast<std::size_t>(leader(sums));
      out[first + row] = classes[leading];
      if (decided || tolerance < 0) return;
      for (std::size_t k = 0; k < n_classes_; ++k) {
        if (k == leading || std::int64_t{sums[leading]} - sums[k] > tolerance) continue;
        close.push_back(first + row);
        break;
      }
    });
    for (const std::size_t row : close) exact.labels(rows.row(row), out + row, 1);
  });
}

template <class Record>
void LeaderExit::run_block(const RowsView& rows, std::size_t first, std::size_t n, const Record& record) const {
  if (n <= AliveRows::kFew) {
    Scratch& scratch = Scratch::of_this_thread();
    AlignedVector<std::int32_t>& sums = sums_of_this_thread();
    for (std::size_t row = 0; row < n; ++row) {
      walker_.load_row(rows, first + row, kLanes, scratch);
      sums.assign(start_.begin(), start_.end());
      finish_row(scratch.keys.data(), 0, sums.data(), row, record);
    }
    return;
  }
  const auto enter = [&](AliveRows& alive) {
    if (n_entered_ == 0) return;
    if (walker_.worth_columns(alive.n)) walker_.index_columns(alive.scratch);
    for (std::size_t round = 0; round < n_entered_ && alive.n > 0; ++round) take_round(alive, round, record);
    alive.scratch.block.drop_columns();
  };
  const auto finish = [&](AliveRows& alive) {
    if (walker_.worth_columns(alive.n)) walker_.index_columns(alive.scratch);
    std::size_t round = n_entered_;
    while (round < n_rounds_ && alive.n > AliveRows::kFew) {
      const std::size_t next = (round + 1) * trees_per_round_;
      if (next < plan_.size()) walker_.fetch_ahead(plan_[next], alive.n);
      take_round(alive, round++, record);
    }
    AlignedVector<std::int32_t>& sums = sums_of_this_thread();
    sums.resize(width_);
    for (std::size_t at = 0; at < alive.n; ++at) {
      for (std::size_t k = 0; k < width_; ++k) sums[k] = alive.sum(at, k);
      finish_row(alive.keys + at * alive.stride, round, sums.data(), alive.ids[at], record);
    }
  };
  run_in_lots(walker_, rows, first, n, {start_, vector_leaves_}, enter, finish);
}

template <class Record>
void LeaderExit::take_round(AliveRows& alive, std::size_t round, const Record& record) const {
  Scratch& scratch = alive.scratch;
  alive.fit_block();
  for (std::size_t t = 0; t < trees_per_round_; ++t) {
    const Tree& tree = plan_[round * trees_per_round_ + t];
    walker_.walk(tree, scratch);
    const std::uint32_t* payload = scratch.payload.data();
    if (vector_leaves_) {
      kernels().sums.add_int_vectors(table_.data(), width_, payload, alive.n, alive.sums);
    } else {
      std::int32_t* sums = alive.sums + static_cast<std::size_t>(tree.output) * alive.sum_apart;
      for (std::size_t at = 0; at < alive.n; ++at) sums[at] += static_cast<std::int32_t>(payload[at]);
    }
  }
  if (may_stop(round + 1)) stop(alive, round + 1, record);
}

template <class Record>
void LeaderExit::stop(AliveRows& alive, std::size_t n_rounds, const Record& record) const {
  if (!rule_.need.empty()) {
    test_votes(alive, n_rounds);
  } else if (vector_leaves_) {
    kernels().sums.test_leads(alive.sums, width_, alive.n, rule_.lead[n_rounds], alive.exits);
  } else {
    kernels().sums.test_leads_of(alive.sums, width_, alive.sum_apart, alive.n, rule_.lead[n_rounds], alive.exits);
  }
  std::size_t n_exits = 0;
  thread_local std::vector<std::int32_t> sums;
  sums.resize(width_);
  for (std::size_t begin = 0; begin < alive.n; begin += kChunk) {
    for (std::uint64_t left = alive.exits[begin / kChunk]; left != 0; left &= left - 1, ++n_exits) {
      const std::size_t at = begin + static_cast<std::size_t>(std::countr_zero(left));
      const std::int32_t* of_row = alive.sums + at * width_;
      if (!vector_leaves_) {
        for (std::size_t k = 0; k < n_classes_; ++k) sums[k] = alive.sum(at, k);
        of_row = sums.data();
      }
      record(alive.ids[at], of_row, n_rounds, true);
    }
  }
  if (n_exits > 0) alive.remove(n_exits);
}

// Marks the rows whose leader has as many votes as it needs.
void LeaderExit::test_votes(AliveRows& alive, std::size_t n_rounds) const {
  thread_local std::vector<std::int32_t> first, second;
  first.resize(round_up(alive.n, kChunk));
  second.resize(round_up(alive.n, kChunk));
  kernels().sums.top_two(alive.sums, width_, alive.n, first.data(), second.data());
  for (std::size_t begin = 0; begin < alive.n; begin += kChunk) {
    std::uint64_t bits = 0;
    for (std::size_t at = begin; at < std::min(begin + kChunk, alive.n); ++at) {
      bits |= std::uint64_t{stops(n_rounds, first[at], second[at])} << (at - begin);
    }
    alive.exits[begin / kChunk] = bits;
  }
}

template <class Record>
void LeaderExit::finish_row(const std::uint32_t* keys, std::size_t round, std::int32_t* sums, std::size_t row,
                            const Record& record) const {
  std::uint32_t payload[kLanes];
  std::size_t tree = round * trees_per_round_;
  bool decided = false;
  while (!decided && tree < plan_.size()) {
    const std::size_t ahead = std::min(kLanes, plan_.size() - tree);
    walker_.walk_row(plan_.data() + tree, ahead, keys, payload);
    for (std::size_t i = 0; i < ahead && !decided; ++i, ++tree) {
      add(plan_[tree], payload[i], sums);
      if ((tree + 1) % trees_per_round_ != 0) continue;
      if (!may_stop(++round)) continue;
      std::int32_t first = sums[0], second = kNeverLeads;
      for (std::size_t k = 1; k < n_classes_; ++k) {
        second = std::max(second, std::min(first, sums[k]));
        first = std::max(first, sums[k]);
      }
      decided = stops(round, first, second);
    }
  }
  record(row, sums, round, decided);
}

}  // namespace scurry
