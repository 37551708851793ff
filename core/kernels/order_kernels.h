// Hot loops of searches for an order of steps (core/orders); kernels.h says how they are compiled and chosen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace scurry {

// The next tree step of every tree, for rows of several classes (orders/rivals.h).
struct RivalSteps {
  const std::uint32_t* own;  // [row] the class of the row
  const std::uint32_t* change_of_leaf;
  const std::int32_t* changes;  // [change][width] what the step adds to twice the sum of each class, 64-byte aligned
  std::size_t width;            // 8 or a multiple of 16
};

// Rows that take() works on at once. Its arrays of rows have space for as many more.
constexpr std::size_t kRivalsTogether = 8;

struct RivalBounds {
  const std::int32_t* safe;  // [row] if all margins are at least this, no single step makes the row wrong;
  const std::int32_t* lost;  // if one margin is below this, no single step makes it right
};

struct Extremes {
  std::int32_t least, most;
};

struct LeafRange {
  std::uint32_t first, count;
};

// The changes [begin, end) of one tree.
struct TreeChanges {
  const LeafRange* reach;  // [change] the leaves whose rows it changes
  std::size_t begin, end;
  std::uint32_t first_leaf;  // of the tree
};

struct RivalKernels {
  // extremes[i] of changes[i][0..width), for n changes.
  void (*find_extremes)(const std::int32_t* changes, std::size_t width, std::size_t n, Extremes* extremes);
  // The bounds of a row of each class, [leaf of the tree][0..width), made wide enough for each of these changes.
  void (*bound_leaves)(const TreeChanges&, const std::int32_t* changes, const Extremes*, std::size_t width,
                       std::int32_t* safe, std::int32_t* lost);
  // Takes a tree step of n rows, given their leaves in that tree: margins[row][0..width) += change[own] -
  // change[0..width). Writes the rows that are neither safe nor lost to `open` and returns their number; n_lost is the
  // number of lost rows.
  std::size_t (*take)(const RivalSteps&, const std::uint32_t* leaf, const RivalBounds&, std::size_t n,
                      std::int32_t* margins, std::uint32_t* open, std::size_t* n_lost);
  // wrong[tree] += the number of the n open rows that the step of this tree would leave with a negative margin; leaves
  // are [tree][row].
  void (*count)(const RivalSteps&, const std::uint32_t* const* leaves, std::size_t n_trees, const std::uint32_t* open,
                std::size_t n, const std::int32_t* margins, std::size_t* wrong);
};

// The states of three trees, and the rows that are still open there (orders/grid.h). Rows stand next to each other,
// those with many rivals first: margins [0, slots[0]) are of their first rivals, [slots[0], slots[1]) of the second
// ones of those that have two, …
struct StateBlock {
  const std::int32_t* moves[3];  // of each tree, [level][margin]; the last tree's negated
  std::size_t n_levels[3];
  const std::int32_t* margin;
  std::span<const std::size_t> slots;
  std::uint32_t wrong;  // rows not listed, wrong in every state
};

constexpr std::size_t kScoreRows = 256;          // in a tile of scores
constexpr std::int32_t kScoreOfRight = 1 << 15;  // scores are summed in fixed point: sums do not depend on their order

struct StateKernels {
  // sum[i] = a[i] + b[i]
  void (*add)(const std::int32_t* a, const std::int32_t* b, std::size_t n, std::int32_t* sum);
  // The summed score of n rows, given their margins and what is added to them, both [margin][kScoreRows].
  std::int32_t (*score)(const std::int32_t* margins, const std::int32_t* changes, std::size_t n, std::size_t n_margins,
                        float steepness);
  // out[state] rows are wrong, the last tree's level running fastest. sum and least have space for all margins and all
  // rows.
  void (*count_wrong)(const StateBlock&, std::int32_t* sum, std::int32_t* least, std::uint32_t* out);
};

}  // namespace scurry
