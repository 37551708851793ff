// Maximum-weight closures: which splits to keep when each split has a gain and rows pay for what kept splits read.
#pragma once

#include <cstdint>
#include <vector>

namespace scurry {

// Keeping a node needs its parent and buys the node's items; an item is paid for once, whoever buys it.
struct ClosureProblem {
  std::vector<std::int32_t> parent;  // by node, below the node's own index; -1: none, or one kept in any case
  std::vector<std::int64_t> gain, cost;
  std::vector<std::int64_t> item_offset{0};  // item i is bought by item_node[item_offset[i]:item_offset[i + 1]]
  std::vector<std::int32_t> item_node;
  std::vector<std::int64_t> item_cost;

  std::size_t n_nodes() const { return parent.size(); }
  std::size_t n_items() const { return item_cost.size(); }

  // The weight of keeping everything. Both throw std::overflow_error rather than wrap.
  std::int64_t total_gain() const;
  std::int64_t total_cost() const;
};

// What a unit of gain and a unit of cost weigh: theta = cost / gain.
struct Price {
  std::int64_t gain;
  std::int64_t cost;
};

inline constexpr std::size_t kOneCutBelow = 1 << 15;  // here one cut is faster than parting the problem

// The largest of the sets, closed under parents, of maximum price.gain * gain - price.cost * cost; 1 at its nodes.
// Throws std::overflow_error where a sum of weights could leave 62 bits. Problems of fewer purchases than one_cut_below
// are solved by one cut, larger ones from the tops of their trees down.
std::vector<std::uint8_t> largest_closure(const ClosureProblem& problem, Price price,
                                          std::size_t one_cut_below = kOneCutBelow);

// The same where costs do not count, among the sets of eligible nodes.
std::vector<std::uint8_t> largest_free_closure(const ClosureProblem& problem,
                                               const std::vector<std::uint8_t>& eligible);

}  // namespace scurry
