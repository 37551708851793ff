// What a sentinel exit answers: an estimate for rows that stop, the model's own sum for the others.
#include <algorithm>

#include "runtime/alive_rows.h"
#include "runtime/interrupt.h"
#include "runtime/sentinel_buffers.h"

namespace scurry {

void SentinelExit::complete_row(const std::uint32_t* leaves, std::size_t row, const SentinelOutcome& outcome) const {
  values_.in_float32() ? complete_row_as<float>(leaves, row, outcome) : complete_row_as<double>(leaves, row, outcome);
}

template <class Real>
void SentinelExit::complete_row_as(const std::uint32_t* leaves, std::size_t row,
                                   const SentinelOutcome& outcome) const {
  thread_local std::vector<std::uint32_t> values;
  thread_local AlignedVector<Real> sums;
  values.resize(plan_.size());
  for (std::size_t tree = 0; tree < plan_.size(); ++tree) {
    const std::size_t place = place_of_tree_[tree];
    values[tree] = values_of(place)[leaves[place]];
  }
  values_.start(1, sums);
  values_.add_row(walker_.trees(), values.data(), sums.data());
  record_own(sums.data(), 1, row, outcome);
}

void SentinelExit::complete_rows(const Buffers& buffers, std::size_t n, std::size_t first,
                                 const SentinelOutcome& outcome) const {
  values_.in_float32() ? complete_rows_as<float>(buffers, n, first, outcome)
                       : complete_rows_as<double>(buffers, n, first, outcome);
}

template <class Real>
void SentinelExit::complete_rows_as(const Buffers& buffers, std::size_t n, std::size_t first,
                                    const SentinelOutcome& outcome) const {
  thread_local std::vector<std::uint32_t> values, places;
  thread_local AlignedVector<Real> sums;
  values.resize(n);
  places.resize(buffers.n_epochs * n);
  for (std::size_t epoch = 0; epoch < buffers.n_epochs; ++epoch) {
    const std::uint32_t* place = buffers.places.data() + epoch * buffers.room;
    for (std::size_t at = 0; at < n; ++at) places[epoch * n + at] = place[buffers.ids[at]];
  }
  values_.start(n, sums);
  for (std::size_t tree = 0; tree < plan_.size(); ++tree) {
    poll_interrupt_now_and_then();
    const std::size_t in_plan = place_of_tree_[tree];
    const std::uint32_t *value = values_of(in_plan), *leaves = buffers.leaves_of(in_plan),
                        *place = places.data() + buffers.epoch_of_tree[in_plan] * n;
    for (std::size_t at = 0; at < n; ++at) values[at] = value[leaves[place[at]]];
    values_.add(walker_.trees()[tree], values.data(), n, sums.data());
  }
  for (std::size_t at = 0; at < n; ++at) {
    record_own(sums.data() + at * values_.row_spacing(), values_.output_spacing(n), first + buffers.ids[at], outcome);
  }
}

void SentinelExit::complete_block(const Block& block, const AliveRows& alive, std::size_t first,
                                  const SentinelOutcome& outcome) const {
  values_.in_float32() ? complete_block_as<float>(block, alive, first, outcome)
                       : complete_block_as<double>(block, alive, first, outcome);
}

template <class Real>
void SentinelExit::complete_block_as(const Block& block, const AliveRows& alive, std::size_t first,
                                     const SentinelOutcome& outcome) const {
  thread_local AlignedVector<Real> sums;
  values_.start(block.n, sums);
  const std::vector<const std::uint8_t*>& known = Buffers::of_this_thread().numbers_of_tree;
  thread_local std::vector<const std::uint8_t*> numbers;  // [tree of the model]
  numbers.clear();
  for (std::size_t tree = 0; keeps_numbers_ && tree < plan_.size(); ++tree) {
    numbers.push_back(place_of_tree_[tree] < known.size() ? known[place_of_tree_[tree]] : nullptr);
  }
  sliced_sums_->add(*walker_.sliced(), block, sums.data(), numbers);
  for (std::size_t at = 0; at < alive.n; ++at) {
    record_own(sums.data() + at, values_.output_spacing(block.n), first + alive.ids[at], outcome);
  }
}

template <class Real>
void SentinelExit::record_own(const Real* sums, std::size_t spacing, std::size_t row,
                              const SentinelOutcome& outcome) const {
  if (outcome.stops != nullptr) outcome.stops[row] = static_cast<std::int32_t>(sentinels_.size());
  if (outcome.scores != nullptr) {
    double scores[2];
    answers_.scores(sums, spacing, scores);
    outcome.scores[row] = are_leads_ ? scores[1] - scores[0] : scores[n_outputs_ - 1];
  }
  if (outcome.labels != nullptr) outcome.labels[row] = answers_.label(sums, spacing);
  record_probabilities(answers_, sums, spacing, row, outcome);
}

void SentinelExit::record_stop(std::size_t j, std::int32_t sum, std::size_t row,
                               const SentinelOutcome& outcome) const {
  const double estimate = sentinels_[j].offset + sentinels_[j].scale * static_cast<double>(sum);
  if (outcome.stops != nullptr) outcome.stops[row] = static_cast<std::int32_t>(j);
  values_.in_float32() ? record_estimate<float>(estimate, row, outcome)
                       : record_estimate<double>(estimate, row, outcome);
}

// Scores have the precision of the model's, so that labels and probabilities follow from them as the model's do.
template <class Real>
void SentinelExit::record_estimate(double estimate, std::size_t row, const SentinelOutcome& outcome) const {
  const auto score = static_cast<Real>(are_shares_ ? std::clamp(estimate, 0.0, 1.0) : estimate);
  Real scores[2] = {score, score};
  if (n_outputs_ == 2) scores[0] = are_leads_ ? -score / 2 : 1 - score;
  if (are_leads_) scores[1] = score / 2;
  if (outcome.scores != nullptr) outcome.scores[row] = static_cast<double>(score);
  if (outcome.labels != nullptr) outcome.labels[row] = estimate_answers_.label(scores, 1);
  record_probabilities(estimate_answers_, scores, 1, row, outcome);
}

// Functions that link sums take long, and longest where rows come from here and there: run() links them one after another.
template <class Real>
void SentinelExit::record_probabilities(const Answers& answers, const Real* sums, std::size_t spacing, std::size_t row,
                                        const SentinelOutcome& outcome) const {
  if (outcome.probabilities == nullptr) return;
  double* out = outcome.probabilities + row * n_probabilities();
  if (answers.are_of_one_sum()) {
    out[1] = static_cast<double>(sums[0]);
  } else {
    answers.probabilities(sums, spacing, out);
  }
}

}  // namespace scurry
