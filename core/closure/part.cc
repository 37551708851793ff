// Restricts a closure problem to its open nodes.
#include "closure/part.h"

namespace scurry {

ClosurePart open_part(const ClosureProblem& whole, const std::vector<Fate>& fate) {
  ClosurePart part;
  ClosureProblem& result = part.problem;
  std::vector<std::int32_t> index(whole.n_nodes(), -1);
  for (std::size_t v = 0; v < whole.n_nodes(); ++v) {
    if (fate[v] != Fate::kOpen) continue;
    index[v] = static_cast<std::int32_t>(part.nodes.size());
    part.nodes.push_back(static_cast<std::int32_t>(v));
    result.parent.push_back(whole.parent[v] < 0 ? -1 : index[whole.parent[v]]);
    result.gain.push_back(whole.gain[v]);
    result.cost.push_back(whole.cost[v]);
  }
  for (std::size_t item = 0; item < whole.n_items(); ++item) {
    const std::size_t first = result.item_node.size();
    bool paid = false;
    for (std::int64_t a = whole.item_offset[item]; a < whole.item_offset[item + 1] && !paid; ++a) {
      const std::int32_t buyer = whole.item_node[a];
      paid = fate[buyer] == Fate::kKept;
      if (index[buyer] >= 0) result.item_node.push_back(index[buyer]);
    }
    const std::size_t n_buyers = result.item_node.size() - first;
    if (!paid && n_buyers > 1) {
      result.item_offset.push_back(static_cast<std::int64_t>(result.item_node.size()));
      result.item_cost.push_back(whole.item_cost[item]);
      continue;
    }
    if (!paid && n_buyers == 1) result.cost[result.item_node[first]] += whole.item_cost[item];
    result.item_node.resize(first);
  }
  return part;
}

}  // namespace scurry
