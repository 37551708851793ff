// Maximum closures at every price: as costs weigh more, the largest optimal set shrinks at some breakpoints.
#pragma once

#include <functional>

#include "closure/closure.h"

namespace scurry {

// What is given up when theta = gain / cost is passed.
struct Breakpoint {
  std::int64_t gain;
  std::int64_t cost;
};

struct ClosurePath {
  std::vector<Breakpoint> breakpoints;   // theta > 0, rising
  std::vector<std::int32_t> kept_until;  // by node: it is in the optimal set after s breakpoints iff s < kept_until
};

// Called after every cut with the number of nodes settled; may throw to stop the search.
using Progress = std::function<void(std::size_t)>;

ClosurePath closure_path(const ClosureProblem& problem, const Progress& progress);

}  // namespace scurry
