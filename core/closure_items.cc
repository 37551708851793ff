#include "closure_items.h"

namespace scurry {

namespace {

// The nodes that cause each charge of one row; used again for the next row.
class RowCharges {
 public:
  explicit RowCharges(const Charges& charges)
      : charges_(charges), causes_(charges.cost.size()), first_(charges.cost.size(), -1) {}

  // Walking up, so the node met last is the one nearest to the root: the first to read the feature.
  void meet(std::int32_t feature, std::int32_t node) {
    meet_charge(charges_.of_feature[feature], node);
    meet_charge(charges_.of_group[feature], node);
  }

  void end_tree() {
    for (const std::int32_t charge : in_tree_) {
      if (causes_[charge].empty()) in_row_.push_back(charge);
      causes_[charge].push_back(first_[charge]);
      first_[charge] = -1;
    }
    in_tree_.clear();
  }

  void end_row(Items& items) {
    for (const std::int32_t charge : in_row_) {
      std::vector<std::int32_t>& nodes = causes_[charge];
      if (nodes.size() == 1) {
        items.node_cost[nodes[0]] += charges_.cost[charge];
      } else {
        items.node.insert(items.node.end(), nodes.begin(), nodes.end());
        items.offset.push_back(static_cast<std::int64_t>(items.node.size()));
        items.cost.push_back(charges_.cost[charge]);
      }
      nodes.clear();
    }
    in_row_.clear();
  }

 private:
  void meet_charge(std::int32_t charge, std::int32_t node) {
    if (charge < 0) return;
    if (first_[charge] < 0) in_tree_.push_back(charge);
    first_[charge] = node;
  }

  const Charges& charges_;
  std::vector<std::vector<std::int32_t>> causes_;  // by charge, of this row
  std::vector<std::int32_t> first_;                // by charge, in this tree
  std::vector<std::int32_t> in_tree_, in_row_;     // charges met
};

}  // namespace

Items find_items(const ForestPaths& paths, const Charges& charges) {
  Items items;
  items.node_cost.resize(paths.parent.size());
  items.visits.resize(paths.parent.size());
  RowCharges row(charges);
  const std::size_t n_rows = paths.leaves.size() / paths.n_trees;
  for (std::size_t i = 0; i < n_rows; ++i) {
    for (std::size_t t = 0; t < paths.n_trees; ++t) {
      std::int32_t node = paths.parent[paths.leaves[i * paths.n_trees + t]];
      for (; node >= 0; node = paths.parent[node]) {
        ++items.visits[node];
        row.meet(paths.feature[node], node);
      }
      row.end_tree();
    }
    row.end_row(items);
  }
  return items;
}

std::vector<std::int32_t> count_uses(const ForestPaths& paths, std::size_t n_features) {
  const std::size_t n_rows = paths.leaves.size() / paths.n_trees;
  std::vector<std::int32_t> uses(n_rows * n_features);
  for (std::size_t at = 0; at < paths.leaves.size(); ++at) {
    std::int32_t* row = uses.data() + at / paths.n_trees * n_features;
    for (std::int32_t node = paths.parent[paths.leaves[at]]; node >= 0; node = paths.parent[node]) {
      ++row[paths.feature[node]];
    }
  }
  return uses;
}

}  // namespace scurry
