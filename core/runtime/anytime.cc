// The walk by tree steps: row by row under a deadline, block by block where nothing can interrupt it.
#include "runtime/anytime.h"

#include <algorithm>
#include <stdexcept>

#include "runtime/interrupt.h"

namespace scurry {
namespace {

constexpr std::size_t kFewRows = 16;  // this many or fewer are walked one by one, not as a block

constexpr double kInterval_us = 0.4;  // between two readings of the clock
constexpr double kAllowance =
    0.125;                      // the share of its time that a row gives up in case its answer takes longer than usual
constexpr double kSlow = 1.3;   // a walk this many times slower than usual is slowed by memory,
constexpr double kSlowest = 4;  // which makes the answer at most this many times slower
constexpr std::size_t kSurely =
    4;  // with time for this many times its first steps, a row takes them without reading the clock

template <class T>
AlignedVector<T>& buffer_of_this_thread() {
  thread_local AlignedVector<T> buffer;
  return buffer;
}

RowState& row_of_this_thread() {
  thread_local RowState state;
  return state;
}

std::vector<std::uint32_t> check_steps(std::span<const std::int32_t> steps, std::size_t n_trees) {
  for (std::int32_t tree : steps) {
    if (tree < 0 || static_cast<std::size_t>(tree) >= n_trees) throw std::invalid_argument("a step in no tree");
  }
  return {steps.begin(), steps.end()};
}

// Orders the steps of each run: first the first step in each of its trees, then the second ones, and so on.
std::vector<std::uint32_t> arrange(const std::vector<std::uint32_t>& steps, std::size_t n_trees) {
  struct Turn {
    std::uint32_t number, tree;
  };
  std::vector<std::uint32_t> arranged, n_turns(n_trees);
  std::vector<Turn> run;
  for (std::size_t first = 0; first < steps.size(); first += kRun) {
    run.clear();
    for (std::size_t i = first; i < std::min(first + kRun, steps.size()); ++i) {
      run.push_back({n_turns[steps[i]]++, steps[i]});
    }
    std::ranges::stable_sort(run, {}, &Turn::number);
    for (const Turn& turn : run) {
      arranged.push_back(turn.tree);
      n_turns[turn.tree] = 0;
    }
  }
  return arranged;
}

template <class T>
std::vector<T> in_lowered_order(std::span<const T> by_node, const std::vector<std::int32_t>& origins) {
  std::vector<T> lowered(origins.size());
  for (std::size_t i = 0; i < origins.size(); ++i) lowered[i] = by_node[static_cast<std::size_t>(origins[i])];
  return lowered;
}

}  // namespace

Anytime::Anytime(const ForestView& forest, std::vector<std::int64_t> labels, std::span<const std::int32_t> steps,
                 std::span<const double> weights)
    : n_features_(forest.n_features),
      steps_(check_steps(steps, forest.n_trees())),
      arranged_(arrange(steps_, forest.n_trees())),
      values_(forest),
      payload_(values_.are_small() ? values_.index_leaves(forest) : values_.index_nodes(forest, weights)),
      walker_(forest, {payload_, false, true}),
      answers_(forest, std::move(labels)),
      rate_(ticks_per_us()) {
  for (std::size_t node = 0; node < weights.size(); ++node) {
    if (forest.left[node] < 0 && weights[node] != 1.0) throw std::invalid_argument("the weight of a leaf must be 1");
  }
  const std::vector<std::int32_t> origins = walker_.take_origins();
  if (values_.are_small()) {
    payload_.clear();
    first_payload_ = values_.append(forest, weights, origins);
  } else {
    payload_ = in_lowered_order<std::uint32_t>(payload_, origins);
  }
  if (forest.aggregation != Aggregation::kSum && !weights.empty()) weight_ = in_lowered_order(weights, origins);

  for (const Tree& tree : walker_.trees()) roots_.push_back(tree.first);
  root_answer_.probabilities.resize(n_probabilities());
  root_answer_.scores.resize(n_outputs());
  measure();
}

// Measures how long an answer from the roots takes (the answer is kept) and the walk of some row. The best of several
// attempts counts: the first ones wait for memory.
void Anytime::measure() {
  const AnytimeOutcome outcome{&root_answer_.label, root_answer_.probabilities.data(), root_answer_.scores.data()};
  RowState row;
  row.keys.resize(walker_.columns().stride());
  double answer_ticks = std::numeric_limits<double>::infinity(), walk_ticks = answer_ticks;
  for (int attempt = 0; attempt < 16; ++attempt) {
    row.at = roots_;
    row.n_steps = 0;
    Stopwatch watch;
    values_.in_float32() ? answer_as<float>(row, outcome, 0) : answer_as<double>(row, outcome, 0);
    answer_ticks = std::min(answer_ticks, static_cast<double>(watch.elapsed()));
    const std::uint64_t answered = watch.last();
    advance(row, n_steps());
    walk_ticks = std::min(walk_ticks, static_cast<double>(watch.elapsed() - answered));
  }
  pace_.set(static_cast<double>(n_steps() + 1) / (walk_ticks + 1));
  answer_time_.set(answer_ticks + 1);
}

std::size_t Anytime::bytes() const {
  return walker_.bytes() + values_.bytes() + (2 * steps_.size() + payload_.size()) * sizeof(std::uint32_t) +
         weight_.size() * sizeof(double);
}

void Anytime::run(const RowsView& rows, const StepBudget& budget, const AnytimeOutcome& outcome,
                  std::size_t n_threads) const {
  if (rows.n_rows <= kFewRows || budget.can_interrupt()) {
    walker_.for_each_block(rows.n_rows, n_threads, 0, [&](std::size_t first, std::size_t n) {
      for (std::size_t row = first; row < first + n; ++row) {
        poll_interrupt();
        run_row(rows, row, budget, outcome);
      }
    });
    return;
  }
  const std::size_t n_done = std::min(budget.max_steps, n_steps());
  const std::vector<std::uint32_t> levels = levels_after(n_done);
  const StopReason reason = n_done == n_steps() ? StopReason::kComplete : StopReason::kMaxSteps;
  const std::size_t row_bytes = values_.n_outputs() * sizeof(double);
  walker_.for_each_block(rows.n_rows, n_threads, row_bytes, [&](std::size_t first, std::size_t n) {
    values_.in_float32() ? run_block<float>(rows, first, n, levels, outcome)
                         : run_block<double>(rows, first, n, levels, outcome);
    if (outcome.n_steps) std::fill_n(outcome.n_steps + first, n, static_cast<std::int32_t>(n_done));
    if (outcome.reasons) std::fill_n(outcome.reasons + first, n, static_cast<std::uint8_t>(reason));
    if (outcome.time_us) std::fill_n(outcome.time_us + first, n, 0.0);
  });
}

void Anytime::run_row(const RowsView& rows, std::size_t row, const StepBudget& budget,
                      const AnytimeOutcome& outcome) const {
  Stopwatch watch(static_cast<std::uint64_t>(budget.fake_us * rate_));
  RowState& state = row_of_this_thread();
  state.n_steps = 0;
  StopReason reason = StopReason::kAbort;
  if (!budget.is_aborted()) {  // aborted rows are answered without being read
    begin(rows, row, state);
    reason = walk(state, budget, watch);
  }
  answer(state, outcome, row);
  if (reason == StopReason::kTime && budget.is_measured()) {
    const std::uint64_t walked = watch.last();
    state.n_steps > 0 ? answer_time_.learn(static_cast<double>(watch.elapsed() - walked)) : answer_time_.doubt();
  }
  if (outcome.n_steps) outcome.n_steps[row] = static_cast<std::int32_t>(state.n_steps);
  if (outcome.reasons) outcome.reasons[row] = static_cast<std::uint8_t>(reason);
  if (outcome.time_us) outcome.time_us[row] = static_cast<double>(watch.elapsed()) / rate_;
}

StopReason Anytime::walk(RowState& state, const StepBudget& budget, Stopwatch& watch) const {
  const std::size_t limit = std::min(budget.max_steps, n_steps());
  const double time = budget.time_us * rate_, interval = kInterval_us * rate_;
  const double answer = budget.is_measured() ? answer_time_.expected(kAllowance * time) : budget.fake_answer_us * rate_;
  const double usual_pace = budget.is_measured() ? pace_.get() : kRun / interval;
  double deadline = std::max(time - answer, 0.0), pace = usual_pace;
  std::size_t n = budget.can_interrupt() ? steps_before_next_look(pace, interval, deadline) : limit;
  bool looks = deadline * pace <= static_cast<double>(kSurely * std::min(n, limit));
  for (; state.n_steps < limit; looks = budget.is_timed()) {
    if (budget.is_aborted()) return StopReason::kAbort;
    if (looks) {
      const std::uint64_t before = watch.last(), now = watch.elapsed();
      if (static_cast<double>(now) >= deadline) return StopReason::kTime;
      if (state.n_steps > 0) {
        pace = static_cast<double>(n) / static_cast<double>(now - before);
        if (budget.is_measured()) pace_.follow(pace);
        // What slows the walk (mostly memory that has left the caches) will slow the answer too. A few steps say
        // nothing about that, nor do the first ones: their time includes the reading of the row.
        if (n >= kRun && before > 0) {
          deadline = time - answer * std::clamp(usual_pace / (kSlow * pace), 1.0, kSlowest);
        }
      }
      const double left = deadline - static_cast<double>(now);
      if (left <= 0) return StopReason::kTime;
      n = steps_before_next_look(pace, interval, left);
    }
    advance(state, std::min(n, limit - state.n_steps));
  }
  return limit == n_steps() ? StopReason::kComplete : StopReason::kMaxSteps;
}

void Anytime::begin(const RowsView& rows, std::size_t row, RowState& state) const {
  state.keys.resize(walker_.columns().stride());
  walker_.columns().encode(rows, row, 1, state.keys.data());
  state.at = roots_;
  state.n_steps = 0;
}

void Anytime::advance(RowState& state, std::size_t n) const {
  const std::size_t end = state.n_steps + std::min(n, n_steps() - state.n_steps);
  while (state.n_steps < end) {
    const std::size_t begun = state.n_steps % kRun, left = end - state.n_steps;
    const std::size_t whole = begun > 0 ? 0 : end == n_steps() ? left : left / kRun * kRun;
    const std::size_t taken = whole > 0 ? whole : std::min(left, kRun - begun);
    const std::vector<std::uint32_t>& order = whole > 0 ? arranged_ : steps_;
    walker_.take_steps(order.data() + state.n_steps, taken, state.keys.data(), state.at.data());
    state.n_steps += taken;
  }
}

void Anytime::answer(const RowState& state, const AnytimeOutcome& outcome, std::size_t row) const {
  if (!outcome.wants_answer()) return;
  if (state.n_steps == 0) return write(root_answer_, outcome, row);
  values_.in_float32() ? answer_as<float>(state, outcome, row) : answer_as<double>(state, outcome, row);
}

template <class Real>
void Anytime::answer_as(const RowState& state, const AnytimeOutcome& outcome, std::size_t row) const {
  const std::vector<Tree>& trees = walker_.trees();
  AlignedVector<Real>& sums = buffer_of_this_thread<Real>();
  values_.start(1, sums);
  AlignedVector<std::uint32_t>& payload = buffer_of_this_thread<std::uint32_t>();
  payload.resize(trees.size());
  for (std::size_t t = 0; t < trees.size(); ++t) payload[t] = payload_of(state.at[t]);
  values_.add_row(trees, payload.data(), sums.data());
  if (!weight_.empty()) {
    thread_local std::vector<double> weights;
    weights.assign(n_weight_sums(), 0.0);
    for (std::size_t t = 0; t < trees.size(); ++t) weights[weight_sum_of(trees[t])] += weight_[state.at[t]];
    average(sums.data(), 1, weights.data(), 1);
  }
  write(sums.data(), 1, outcome, row);
}

// How many of the first n_steps steps are in each tree: every row goes down that many levels in it.
std::vector<std::uint32_t> Anytime::levels_after(std::size_t n_steps) const {
  std::vector<std::uint32_t> levels(walker_.trees().size());
  for (std::size_t i = 0; i < n_steps; ++i) ++levels[steps_[i]];
  return levels;
}

template <class Real>
void Anytime::run_block(const RowsView& rows, std::size_t first, std::size_t n,
                        const std::vector<std::uint32_t>& levels, const AnytimeOutcome& outcome) const {
  Scratch& scratch = Scratch::of_this_thread();
  walker_.load(rows, first, n, scratch);
  if (n >= kChunk / 2) walker_.index_keys(scratch);  // rows may stop inside trees
  const std::size_t padded = scratch.block.n;
  AlignedVector<Real>& sums = buffer_of_this_thread<Real>();
  values_.start(padded, sums);
  thread_local std::vector<double> weights;
  weights.assign(n_weight_sums() * padded, 0.0);

  std::uint32_t* payload = scratch.payload.data();
  for (std::size_t t = 0; t < walker_.trees().size(); ++t) {
    const Tree& tree = walker_.trees()[t];
    const bool whole = levels[t] >= tree.depth;
    whole ? walker_.walk(tree, scratch) : walker_.descend(tree, levels[t], scratch);
    if (!weight_.empty()) {
      double* of_rows = weights.data() + weight_sum_of(tree) * padded;
      for (std::size_t row = 0; row < padded; ++row) of_rows[row] += whole ? 1.0 : weight_[tree.first + payload[row]];
    }
    if (!whole) {
      for (std::size_t row = 0; row < padded; ++row) payload[row] = payload_of(tree.first + payload[row]);
    }
    values_.add(tree, payload, padded, sums.data());
  }
  const std::size_t spacing = values_.output_spacing(padded);
  for (std::size_t row = 0; row < n; ++row) {
    Real* of_row = sums.data() + row * values_.row_spacing();
    if (!weight_.empty()) average(of_row, spacing, weights.data() + row, padded);
    write(of_row, spacing, outcome, first + row);
  }
}

template <class Real>
void Anytime::average(Real* sums, std::size_t spacing, const double* weights, std::size_t weight_spacing) const {
  for (std::size_t k = 0; k < n_outputs(); ++k) {
    const double weight = weights[(values_.are_vectors() ? 0 : k) * weight_spacing];
    if (weight == answers_.divisor()) continue;  // all at leaves: this is already the sum of the source model
    const double base = values_.base_score(k), sum = static_cast<double>(sums[k * spacing]);
    sums[k * spacing] = static_cast<Real>(base + (sum - base) * answers_.divisor() / weight);
  }
}

template <class Real>
void Anytime::write(const Real* sums, std::size_t spacing, const AnytimeOutcome& outcome, std::size_t row) const {
  if (outcome.labels) outcome.labels[row] = answers_.label(sums, spacing);
  if (outcome.probabilities) answers_.probabilities(sums, spacing, outcome.probabilities + row * n_probabilities());
  if (outcome.scores) answers_.scores(sums, spacing, outcome.scores + row * n_outputs());
}

void Anytime::write(const Answer& answer, const AnytimeOutcome& outcome, std::size_t row) const {
  if (outcome.labels) outcome.labels[row] = answer.label;
  if (outcome.probabilities) std::ranges::copy(answer.probabilities, outcome.probabilities + row * n_probabilities());
  if (outcome.scores) std::ranges::copy(answer.scores, outcome.scores + row * n_outputs());
}

}  // namespace scurry
