// Closures of trees that share nothing, at every price.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace scurry {

// The price theta up to which each node is kept where a set, closed under parents, of maximum gain - theta * cost is
// kept: what weakest-link pruning computes, for any costs. A parent comes before its children; -1 is none. Infinite for
// nodes worth keeping at any price, minus infinity for those that only take away from what is free.
std::vector<double> tree_levels(std::span<const std::int32_t> parent, std::span<const double> gain,
                                std::span<const double> cost);

// The smallest such set of maximum weight; 1 at its nodes.
std::vector<std::uint8_t> best_subtrees(std::span<const std::int32_t> parent, std::span<const double> weight);

}  // namespace scurry
