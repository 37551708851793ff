// How a row keeps a deadline: how often its walk looks at the clock, and how long before the deadline it answers.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace scurry {

// Nobody looks at a row within a stretch of the order, so its steps may be taken in any order. A step in the same tree
// as the one before must wait for it; steps in different trees overlap in the processor.
constexpr std::size_t kStretch = 64;

// Steps between two looks at the clock, in whole stretches. Reading it costs as much as a few steps, so where steps are
// quick it is read less often, yet often enough for a deadline to be missed by little. Only before the deadline are
// there fewer, as many as still fit. `interval` and `left` are in ticks, `pace` in steps per tick.
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

  // It never falls far below the value it is set to: from 0 it would not move.
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

// How long an answer takes: as long as one from the roots, and then longer, since fewer of the nodes reached are in the
// processor's caches.
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
  // A row had no time for a step, perhaps because too much is expected.
  void doubt() {
    usual_.sink();
    slow_.sink();
  }
  // What most answers take, but at most `allowance` more than half of them do: the system may interrupt any number.
  double expected(double allowance) const {
    return from_roots_ + usual_.get() + std::clamp(slow_.get() - usual_.get(), 0.0, allowance);
  }

 private:
  double from_roots_ = 0;
  Estimate usual_{1}, slow_{15};
};

}  // namespace scurry
