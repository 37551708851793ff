// Finds out whether the processor's counter can be used, and how fast it runs.
#include "runtime/clock.h"

#include <limits>
#include <utility>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace scurry {
namespace {

using Steady = std::chrono::steady_clock;

// Both clocks at the same moment: of several readings, the pair with the shortest delay between its two parts.
std::pair<Steady::time_point, std::uint64_t> read_both() {
  std::pair<Steady::time_point, std::uint64_t> best;
  Steady::duration least_delay = Steady::duration::max();
  for (int attempt = 0; attempt < 16; ++attempt) {
    const Steady::time_point before = Steady::now();
    const std::uint64_t ticks = Stopwatch::now();
    const Steady::duration delay = Steady::now() - before;
    if (delay < least_delay) {
      least_delay = delay;
      best = {before + delay / 2, ticks};
    }
  }
  return best;
}

double measure_ticks_per_us() {
  const auto [start, first] = read_both();
  while (Steady::now() - start < std::chrono::milliseconds(5)) {
  }
  const auto [end, last] = read_both();
  return static_cast<double>(last - first) / std::chrono::duration<double, std::micro>(end - start).count();
}

}  // namespace

bool has_constant_counter() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007u, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;  // "invariant TSC"
#else
  return false;
#endif
}

double ticks_per_us() {
  static const double rate = measure_ticks_per_us();
  return rate;
}

}  // namespace scurry
