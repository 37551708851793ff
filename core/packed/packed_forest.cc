// Reads packed trees.
#include "packed/packed_forest.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace scurry {
namespace {

constexpr std::int64_t kMaxNodes = 0x7FFFFFFE;

}  // namespace

void PackedForest::refuse(std::size_t tree, const char* why) {
  throw std::invalid_argument("tree " + std::to_string(tree) + " " + why);
}

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
  if (!split_id_.are_below(n_splits_) || (has_leaf_ids_ && !leaf_id_.are_below(n_leaves_))) {
    throw std::invalid_argument("a tree has splits or leaves that are not in their tables");
  }
  std::vector<std::uint32_t> numbers;
  for (std::size_t t = 0; t < n_trees(); ++t) {
    depth.push_back(check_shape(t));
    if (order_ == NodeOrder::kListed) read_numbers(t, numbers);
  }
  tree_depth_ = std::move(depth);
}

std::int32_t PackedForest::check_shape(std::size_t tree) const {
  const auto first = static_cast<std::size_t>(tree_offset_[tree]);
  const std::uint32_t n = n_nodes_in(tree);
  // Level by level: the splits of one say how many nodes the next one has.
  std::int32_t depth = 0;
  std::uint32_t begin = 0, end = 1;
  for (;; ++depth) {
    const std::size_t n_next = 2 * topology_.count(first + begin, first + end);
    begin = end;
    if (n_next > n - end) refuse(tree, "has too many splits");
    if (n_next == 0) break;
    end += static_cast<std::uint32_t>(n_next);
  }
  if (end != n) refuse(tree, "has too few splits");
  return depth;
}

void PackedForest::read(std::size_t tree, TreeNodes& out) const {
  out.resize(static_cast<std::size_t>(tree_offset_[tree + 1] - tree_offset_[tree]));
  walk(tree, [&](std::uint32_t i, std::uint32_t is_split, std::uint32_t entry, std::uint32_t n_splits) {
    out.entry[i] = entry;
    out.left[i] = (2 * n_splits + 1) & (0u - is_split);
    out.right[i] = (2 * n_splits + 2) & (0u - is_split);
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
    case NodeOrder::kListed: read_numbers(tree, number);
  }
}

// Reads the numbers of a tree's nodes as they are listed. Throws if they are no numbering.
void PackedForest::read_numbers(std::size_t tree, std::vector<std::uint32_t>& number) const {
  const std::uint32_t n = n_nodes_in(tree);
  const auto first = static_cast<std::size_t>(tree_offset_[tree]);
  number.resize(n);
  std::vector<std::uint64_t> taken(n / 64 + 1);
  std::uint32_t largest = 0;
  std::uint64_t is_twice = 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    number[i] = node_number_[first + i];
    largest = std::max(largest, number[i]);
    std::uint64_t& word = taken[std::min(number[i], n) / 64];
    is_twice |= word >> (number[i] % 64) & 1;
    word |= std::uint64_t{1} << (number[i] % 64);
  }
  if (largest >= n || is_twice != 0) refuse(tree, "has two nodes of the same number, or one beyond its end");
  if (number[0] != 0) refuse(tree, "does not begin with its root");
  std::uint32_t n_splits = 0, is_before = 0;
  for (std::uint32_t i = 0; i < n && 2 * n_splits + 2 < n; ++i) {
    const std::uint32_t is_split = topology_[first + i];
    is_before |= is_split & (std::min(number[2 * n_splits + 1], number[2 * n_splits + 2]) <= number[i] ? 1u : 0u);
    n_splits += is_split;
  }
  if (is_before != 0) refuse(tree, "has a child before its parent");
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
