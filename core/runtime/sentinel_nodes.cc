// Which trees a sentinel exit walks: those of the engine, or its own.
#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "runtime/sentinel_exit.h"

namespace scurry {

// The number of a leaf follows from its value if leaves with the same value are alike: of one segment, with the same
// lanes. Boosted trees are so, mostly.
Walker SentinelExit::lower(const ForestView& forest, Leaves leaves, std::span<const std::int32_t> order,
                           std::span<const std::int32_t> lanes, const SharedTrees& shared) {
  if (shared.engine == nullptr) return Walker(forest, std::move(leaves));
  if (shared.value_of_node.size() != forest.n_nodes()) throw std::invalid_argument("every node needs a value's number");
  struct First {
    const std::int32_t* lanes = nullptr;
    std::uint32_t segment = 0;
  };
  std::vector<First> first_of_value(shared.engine->n_values());
  std::vector<std::uint32_t> payload_of_value(first_of_value.size());
  const std::size_t n_lanes = lanes.size() / forest.n_nodes();
  for (std::size_t place = 0; place < order.size(); ++place) {
    const auto tree = static_cast<std::size_t>(order[place]);
    for (auto i = forest.tree_offset[tree]; i < forest.tree_offset[tree + 1]; ++i) {
      const auto node = static_cast<std::size_t>(i);
      if (forest.left[node] >= 0) continue;
      const auto value = static_cast<std::size_t>(shared.value_of_node[node]);
      const std::int32_t* of_node = lanes.data() + node * n_lanes;
      First& first = first_of_value.at(value);
      if (first.lanes == nullptr) {
        first = {of_node, segment_of_tree_[place]};
        payload_of_value[value] = leaves.payload_of_node[node];
      } else if (first.segment != segment_of_tree_[place] || !std::equal(of_node, of_node + n_lanes, first.lanes)) {
        return Walker(forest, std::move(leaves));
      }
    }
  }
  return shared.engine->share(payload_of_value);
}

}  // namespace scurry
