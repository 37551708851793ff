// What is saved if all nodes that read some feature go: the families of nodes that a refinement drops together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace scurry {

struct ItemsView {
  std::span<const std::int64_t> offset;  // item i is bought by node[offset[i]:offset[i + 1]]
  std::span<const std::int32_t> node;
  std::span<const std::int64_t> cost;
};

// The cost of the items whose kept buyers would all go with a family of nodes, by family; an item without a kept buyer
// is not bought and saves nothing. goes_with[node][word] has bit f % 64 of word f / 64 set iff the node goes with f.
std::vector<std::int64_t> family_savings(const ItemsView& items, std::span<const std::uint8_t> kept,
                                         std::span<const std::uint64_t> goes_with, std::size_t n_families);

}  // namespace scurry
