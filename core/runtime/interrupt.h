// Lets a caller stop long work, by an exception that the function it has set throws. Python's Ctrl-C comes this way.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>

namespace scurry {

// What the thread that started the work asks between pieces of it; null where nobody waits.
inline thread_local void (*interrupt_check)() = nullptr;
// For a thread that helps: whether the work has failed or was interrupted in another one.
inline thread_local const std::atomic<bool>* given_up = nullptr;

struct GivenUp : std::exception {};

// For loops whose rounds take microseconds or more.
inline void poll_interrupt() {
  if (interrupt_check != nullptr) interrupt_check();
  if (given_up != nullptr && given_up->load(std::memory_order_relaxed)) throw GivenUp();
}

// For loops whose rounds are shorter.
inline void poll_interrupt_now_and_then() {
  thread_local std::uint32_t n_calls = 0;
  if (++n_calls % 256 == 0) poll_interrupt();
}

}  // namespace scurry
