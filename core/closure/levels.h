// Closures at every price of trees that share no costs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace scurry {

// The price theta up to which each node belongs to the set, closed under parents, of maximum gain - theta * cost. This
// is what weakest-link pruning computes, but for any costs. A parent comes before its children; -1 is none. The price
// is infinite for nodes that are worth keeping at any price, and minus infinity for free nodes that lose gain.
std::vector<double> tree_levels(std::span<const std::int32_t> parent, std::span<const double> gain,
                                std::span<const double> cost);

// The smallest such set of maximum weight; 1 at its nodes.
std::vector<std::uint8_t> best_subtrees(std::span<const std::int32_t> parent, std::span<const double> weight);

}  // namespace scurry
