// MadeOnce: a part that is made when it is first asked for, by whichever thread asks.
#pragma once

#include <atomic>
#include <memory>

namespace scurry {

// There is no lock, for which a process that was forked while a thread held it would wait for ever. Threads that ask at
// the same time may each make one; one of these stays, so that all must be equal.
template <class T>
class MadeOnce {
 public:
  MadeOnce() = default;
  MadeOnce(const MadeOnce&) = delete;
  ~MadeOnce() { forget(); }

  template <class Make>
  const T& get(Make make) const {
    if (const T* const made = peek()) return *made;
    auto mine = std::make_unique<const T>(make());
    const T* other = nullptr;
    if (!made_.compare_exchange_strong(other, mine.get(), std::memory_order_acq_rel, std::memory_order_acquire)) return *other;
    return *mine.release();
  }
  // Null if nobody has asked for it yet.
  const T* peek() const { return made_.load(std::memory_order_acquire); }
  // While no other thread can ask for it.
  void forget() { delete made_.exchange(nullptr); }

 private:
  mutable std::atomic<const T*> made_{nullptr};
};

}  // namespace scurry
