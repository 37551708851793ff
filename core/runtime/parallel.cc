// Keeps threads that help with the work of others.
#include "runtime/parallel.h"

#ifndef _WIN32
#include <unistd.h>
#endif

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/interrupt.h"

namespace scurry {
namespace {

long process_id() {
#ifdef _WIN32
  return 0;  // a process has no copies there
#else
  return getpid();
#endif
}

// One call of parallel_for. It lives on the stack of its caller, who waits until no helper is left in it.
class Job {
 public:
  Job(std::size_t n_tasks, const std::function<void(std::size_t)>& task) : n_tasks_(n_tasks), task_(task) {}

  void run() {
    try {
      for (std::size_t i = next_++; i < n_tasks_; i = next_++) {
        poll_interrupt();
        task_(i);
      }
    } catch (...) {
      const std::lock_guard guard(failure_lock_);
      if (!failed_) failure_ = std::current_exception();  // what follows is only that the others give up
      failed_ = true;
      next_ = n_tasks_;
    }
  }

  void help() {
    given_up = &failed_;
    run();
    given_up = nullptr;
  }

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

  // Guarded by the pool.
  std::size_t n_wanted = 0, n_helping = 0;

 private:
  const std::size_t n_tasks_;
  const std::function<void(std::size_t)>& task_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;
  std::mutex failure_lock_;
};

class Pool {
 public:
  // The pool of this process. It is never destroyed: its threads may still wait for work when the process ends.
  static Pool& get() {
    static std::atomic<Pool*> current{nullptr};
    Pool* pool = current.load();
    while (pool == nullptr || pool->process_ != process_id()) {
      // After fork() the threads are not there, and a lock may be held by one of them for ever.
      Pool* made = new Pool;
      if (current.compare_exchange_strong(pool, made)) return *made;
      delete made;
    }
    return *pool;
  }

  void run(Job& job, std::size_t n_helpers) {
    {
      const std::lock_guard guard(lock_);
      job.n_wanted = n_helpers;
      jobs_.push_back(&job);
      start_threads();
    }
    for (std::size_t i = 0; i < n_helpers; ++i) has_work_.notify_one();
    job.run();
    std::unique_lock guard(lock_);
    std::erase(jobs_, &job);
    is_left_.wait(guard, [&] { return job.n_helping == 0; });
  }

 private:
  // Starts as many threads as jobs want, unless they are too many or the system has no more.
  void start_threads() {
    std::size_t n_wanted = 0;
    for (const Job* job : jobs_) n_wanted += job->n_wanted;
    for (; n_idle_ + n_starting_ < n_wanted && n_threads_ < most_; ++n_threads_, ++n_starting_) {
      try {
        std::thread([this] { serve(); }).detach();
      } catch (const std::exception&) {
        return;
      }
    }
  }

  void serve() {
    std::unique_lock guard(lock_);
    --n_starting_;
    while (true) {
      const auto found = std::ranges::find_if(jobs_, [](const Job* job) { return job->n_wanted > 0; });
      if (found == jobs_.end()) {
        ++n_idle_;
        has_work_.wait(guard);
        --n_idle_;
        continue;
      }
      Job& job = **found;
      --job.n_wanted;
      ++job.n_helping;
      guard.unlock();
      job.help();
      guard.lock();
      if (--job.n_helping == 0) is_left_.notify_all();
    }
  }

  const long process_ = process_id();
  const std::size_t most_ = std::max(std::thread::hardware_concurrency(), 2u) - 1;
  std::mutex lock_;
  std::condition_variable has_work_, is_left_;
  std::vector<Job*> jobs_;
  std::size_t n_threads_ = 0, n_idle_ = 0, n_starting_ = 0;
};

}  // namespace

void parallel_for(std::size_t n_tasks, std::size_t n_threads, const std::function<void(std::size_t)>& task) {
  Job job(n_tasks, task);
  const std::size_t n_helpers = std::min(n_threads, n_tasks);
  if (n_helpers <= 1) {
    job.run();
  } else {
    Pool::get().run(job, n_helpers - 1);
  }
  job.rethrow();
}

}  // namespace scurry
