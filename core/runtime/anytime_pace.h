// How a row meets its deadline: how often its walk reads the clock, and how long before the deadline it answers.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace scurry {

// The number of steps in a run. No row is interrupted within a run, so its steps may be taken in any order. This
// matters because a step must wait for the step before it if both are in the same tree; steps in different trees
// overlap in the processor.
constexpr std::size_t kRun = 64;

// The number of steps until the clock is read again, in whole runs. Reading the clock costs as much as a few steps, so
// it is read less often where steps are fast, but often enough that a deadline is missed by little. Just before the
// deadline there are fewer steps: as many as still fit. `interval` and `left` are in ticks, `pace` is in steps per
// tick.
inline std::size_t steps_before_next_look(double pace, double interval, double left) {
  constexpr std::size_t kMost = 256, kFewest = 8;
  const double usual = std::max(interval * pace, static_cast<double>(kRun));
  const auto n = static_cast<std::size_t>(std::min({usual, left * pace, static_cast<double>(kMost)}));
  return n >= kRun ? n / kRun * kRun : std::max(n, kFewest);
}

// An estimated quantile: it moves a little towards every value seen, so that in the end `odds` times as many values are
// below it as above. How far above does not matter: a row that the system interrupts does no harm.
class Estimate {
 public:
  explicit Estimate(double odds) : odds_(odds), little_(1 / (64 + 16 * odds)) {}

  // It never falls far below the value it is set to, because it is multiplied and could not leave 0.
  void set(double value) {
    value_.store(value, std::memory_order_relaxed);
    least_ = value / 64;
  }
  double get() const { return value_.load(std::memory_order_relaxed); }
  void follow(double seen) { multiply(seen > get() ? 1 + odds_ * little_ : 1 - little_); }
  void sink() { multiply(1 - 1.0 / 256); }

 private:
  void multiply(double factor) { value_.store(std::max(get() * factor, least_), std::memory_order_relaxed); }

  double odds_, little_, least_ = 0;
  std::atomic<double> value_{0};
};

// How long an answer takes: as long as one from the roots, and some time more, because fewer of the nodes reached are
// in the processor's caches.
class AnswerTime {
 public:
  void set(double from_roots) {
    from_roots_ = from_roots;
    usual_.set(from_roots / 4);
    slow_.set(from_roots / 4);
  }
  void learn(double taken) {
    usual_.follow(taken - from_roots_);
    slow_.follow(taken - from_roots_);
  }
  // A row had no time for a single step. Perhaps the expected time is too long.
  void doubt() {
    usual_.sink();
    slow_.sink();
  }
  // The time that most answers take, but at most `allowance` more than the median, because the system may interrupt any
  // number of answers.
  double expected(double allowance) const {
    return from_roots_ + usual_.get() + std::clamp(slow_.get() - usual_.get(), 0.0, allowance);
  }

 private:
  double from_roots_ = 0;
  Estimate usual_{1}, slow_{15};
};

}  // namespace scurry
