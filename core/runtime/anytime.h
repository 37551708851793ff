// Anytime: walks a forest by tree steps in a given order and has an answer after every step.
//
// A tree step takes a row from its node in one tree to a child. At a leaf it does nothing, but it counts. The answer is
// made of the values of the nodes reached, inner nodes included, so that after all steps it is the answer of the source
// model.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "runtime/answers.h"
#include "runtime/anytime_pace.h"
#include "runtime/clock.h"
#include "runtime/node_values.h"
#include "runtime/walker.h"

namespace scurry {

enum class StopReason : std::uint8_t { kComplete, kMaxSteps, kTime, kAbort };

// What a row may spend. The first limit that is reached ends its work.
struct StepBudget {
  std::size_t max_steps = std::numeric_limits<std::size_t>::max();
  double time_us = std::numeric_limits<double>::infinity();  // from the start of the row's work to its answer
  const std::atomic<bool>* abort = nullptr;
  double fake_us = 0;  // tests only: if positive, each reading of the clock is this much after the one before,
  double fake_answer_us = 0;  // and an answer is expected to take this long

  bool is_timed() const { return time_us < kEndless_us; }
  bool is_measured() const { return fake_us == 0; }
  bool is_aborted() const { return abort != nullptr && abort->load(std::memory_order_relaxed); }
  bool can_interrupt() const { return is_timed() || abort != nullptr; }

  static constexpr double kEndless_us = 1e12;
};

// Where results go, one entry (or row of entries) per row. Null pointers are results that are not wanted.
struct AnytimeOutcome {
  std::int64_t* labels = nullptr;
  double* probabilities = nullptr;
  double* scores = nullptr;
  std::int32_t* n_steps = nullptr;
  std::uint8_t* reasons = nullptr;
  double* time_us = nullptr;  // taken by each row; 0 for rows that were walked together

  bool wants_answer() const { return labels != nullptr || probabilities != nullptr || scores != nullptr; }
};

// How far a row has come.
struct RowState {
  AlignedVector<std::uint32_t> keys;
  std::vector<std::uint32_t> at;  // [tree], into the array of all lowered nodes
  std::size_t n_steps = 0;
};

class Anytime {
 public:
  // `steps` names the tree of each tree step; a tree occurs as often as it is deep. The value of a node is multiplied
  // by its weight, which is 1 at leaves; without weights all are 1.
  Anytime(const ForestView& forest, std::vector<std::int64_t> labels, std::span<const std::int32_t> steps,
          std::span<const double> weights);

  void run(const RowsView& rows, const StepBudget& budget, const AnytimeOutcome& outcome, std::size_t n_threads) const;

  // For one row, step by step: begin, then advance and answer as often as wanted.
  void begin(const RowsView& rows, std::size_t row, RowState& state) const;
  void advance(RowState& state, std::size_t n) const;
  void answer(const RowState& state, const AnytimeOutcome& outcome, std::size_t row) const;

  std::size_t n_features() const { return n_features_; }
  std::size_t n_steps() const { return steps_.size(); }
  std::size_t n_outputs() const { return answers_.n_outputs(); }
  std::size_t n_probabilities() const { return answers_.n_probabilities(); }
  std::size_t bytes() const;

 private:
  struct Answer {
    std::int64_t label = 0;
    std::vector<double> probabilities, scores;
  };

  void run_row(const RowsView& rows, std::size_t row, const StepBudget& budget, const AnytimeOutcome& outcome) const;
  StopReason walk(RowState& state, const StepBudget& budget, Stopwatch& watch) const;
  void measure();
  template <class Real>
  void run_block(const RowsView& rows, std::size_t first, std::size_t n, const std::vector<std::uint32_t>& levels,
                 const AnytimeOutcome& outcome) const;
  std::vector<std::uint32_t> levels_after(std::size_t n_steps) const;

  std::uint32_t payload_of(std::uint32_t node) const {
    return payload_.empty() ? first_payload_ + node : payload_[node];
  }
  template <class Real>
  void answer_as(const RowState& state, const AnytimeOutcome& outcome, std::size_t row) const;
  template <class Real>
  void write(const Real* sums, std::size_t spacing, const AnytimeOutcome& outcome, std::size_t row) const;
  void write(const Answer& answer, const AnytimeOutcome& outcome, std::size_t row) const;

  // If values are averaged, the weights of the nodes reached are summed too: one sum, or one per output if each tree
  // adds to one output. `average` scales a weighted sum to what it would be with weights of 1 on average.
  std::size_t n_weight_sums() const { return weight_.empty() ? 0 : values_.are_vectors() ? 1 : n_outputs(); }
  std::size_t weight_sum_of(const Tree& tree) const { return static_cast<std::size_t>(std::max(tree.output, 0)); }
  template <class Real>
  void average(Real* sums, std::size_t spacing, const double* weights, std::size_t weight_spacing) const;

  std::size_t n_features_;
  std::vector<std::uint32_t> steps_;     // the tree of each
  std::vector<std::uint32_t> arranged_;  // the same, but the steps of each run (kRun) are in a faster order
  NodeValues values_;
  std::vector<std::uint32_t> payload_;  // of every lowered node; empty if they follow each other
  std::uint32_t first_payload_ = 0;
  Walker walker_;
  std::vector<std::uint32_t> roots_;  // where every row begins
  std::vector<double> weight_;        // of every lowered node; empty if all are 1 or nothing is averaged
  Answers answers_;
  Answer root_answer_;        // the answer of every row before its first step
  double rate_;               // of the clock, in ticks per µs
  mutable Estimate pace_{1};  // of the walk, in steps per tick
  mutable AnswerTime answer_time_;
};

}  // namespace scurry
