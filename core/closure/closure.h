// Maximum-weight closures: which splits to keep if each split has a gain and rows pay for what kept splits read.
//
// The parts of closure/: items.h finds what rows pay for (ClosureProblem is made of it in Python), cut.h solves a
// problem at one price by a minimum cut, part.h restricts a problem to its undecided nodes, path.h solves it at every
// price, levels.h does so for trees that share no costs, and families.h tells what is saved if all nodes that read some
// feature go.
#pragma once

#include <cstdint>
#include <vector>

namespace scurry {

// To keep a node one must keep its parent and buy the items of the node. An item is paid for once, no matter how many
// nodes buy it.
struct ClosureProblem {
  std::vector<std::int32_t>
      parent;  // by node, less than the index of the node; -1: none, or one that is kept in any case
  std::vector<std::int64_t> gain, cost;
  std::vector<std::int64_t> item_offset{0};  // item i is bought by item_node[item_offset[i]:item_offset[i + 1]]
  std::vector<std::int32_t> item_node;
  std::vector<std::int64_t> item_cost;

  std::size_t n_nodes() const { return parent.size(); }
  std::size_t n_items() const { return item_cost.size(); }

  // The gain and cost of keeping everything. Both throw std::overflow_error instead of wrapping round.
  std::int64_t total_gain() const;
  std::int64_t total_cost() const;
};

// What a unit of gain and a unit of cost weigh: theta = cost / gain.
struct Price {
  std::int64_t gain;
  std::int64_t cost;
};

inline constexpr std::size_t kOneCutBelow =
    1 << 15;  // for fewer purchases, one cut is faster than a division of the problem

// Among the sets that are closed under parents and have the maximum price.gain * gain - price.cost * cost, returns the
// largest one: 1 at its nodes. Throws std::overflow_error if a sum of weights could need more than 62 bits. Problems of
// fewer purchases than one_cut_below are solved by one cut, larger ones from the tops of their trees down.
std::vector<std::uint8_t> largest_closure(const ClosureProblem& problem, Price price,
                                          std::size_t one_cut_below = kOneCutBelow);

// The same if costs do not count, among the sets of eligible nodes.
std::vector<std::uint8_t> largest_free_closure(const ClosureProblem& problem,
                                               const std::vector<std::uint8_t>& eligible);

}  // namespace scurry
