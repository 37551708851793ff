// A clock that is cheap enough to be read every few steps: the processor's counter if its rate is constant, else the
// system's clock.
#pragma once

#include <chrono>
#include <cstdint>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace scurry {

bool has_constant_counter();
// Measured at the first call, which takes a few milliseconds.
double ticks_per_us();

// Ticks since it was made. A fake stopwatch, for tests, does not measure: each reading is `fake_ticks` after the last.
class Stopwatch {
 public:
  explicit Stopwatch(std::uint64_t fake_ticks = 0) : fake_ticks_(fake_ticks), start_(fake_ticks > 0 ? 0 : now()) {}

  std::uint64_t elapsed() { return last_ = fake_ticks_ > 0 ? last_ + fake_ticks_ : now() - start_; }
  std::uint64_t last() const { return last_; }  // the latest reading, 0 before the first

  static std::uint64_t now() {
#if defined(__x86_64__)
    static const bool constant = has_constant_counter();
    if (constant) return __rdtsc();
#elif defined(__aarch64__)
    std::uint64_t count;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
    return count;
#endif
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                      std::chrono::nanoseconds(1));
  }

 private:
  std::uint64_t fake_ticks_, start_, last_ = 0;
};

}  // namespace scurry
