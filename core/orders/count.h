// The innermost loop of the exact search: the rows wrong in every state of three trees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace scurry {

// Rows stand side by side, those with many rivals first: margins [0, slots[0]) are of their first rivals, [slots[0],
// slots[1]) of the second ones of those that have two, …
struct StateBlock {
  const std::int32_t* moves[3];  // of each tree, [level][margin]; the last tree's negated
  std::size_t n_levels[3];
  const std::int32_t* margin;
  std::span<const std::size_t> slots;
  std::uint32_t wrong;  // rows not listed, wrong in every state
};

// out[state], the last tree's level running fastest.
void count_wrong(const StateBlock& block, std::uint32_t* out);

}  // namespace scurry
