// Solves a closure problem by one minimum cut.
#pragma once

#include "closure/closure.h"

namespace scurry {

// What largest_closure returns, from a problem whose weights are known to fit.
std::vector<std::uint8_t> cut_closure(const ClosureProblem& problem, Price price);

}  // namespace scurry
