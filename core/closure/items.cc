// Collects the charges of each row by walking up from its leaves.
#include "closure/items.h"

#include <algorithm>
#include <compare>
#include <numeric>

#include "runtime/interrupt.h"

namespace scurry {

namespace {

std::strong_ordering compare(const Items& one, std::size_t i, const Items& other, std::size_t j) {
  if (one.charge[i] != other.charge[j]) return one.charge[i] <=> other.charge[j];
  const std::int32_t *nodes = one.node.data(), *other_nodes = other.node.data();
  return std::lexicographical_compare_three_way(nodes + one.offset[i], nodes + one.offset[i + 1],
                                                other_nodes + other.offset[j], other_nodes + other.offset[j + 1]);
}

// Appends item i of `source`, which must not come before the last of `items`; equal items become one.
void append(Items& items, const Items& source, std::size_t i) {
  if (items.size() > 0 && compare(items, items.size() - 1, source, i) == 0) {
    items.n_rows.back() += source.n_rows[i];
    return;
  }
  items.node.insert(items.node.end(), source.node.begin() + source.offset[i],
                    source.node.begin() + source.offset[i + 1]);
  items.offset.push_back(static_cast<std::int64_t>(items.node.size()));
  items.charge.push_back(source.charge[i]);
  items.n_rows.push_back(source.n_rows[i]);
}

Items sort_and_merge(const Items& items) {
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) {
    poll_interrupt_now_and_then();
    return compare(items, i, items, j) < 0;
  });
  Items result;
  for (const std::size_t i : order) append(result, items, i);
  return result;
}

// The nodes that cause each charge of one row. It is reused for the next row, to avoid allocations.
class RowCauses {
 public:
  RowCauses(const ForestPaths& paths, const Charges& charges)
      : paths_(paths), charges_(charges), causes_(charges.n_charges), first_(charges.n_charges, -1) {}

  // The walk goes up, so the node met last is the one nearest to the root, which reads the feature first.
  void meet(std::int32_t node) {
    meet_charge(charges_.of_feature[paths_.feature[node]], node);
    meet_charge(charges_.of_group[paths_.feature[node]], node);
  }

  void end_tree() {
    for (const std::int32_t charge : in_tree_) {
      if (causes_[charge].empty()) in_row_.push_back(charge);
      causes_[charge].push_back(first_[charge]);
      first_[charge] = -1;
    }
    in_tree_.clear();
  }

  void end_row(Items& items, std::vector<std::int64_t>& alone) {
    for (const std::int32_t charge : in_row_) {
      std::vector<std::int32_t>& nodes = causes_[charge];
      if (nodes.size() == 1) {
        ++alone[2 * nodes[0] + (charge != charges_.of_feature[paths_.feature[nodes[0]]])];
      } else {
        items.node.insert(items.node.end(), nodes.begin(), nodes.end());
        items.offset.push_back(static_cast<std::int64_t>(items.node.size()));
        items.charge.push_back(charge);
        items.n_rows.push_back(1);
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

  const ForestPaths& paths_;
  const Charges& charges_;
  std::vector<std::vector<std::int32_t>> causes_;  // by charge, of this row
  std::vector<std::int32_t> first_;                // by charge, in this tree
  std::vector<std::int32_t> in_tree_, in_row_;     // charges met
};

}  // namespace

RowCharges find_charges(const ForestPaths& paths, const Charges& charges) {
  Items items;
  RowCharges found;
  found.alone.resize(2 * paths.parent.size());
  found.visits.resize(paths.parent.size());
  RowCauses row(paths, charges);
  const std::size_t n_rows = paths.leaves.size() / paths.n_trees;
  for (std::size_t i = 0; i < n_rows; ++i) {
    for (std::size_t t = 0; t < paths.n_trees; ++t) {
      std::int32_t node = paths.parent[paths.leaves[i * paths.n_trees + t]];
      for (; node >= 0; node = paths.parent[node]) {
        ++found.visits[node];
        row.meet(node);
      }
      row.end_tree();
    }
    row.end_row(items, found.alone);
    poll_interrupt_now_and_then();
  }
  found.items = sort_and_merge(items);
  return found;
}

Items merge(const Items& one, const Items& other) {
  Items result;
  std::size_t i = 0, j = 0;
  while (i < one.size() || j < other.size()) {
    poll_interrupt_now_and_then();
    const bool from_one = j == other.size() || (i < one.size() && compare(one, i, other, j) < 0);
    if (from_one) {
      append(result, one, i++);
    } else
      append(result, other, j++);
  }
  return result;
}

std::vector<std::int32_t> count_uses(const ForestPaths& paths, std::size_t n_features) {
  const std::size_t n_rows = paths.leaves.size() / paths.n_trees;
  std::vector<std::int32_t> uses(n_rows * n_features);
  for (std::size_t at = 0; at < paths.leaves.size(); ++at) {
    poll_interrupt_now_and_then();
    std::int32_t* row = uses.data() + at / paths.n_trees * n_features;
    for (std::int32_t node = paths.parent[paths.leaves[at]]; node >= 0; node = paths.parent[node]) {
      ++row[paths.feature[node]];
    }
  }
  return uses;
}

}  // namespace scurry
