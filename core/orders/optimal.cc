// The sweep over all states of a grid, shared by several threads.
#include "orders/optimal.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>

namespace scurry {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The states, cut into units of work: a slice is the states that share the levels of the outer trees.
struct Slices {
  static constexpr std::size_t kMaxStates = 1 << 18;

  explicit Slices(const Grid& grid) : grid_(grid) {
    while (n_outer + Grid::kBlockTrees < grid.n_trees() && grid.stride(n_outer - 1) > kMaxStates) ++n_outer;
    n_states = grid.stride(n_outer - 1);
    count = grid.n_states() / n_states;
  }

  std::vector<std::size_t> levels(std::size_t slice) const {
    std::vector<std::size_t> result;
    for (std::size_t k = 0; k < n_outer; ++k) result.push_back(slice * n_states / grid_.stride(k) % grid_.n_levels(k));
    return result;
  }

  std::size_t n_outer = 1, n_states, count;

 private:
  const Grid& grid_;
};

template <class Loss>
class Sweep {
 public:
  Sweep(const Grid& grid, const OptimalOptions& options)
      : grid_(grid),
        options_(options),
        slices_(grid),
        best_(new Loss[grid.stride(0)]),
        last_(new std::uint8_t[grid.n_states()]) {}

  std::vector<std::int32_t> run() {
    std::vector<std::thread> helpers;
    helpers.reserve(std::min(options_.n_threads, slices_.count));
    try {
      for (std::size_t i = 1; i < std::min(options_.n_threads, slices_.count); ++i) {
        helpers.emplace_back([this] { work(false); });
      }
    } catch (const std::exception&) {
      // The system has no more threads. Those that were started do all the work.
    }
    work(true);
    for (std::thread& helper : helpers) helper.join();
    if (failure_) std::rethrow_exception(failure_);
    return trace();
  }

 private:
  // All threads compute losses at the same time; the sweeps over slices wait for their turn.
  void work(bool caller) {
    try {
      std::vector<Loss> losses(slices_.n_states);
      auto last_report = Clock::now();
      for (std::size_t slice; (slice = next_.fetch_add(1)) < slices_.count;) {
        grid_.losses<Loss>(slices_.levels(slice), losses.data());
        {
          std::unique_lock lock(mutex_);
          turn_.wait(lock, [&] { return swept_ == slice || failure_; });
          if (failure_) return;
        }
        sweep(slice, losses);
        {
          std::lock_guard lock(mutex_);
          ++swept_;
        }
        turn_.notify_all();
        if (caller && options_.progress && seconds_since(last_report) > 0.1) {
          options_.progress(static_cast<double>(slice + 1) / static_cast<double>(slices_.count));
          last_report = Clock::now();
        }
      }
    } catch (...) {
      {
        std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
      }
      turn_.notify_all();
    }
  }

  void sweep(std::size_t slice, const std::vector<Loss>& losses) {
    const std::size_t n_trees = grid_.n_trees(), length = grid_.n_levels(n_trees - 1);
    std::vector<std::size_t> levels = slices_.levels(slice);
    levels.resize(n_trees, 0);
    const std::size_t first = slice * slices_.n_states;
    std::vector<Loss> least(length);
    std::vector<std::uint8_t> tree(length);
    for (std::size_t at = 0; at < slices_.n_states; at += length) {
      Loss* best = &best_[(first + at) % grid_.stride(0)];
      std::fill(least.begin(), least.end(), std::numeric_limits<Loss>::max());
      for (std::size_t k = 0; k + 1 < n_trees; ++k) {
        if (levels[k] == 0) continue;
        const Loss* before = k == 0 ? best : best - grid_.stride(k);  // the step of the outermost tree is made in place
        for (std::size_t i = 0; i < length; ++i) {
          const bool better = before[i] < least[i];
          least[i] = better ? before[i] : least[i];
          tree[i] = better ? static_cast<std::uint8_t>(k) : tree[i];
        }
      }
      for (std::size_t i = 0; i < length; ++i) {
        if (i > 0 && best[i - 1] < least[i]) {
          least[i] = best[i - 1];
          tree[i] = static_cast<std::uint8_t>(n_trees - 1);
        }
        best[i] = loss(losses[at + i]) + (first + at + i == 0 ? Loss{0} : least[i]);
      }
      std::copy(tree.begin(), tree.end(), &last_[first + at]);
      for (std::size_t k = n_trees - 2; ++levels[k] == grid_.n_levels(k) && k > slices_.n_outer; --k) levels[k] = 0;
    }
  }

  Loss loss(Loss value) const {
    if (!options_.worst) return value;
    if constexpr (std::is_same_v<Loss, double>) return -value;
    return static_cast<Loss>(grid_.descent().n_rows()) - value;
  }

  std::vector<std::int32_t> trace() const {
    std::vector<std::int32_t> order;
    for (std::size_t state = grid_.n_states() - 1; state > 0; state -= grid_.stride(last_[state])) {
      order.push_back(grid_.tree(last_[state]));
    }
    std::reverse(order.begin(), order.end());
    return order;
  }

  const Grid& grid_;
  const OptimalOptions& options_;
  Slices slices_;
  std::unique_ptr<Loss[]> best_;          // [state of the inner trees]
  std::unique_ptr<std::uint8_t[]> last_;  // [state]
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::condition_variable turn_;
  std::size_t swept_ = 0;
  std::exception_ptr failure_;
};

template <class Loss>
double sample_seconds(const Grid& grid, std::size_t n_threads) {
  constexpr double kSweepSeconds = 4e-9;  // per state, for the sweep, which more threads do not make faster
  const Slices slices(grid);
  std::vector<Loss> losses(slices.n_states);
  const auto start = Clock::now();
  std::size_t sampled = 0;
  // Multiples of the golden ratio spread any number of samples evenly.
  for (double at = 0.5; sampled == 0 || (seconds_since(start) < 0.2 && sampled < slices.count); ++sampled) {
    grid.losses<Loss>(slices.levels(static_cast<std::size_t>(at * static_cast<double>(slices.count))), losses.data());
    at += 0.6180339887498949;
    if (at >= 1) at -= 1;
  }
  const double per_slice = seconds_since(start) / static_cast<double>(sampled);
  return per_slice * static_cast<double>(slices.count) / static_cast<double>(n_threads) +
         kSweepSeconds * static_cast<double>(grid.n_states());
}

}  // namespace

std::vector<std::int32_t> optimal_order(const Grid& grid, const OptimalOptions& options) {
  return grid.descent().regression() ? Sweep<double>(grid, options).run() : Sweep<std::uint32_t>(grid, options).run();
}

double optimal_seconds(const Grid& grid, std::size_t n_threads) {
  return grid.descent().regression() ? sample_seconds<double>(grid, n_threads)
                                     : sample_seconds<std::uint32_t>(grid, n_threads);
}

}  // namespace scurry
