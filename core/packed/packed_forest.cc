// Reads packed trees.
#include "packed/packed_forest.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace scurry {
namespace {

constexpr std::int64_t kMaxNodes = 0x7FFFFFFE;

[[noreturn]] void refuse(std::size_t tree, const char* why) {
  throw std::invalid_argument("tree " + std::to_string(tree) + " " + why);
}

}  // namespace

PackedForest::PackedForest(const PackedArrays& arrays)
    : has_leaf_ids_(arrays.has_leaf_ids),
      n_splits_(static_cast<std::uint32_t>(arrays.n_splits)),
      n_leaves_(static_cast<std::uint32_t>(arrays.n_leaves)),
      order_(arrays.order) {
  if (arrays.tree_nodes.empty()) throw std::invalid_argument("a forest needs at least one tree");
  std::int64_t n_nodes = 0;
  std::uint32_t largest = 0;
  for (std::size_t t = 0; t < arrays.tree_nodes.size(); ++t) {
    if (arrays.tree_nodes[t] % 2 == 0) refuse(t, "has an even number of nodes");
    largest = std::max(largest, arrays.tree_nodes[t]);
    n_nodes += arrays.tree_nodes[t];
    if (n_nodes > kMaxNodes) throw std::invalid_argument("a forest has at most 2147483646 nodes");
  }
  const auto n_trees = arrays.tree_nodes.size();
  const std::size_t n = static_cast<std::size_t>(n_nodes), n_inner = (n - n_trees) / 2, n_ends = n_inner + n_trees;
  if (arrays.n_splits > n_inner || arrays.n_leaves > n_ends) {
    throw std::invalid_argument("tables have more splits or leaves than nodes");
  }
  if (!has_leaf_ids_ && arrays.n_leaves != n_ends) throw std::invalid_argument("leaf_table has not one row per leaf");
  // These check the bytes of the file against the number of nodes, before anything is allocated for them.
  topology_ = Bits("topology", arrays.topology, n, 1);
  split_id_ = Bits("split_id", arrays.split_id, n_inner, bits_for(arrays.n_splits));
  if (has_leaf_ids_) leaf_id_ = Bits("leaf_id", arrays.leaf_id, n_ends, bits_for(arrays.n_leaves));
  if (order_ == NodeOrder::kListed) node_number_ = Bits("node_number", arrays.node_number, n, bits_for(largest));
  tree_offset_.reserve(n_trees + 1);
  tree_offset_.push_back(0);
  for (const std::uint32_t size : arrays.tree_nodes) tree_offset_.push_back(tree_offset_.back() + size);
}

void PackedForest::check() {
  std::vector<std::int32_t> depth;
  depth.reserve(n_trees());
  TreeNodes nodes;
  std::vector<std::uint32_t> numbers;
  for (std::size_t t = 0; t < n_trees(); ++t) {
    depth.push_back(walk(t, [](std::size_t, std::uint32_t, std::uint32_t) {}));
    if (order_ != NodeOrder::kListed) continue;
    read(t, nodes);
    number(t, nodes, numbers);
  }
  tree_depth_ = std::move(depth);
}

template <class Visit>
std::int32_t PackedForest::walk(std::size_t tree, Visit visit) const {
  return has_leaf_ids_ ? walk_tree<true>(tree, visit) : walk_tree<false>(tree, visit);
}

template <bool kLeafIds, class Visit>
std::int32_t PackedForest::walk_tree(std::size_t tree, Visit visit) const {
  const auto first = static_cast<std::size_t>(tree_offset_[tree]);
  const auto n = static_cast<std::uint32_t>(tree_offset_[tree + 1] - tree_offset_[tree]);
  // Read by whether a node is a split, and not by branches, which would be mispredicted at every other node.
  std::size_t place[2] = {(first - tree) / 2 + tree, (first - tree) / 2};
  const Bits* const ids[2] = {&leaf_id_, &split_id_};
  const std::uint32_t n_rows[2] = {n_leaves_, n_splits_}, first_entry[2] = {0, n_leaves_};
  std::uint32_t known = 1, level_end = 1;  // nodes whose parent has been met; the root has none
  std::int32_t depth = 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    if (i == level_end) {
      ++depth;
      level_end = known;
    }
    const std::uint32_t is_split = topology_[first + i];
    std::uint32_t id;
    if constexpr (kLeafIds) {
      id = (*ids[is_split])[place[is_split]];
    } else {
      // Read at leaves too, where it may be beyond the last one and then is 0.
      const std::uint32_t of_split = split_id_[place[1]], of_leaf = static_cast<std::uint32_t>(place[0]);
      id = of_leaf ^ ((of_split ^ of_leaf) & (0u - is_split));
    }
    ++place[is_split];
    if (i >= known || id >= n_rows[is_split]) refuse(tree, "has too few splits, or one that is not in its table");
    visit(i, first_entry[is_split] + id, known & (0u - is_split));
    known += 2 * is_split;
    if (known > n) refuse(tree, "has too many splits");
  }
  if (known != n) refuse(tree, "has too few splits");
  return depth;
}

void PackedForest::read(std::size_t tree, TreeNodes& out) const {
  out.resize(static_cast<std::size_t>(tree_offset_[tree + 1] - tree_offset_[tree]));
  walk(tree, [&](std::size_t i, std::uint32_t entry, std::uint32_t left) {
    out.entry[i] = entry;
    out.left[i] = left;
    out.right[i] = left + (left != 0);
  });
}

// Finds the number of each node in the forest's own order.
void PackedForest::number(std::size_t tree, const TreeNodes& nodes, std::vector<std::uint32_t>& number) const {
  const std::size_t n = nodes.size();
  number.assign(n, 0);
  switch (order_) {
    case NodeOrder::kLevel:
      for (std::size_t i = 0; i < n; ++i) number[i] = static_cast<std::uint32_t>(i);
      return;
    case NodeOrder::kPreorder: {
      std::vector<std::uint32_t> size(n, 1);
      for (std::size_t i = n; i-- > 0;) {
        if (nodes.left[i] != 0) size[i] += size[nodes.left[i]] + size[nodes.right[i]];
      }
      for (std::size_t i = 0; i < n; ++i) {
        if (nodes.left[i] == 0) continue;
        number[nodes.left[i]] = number[i] + 1;
        number[nodes.right[i]] = number[i] + 1 + size[nodes.left[i]];
      }
      return;
    }
    case NodeOrder::kListed: break;
  }
  std::vector<bool> taken(n);
  const auto first = static_cast<std::size_t>(tree_offset_[tree]);
  for (std::size_t i = 0; i < n; ++i) {
    number[i] = node_number_[first + i];
    if (number[i] >= n || taken[number[i]]) refuse(tree, "has two nodes of the same number, or one beyond its end");
    taken[number[i]] = true;
  }
  if (number[0] != 0) refuse(tree, "does not begin with its root");
  for (std::size_t i = 0; i < n; ++i) {
    if (nodes.left[i] != 0 && std::min(number[nodes.left[i]], number[nodes.right[i]]) <= number[i]) {
      refuse(tree, "has a child before its parent");
    }
  }
}

void PackedForest::expand(const Expanded& out) const {
  TreeNodes nodes;
  std::vector<std::uint32_t> numbers;
  std::vector<std::int32_t> depth;
  for (std::size_t t = 0; t < n_trees(); ++t) {
    const auto first = static_cast<std::uint32_t>(tree_offset_[t]);
    read(t, nodes);
    number(t, nodes, numbers);
    depth.assign(nodes.size(), 0);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::uint32_t node = first + numbers[i];
      const bool is_leaf = nodes.left[i] == 0;
      if (!is_leaf) depth[nodes.left[i]] = depth[nodes.right[i]] = depth[i] + 1;
      out.left[node] = is_leaf ? -1 : static_cast<std::int32_t>(first + numbers[nodes.left[i]]);
      out.right[node] = is_leaf ? -1 : static_cast<std::int32_t>(first + numbers[nodes.right[i]]);
      out.entry[node] = static_cast<std::int32_t>(nodes.entry[i]);
      out.depth[node] = depth[i];
      out.level_order[first + i] = static_cast<std::int32_t>(node);
    }
  }
}

LevelOrder level_order(std::span<const std::int64_t> tree_offset, std::span<const std::int32_t> left,
                       std::span<const std::int32_t> right) {
  LevelOrder out{{}, NodeOrder::kPreorder};
  out.nodes.reserve(left.size());
  bool by_level = true, preorder = true;
  std::vector<std::int32_t> size(left.size(), 1);
  for (std::size_t node = left.size(); node-- > 0;) {
    if (left[node] < 0) continue;
    size[node] += size[left[node]] + size[right[node]];
    const auto next = static_cast<std::int32_t>(node) + 1;
    preorder = preorder && left[node] == next && right[node] == next + size[left[node]];
  }
  for (std::size_t t = 0; t + 1 < tree_offset.size(); ++t) {
    std::size_t at = out.nodes.size();
    out.nodes.push_back(static_cast<std::int32_t>(tree_offset[t]));
    for (; at < out.nodes.size(); ++at) {
      const std::int32_t node = out.nodes[at];
      by_level = by_level && node == static_cast<std::int32_t>(at);
      if (left[node] < 0) continue;
      out.nodes.push_back(left[node]);
      out.nodes.push_back(right[node]);
    }
  }
  out.order = preorder ? NodeOrder::kPreorder : by_level ? NodeOrder::kLevel : NodeOrder::kListed;
  return out;
}

DistinctRows distinct_rows(const std::uint8_t* rows, std::size_t n, std::size_t width) {
  DistinctRows out;
  out.id.resize(n);
  constexpr std::uint32_t kFree = 0xFFFFFFFFu;
  std::vector<std::uint32_t> slots(std::bit_ceil(2 * n + 2), kFree);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint8_t* row = rows + i * width;
    std::uint64_t hash = 0x9E3779B97F4A7C15u;
    for (std::size_t at = 0; at < width; at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, row + at, std::min<std::size_t>(8, width - at));
      hash = (hash ^ word) * 0xFF51AFD7ED558CCDu;
      hash ^= hash >> 32;
    }
    std::size_t slot = hash & (slots.size() - 1);
    while (slots[slot] != kFree &&
           std::memcmp(rows + static_cast<std::size_t>(out.first[slots[slot]]) * width, row, width) != 0) {
      slot = (slot + 1) & (slots.size() - 1);
    }
    if (slots[slot] == kFree) {
      slots[slot] = static_cast<std::uint32_t>(out.first.size());
      out.first.push_back(static_cast<std::int64_t>(i));
    }
    out.id[i] = slots[slot];
  }
  return out;
}

}  // namespace scurry
