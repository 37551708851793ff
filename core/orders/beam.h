// Step orders by beam search on the smooth score, and their refinement by exact search in windows.
//
// They minimise the sum over steps of (score at the end - score before the step) * cost of the step. With equal costs,
// that maximises the mean score over states; otherwise, the mean score over time.
#pragma once

#include "orders/score.h"

namespace scurry {

// What a step costs depends on whether the step before it was in the same tree.
struct StepCosts {
  double same_tree = 1, other_tree = 1;

  double of(std::int32_t before, std::int32_t tree) const { return before == tree ? same_tree : other_tree; }
};

// Returns the tree of each step from the roots to the leaves, searched in that direction (`down`) or from the leaves
// up.
std::vector<std::int32_t> beam_order(Scorer& scorer, const StepCosts& costs, std::size_t width, bool down);

// Replaces windows of steps by the best path between the same two states, among up to `max_states` states each time,
// until a sweep over the order improves nothing or `max_sweeps` sweeps are done.
std::vector<std::int32_t> refined_order(Scorer& scorer, const StepCosts& costs, std::vector<std::int32_t> order,
                                        std::size_t max_states, std::size_t max_sweeps);

}  // namespace scurry
