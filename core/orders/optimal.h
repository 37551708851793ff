// The best step order of all: a shortest path through the grid of states.
//
// Every step leads to a later state in lexicographic order, so one sweep in that order is enough:
//   best[s] = loss[s] + min over trees k of best[s without its last step in k].
// Sums are kept for one level of the outermost tree only; for every state, the tree of the last step on its best path
// is kept.
#pragma once

#include <functional>

#include "orders/grid.h"

namespace scurry {

struct OptimalOptions {
  bool worst = false;  // maximise the loss instead
  std::size_t n_threads = 1;
  std::function<void(double)> progress;  // called by the calling thread with the share done; may throw to stop
};

std::vector<std::int32_t> optimal_order(const Grid& grid, const OptimalOptions& options);

// Estimates how long optimal_order() takes, in seconds, by computing a sample of the losses.
double optimal_seconds(const Grid& grid, std::size_t n_threads);

}  // namespace scurry
