// How a row keeps a deadline: how often its walk looks at the clock, and how long before the deadline it answers.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace scurry {

// Nobody looks at a row within a stretch of the order, so its steps may be taken in any order. A step in the same tree as
// the one before must wait for it; steps in different trees overlap in the processor.
constexpr std::size_t kStretch = 64;

// Steps between two looks at the clock, in whole stretches. Reading it costs as much as a few steps, so where steps are
// quick it is read less often, yet often enough for a deadline to be missed by little. Only before the deadline are there
// fewer, as many as still fit. `interval` and `left` are in ticks, `pace` in steps per tick.
inline std::size_t steps_before_next_look(double pace, double interval, double left) {
  constexpr std::size_t kMost = 256, kFewest = 8;
  const double usual = std::max(interval * pace, static_cast<double>(kStretch));
  const auto n = static_cast<std::size_t>(std::min({usual, left * pace, static_cast<double>(kMost)}));
  return n >= kStretch ? n / kStretch * kStretch : std::max(n, kFewest);
}

// A value that moves by a little towards what is seen: in the end `odds` times as many are below it as above. How far
// above, as when the system interrupts a row, does not matter.
class Estimate {
 public:
  explicit Estimate(double odds) : odds_(odds), little_(1 / (64 + 16 * odds)) {}

  void set(double value) { value_.store(std::max(value, kLeast), std::memory_order_relaxed); }
  double get() const { return value_.load(std::memory_order_relaxed); }
  void follow(double seen) { set(get() * (seen > get() ? 1 + odds_ * little_ : 1 - little_)); }

 private:
  static constexpr double kLeast = 1e-3;  // from 0 it would not move

  double odds_, little_;
  std::atomic<double> value_{kLeast};
};

// How long an answer takes, in ticks: as long as one from the roots, and the longer the more steps were taken, since fewer
// of the nodes reached are in the processor's caches.
class AnswerTime {
 public:
  void set(double from_roots, double per_step) {
    from_roots_ = from_roots;
    usual_.set(per_step);
    slow_.set(per_step);
  }
  void learn(double taken, std::size_t n_steps) {
    const double per_step = (taken - from_roots_) / counted(n_steps);
    usual_.follow(per_step);
    slow_.follow(per_step);
  }
  // What to expect, so that about half of all answers are late, but hardly one by more than `tolerated`.
  double expect(std::size_t n_steps, double tolerated) const {
    return from_roots_ + std::max(usual_.get() * counted(n_steps), slow_.get() * counted(n_steps) - tolerated);
  }

 private:
  static double counted(std::size_t n_steps) { return static_cast<double>(std::max(n_steps, kStretch)); }

  double from_roots_ = 0;
  Estimate usual_{1}, slow_{63};
};

}  // namespace scurry
