// Merges nodes into blocks that leave together, from the leaves up.
#include "closure/levels.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace scurry {

namespace {

using Level = std::pair<double, std::int32_t>;  // a block's level, and the block's topmost node

// Connected nodes that leave together, and the blocks below them, which leave earlier.
struct Block {
  double gain;
  double cost;
  std::vector<Level> below;  // a heap, the highest level first

  double level() const {
    if (cost > 0) return gain / cost;
    return gain < 0 ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  }
  void add(const Level& block) {
    below.push_back(block);
    std::push_heap(below.begin(), below.end());
  }
  Level take() {
    std::pop_heap(below.begin(), below.end());
    const Level top = below.back();
    below.pop_back();
    return top;
  }
  void absorb(Block&& other) {
    gain += other.gain;
    cost += other.cost;
    if (other.below.size() > below.size()) below.swap(other.below);
    for (const Level& block : other.below) add(block);
    other.below = {};
  }
};

}  // namespace

std::vector<double> tree_levels(std::span<const std::int32_t> parent, std::span<const double> gain,
                                std::span<const double> cost) {
  const std::size_t n = parent.size();
  std::vector<Block> blocks(n);
  std::vector<std::uint8_t> is_top(n, 1);
  for (std::size_t v = 0; v < n; ++v) blocks[v] = {gain[v], cost[v], {}};
  for (std::size_t v = n; v-- > 0;) {
    Block& block = blocks[v];
    // A child cannot stay longer than its parent. One that would is merged with it.
    while (!block.below.empty() && block.below.front().first >= block.level()) {
      const std::int32_t child = block.take().second;
      is_top[child] = 0;
      block.absorb(std::move(blocks[child]));
    }
    if (parent[v] >= 0) blocks[parent[v]].add({block.level(), static_cast<std::int32_t>(v)});
  }
  std::vector<double> level(n);
  for (std::size_t v = 0; v < n; ++v) level[v] = is_top[v] ? blocks[v].level() : level[parent[v]];
  return level;
}

std::vector<std::uint8_t> best_subtrees(std::span<const std::int32_t> parent, std::span<const double> weight) {
  std::vector<double> best(weight.begin(), weight.end());
  for (std::size_t v = best.size(); v-- > 0;) {
    if (parent[v] >= 0 && best[v] > 0) best[parent[v]] += best[v];
  }
  std::vector<std::uint8_t> kept(best.size());
  for (std::size_t v = 0; v < best.size(); ++v) kept[v] = best[v] > 0 && (parent[v] < 0 || kept[parent[v]]);
  return kept;
}

}  // namespace scurry
