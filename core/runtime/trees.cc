// Lowers the trees of a forest to the layout of the kernels.
#include "runtime/trees.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace scurry {
namespace {

constexpr std::size_t kTopNodes = 1u << Trees::kMaxTop;  // they are read together, even past the end of a small tree
constexpr std::size_t kMaxNodes = std::numeric_limits<std::uint32_t>::max() - 2 * kTopNodes + 1;
constexpr std::uint32_t kMaxOnePhase = 12;  // deeper trees are walked in phases

// The nodes of a tree of which some act as leaves: the leaves, and inner nodes whose whole subtree has one payload.
struct MergedTree {
  TreeNodes nodes;
  std::vector<std::uint8_t> is_leaf;
  std::vector<std::uint32_t> payload;  // at leaves

  void read(const ForestView& forest, std::size_t tree, const Leaves& leaves) {
    read_tree(forest, tree, nodes);
    is_leaf.resize(nodes.size());
    payload.resize(nodes.size());
    for (std::size_t i = nodes.size(); i-- > 0;) {
      const std::uint32_t left = nodes.left[i], right = nodes.right[i];
      is_leaf[i] = left == 0;
      if (left == 0) {
        payload[i] = leaves.payload_of_node[nodes.entry[i]];
      } else if (leaves.mergeable && is_leaf[left] && is_leaf[right] && payload[left] == payload[right]) {
        payload[i] = payload[left];
        is_leaf[i] = 1;
      }
    }
  }

  // How many levels below the root are tested for many rows at once: no more than kMaxTop, without categorical splits.
  std::uint32_t top_levels(const ForestView& forest) const {
    std::vector<std::uint32_t> level{0}, next;
    for (std::uint32_t depth = 0; depth < Trees::kMaxTop; ++depth, level.swap(next)) {
      next.clear();
      for (std::uint32_t i : level) {
        if (is_leaf[i]) continue;
        if (forest.category_set[nodes.entry[i]] >= 0) return depth;
        next.push_back(nodes.left[i]);
        next.push_back(nodes.right[i]);
      }
      if (next.empty()) return depth;
    }
    return Trees::kMaxTop;
  }
};

}  // namespace

Trees::Trees(const ForestView& forest, const Columns& columns, Leaves leaves) {
  std::int64_t largest = 0;
  for (std::size_t t = 0; t < forest.n_trees(); ++t) {
    largest = std::max(largest, forest.tree_offset[t + 1] - forest.tree_offset[t]);
  }
  category_bits_.assign(forest.category_bits.begin(), forest.category_bits.end());
  trees_.reserve(forest.n_trees());
  if (largest + (2 << kMaxTop) > 65536 || columns.size() > 65536) {
    lower(forest, columns, leaves, wide_);
  } else {
    lower(forest, columns, leaves, narrow_);
  }
}

template <class Node>
void Trees::lower(const ForestView& forest, const Columns& columns, const Leaves& leaves, std::vector<Node>& nodes) {
  using Index = decltype(Node::left);
  const bool marks = columns.has_mixed() || columns.has_categories();
  constexpr std::uint32_t kUnknown = 0xFFFFFFFFu;
  // Keys of distinct splits, which many nodes of a packed forest share; a key may cost a search among thresholds. Those
  // of categorical splits are the numbers of their tests.
  std::vector<std::uint32_t> key_of_entry(forest.packed == nullptr ? 0 : forest.n_nodes(), kUnknown);
  const auto find_key = [&](std::size_t entry) {
    if (forest.category_set[entry] < 0) return columns.key_of_node(forest, entry);
    const std::int64_t* words = &forest.category_offset[forest.category_set[entry]];
    category_tests_.push_back({static_cast<std::uint32_t>(words[0]),
                               static_cast<std::uint32_t>(32 * (words[1] - words[0])),
                               forest.default_left[entry] != 0});
    return static_cast<std::uint32_t>(category_tests_.size() - 1);
  };
  const auto key_of = [&](std::size_t entry) {
    if (key_of_entry.empty()) return find_key(entry);
    if (key_of_entry[entry] == kUnknown) key_of_entry[entry] = find_key(entry);
    return key_of_entry[entry];
  };
  MergedTree from;
  std::vector<std::uint32_t> queue;  // nodes of the tree in breadth-first order; position = lowered index
  for (std::size_t t = 0; t < forest.n_trees(); ++t) {
    from.read(forest, t, leaves);
    Tree tree{static_cast<std::uint32_t>(nodes.size()), 0, from.top_levels(forest), 0, forest.tree_output[t],
              static_cast<std::uint32_t>(t)};
    queue.assign(1, 0);
    std::size_t level_end = 1, leaf_levels = 0, n_leaves = 0;
    for (std::size_t at = 0; at < queue.size(); ++at) {
      if (at == level_end) {
        ++tree.depth;
        level_end = queue.size();
      }
      const std::uint32_t i = queue[at];
      if (from.is_leaf[i] && tree.depth < tree.top) {
        // Above the last level of the heap, a leaf becomes a split that always goes left, to a copy of the leaf.
        nodes.push_back({0xFFFFFFFFu, static_cast<Index>(columns.pad()), static_cast<Index>(queue.size() - at)});
        queue.insert(queue.end(), 2, i);
        continue;
      }
      if (from.is_leaf[i]) {
        nodes.push_back({from.payload[i], static_cast<Index>(columns.pad()), 0});
        leaf_levels += tree.depth;
        ++n_leaves;
        continue;
      }
      const std::size_t entry = from.nodes.entry[i];
      if (marks && forest.category_set[entry] < 0) {
        marks_.resize(nodes.size() / 32 + 1);
        if (columns.is_marked(forest, entry)) marks_.back() |= 1u << (nodes.size() % 32);
      }
      const auto column = static_cast<Index>(columns.column_of_node(entry));
      nodes.push_back({key_of(entry), column, static_cast<Index>(queue.size() - at)});
      queue.push_back(from.nodes.left[i]);
      queue.push_back(from.nodes.right[i]);
    }
    if (leaves.keep_origins) {
      for (const std::uint32_t i : queue) origins_.push_back(static_cast<std::int32_t>(from.nodes.entry[i]));
    }
    const auto mean_path = static_cast<std::uint32_t>(leaf_levels / n_leaves);
    tree.first_phase = tree.depth <= kMaxOnePhase ? tree.depth : std::min(tree.depth, mean_path);
    trees_.push_back(tree);
  }
  if (nodes.size() > kMaxNodes) throw std::length_error("a lowered forest can have at most 2^32 - 64 nodes");
  nodes.resize(nodes.size() + kTopNodes);
  nodes.shrink_to_fit();
  if (marks) marks_.resize(nodes.size() / 32 + 1);
}

std::size_t Trees::bytes() const {
  return narrow_.size() * sizeof(NarrowNode) + wide_.size() * sizeof(WideNode) + trees_.size() * sizeof(Tree) +
         category_tests_.size() * sizeof(CategoryTest) +
         (category_bits_.size() + marks_.size()) * sizeof(std::uint32_t);
}

}  // namespace scurry
