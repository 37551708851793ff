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

// Finds the nodes that act as leaves: the leaves, and inner nodes whose whole subtree has one payload.
std::vector<std::uint8_t> merge_equal_siblings(const ForestView& forest, Leaves& leaves) {
  std::vector<std::uint8_t> is_leaf(forest.n_nodes());
  for (std::size_t node = forest.n_nodes(); node-- > 0;) {
    const std::int32_t left = forest.left[node], right = forest.right[node];
    is_leaf[node] = left < 0;
    if (left < 0 || !leaves.mergeable || !is_leaf[left] || !is_leaf[right]) continue;
    if (leaves.payload_of_node[left] != leaves.payload_of_node[right]) continue;
    leaves.payload_of_node[node] = leaves.payload_of_node[left];
    is_leaf[node] = 1;
  }
  return is_leaf;
}

// How many levels below the root are tested for many rows at once: no more than kMaxTop, without categorical splits.
std::uint32_t top_levels(const ForestView& forest, const Columns& columns, const std::vector<std::uint8_t>& is_leaf,
                         std::int32_t root) {
  std::vector<std::int32_t> level{root}, next;
  for (std::uint32_t depth = 0; depth < Trees::kMaxTop; ++depth, level.swap(next)) {
    next.clear();
    for (std::int32_t node : level) {
      if (is_leaf[node]) continue;
      if (columns.column_of_node(static_cast<std::size_t>(node)) > columns.pad()) return depth;
      next.push_back(forest.left[node]);
      next.push_back(forest.right[node]);
    }
    if (next.empty()) return depth;
  }
  return Trees::kMaxTop;
}

}  // namespace

Trees::Trees(const ForestView& forest, const Columns& columns, Leaves leaves) {
  const std::vector<std::uint8_t> is_leaf = merge_equal_siblings(forest, leaves);
  std::int64_t largest = 0;
  for (std::size_t t = 0; t < forest.n_trees(); ++t) {
    largest = std::max(largest, forest.tree_offset[t + 1] - forest.tree_offset[t]);
  }
  category_bits_.assign(forest.category_bits.begin(), forest.category_bits.end());
  trees_.reserve(forest.n_trees());
  if (largest + (2 << kMaxTop) > 65536 || columns.size() > 65536) {
    lower(forest, columns, leaves, is_leaf, wide_);
  } else {
    lower(forest, columns, leaves, is_leaf, narrow_);
  }
}

template <class Node>
void Trees::lower(const ForestView& forest, const Columns& columns, const Leaves& leaves,
                  const std::vector<std::uint8_t>& is_leaf, std::vector<Node>& nodes) {
  using Index = decltype(Node::left);
  const bool marks = columns.has_mixed() || columns.has_categories();
  std::vector<std::int32_t> queue;  // forest indices in breadth-first order; position = lowered index
  for (std::size_t t = 0; t < forest.n_trees(); ++t) {
    const auto root = static_cast<std::int32_t>(forest.tree_offset[t]);
    Tree tree{static_cast<std::uint32_t>(nodes.size()),
              0,
              top_levels(forest, columns, is_leaf, root),
              0,
              forest.tree_output[t],
              static_cast<std::uint32_t>(t)};
    queue.assign(1, root);
    std::size_t level_end = 1, leaf_levels = 0, n_leaves = 0;
    for (std::size_t at = 0; at < queue.size(); ++at) {
      if (at == level_end) {
        ++tree.depth;
        level_end = queue.size();
      }
      const auto node = static_cast<std::size_t>(queue[at]);
      if (is_leaf[node] && tree.depth < tree.top) {
        // Above the last level of the heap, a leaf becomes a split that always goes left, to a copy of the leaf.
        nodes.push_back({0xFFFFFFFFu, static_cast<Index>(columns.pad()), static_cast<Index>(queue.size() - at)});
        queue.insert(queue.end(), 2, queue[at]);
        continue;
      }
      if (is_leaf[node]) {
        nodes.push_back({leaves.payload_of_node[node], static_cast<Index>(columns.pad()), 0});
        leaf_levels += tree.depth;
        ++n_leaves;
        continue;
      }
      std::uint32_t key = 0;
      if (columns.column_of_node(node) > columns.pad()) {
        key = static_cast<std::uint32_t>(category_tests_.size());
        const std::int64_t* words = &forest.category_offset[forest.category_set[node]];
        category_tests_.push_back({static_cast<std::uint32_t>(words[0]),
                                   static_cast<std::uint32_t>(32 * (words[1] - words[0])),
                                   forest.default_left[node] != 0});
      } else {
        key = columns.key_of_node(forest, node);
        if (marks) {
          marks_.resize(nodes.size() / 32 + 1);
          if (columns.is_marked(forest, node)) marks_.back() |= 1u << (nodes.size() % 32);
        }
      }
      nodes.push_back({key, static_cast<Index>(columns.column_of_node(node)), static_cast<Index>(queue.size() - at)});
      queue.push_back(forest.left[node]);
      queue.push_back(forest.right[node]);
    }
    if (leaves.keep_origins) origins_.insert(origins_.end(), queue.begin(), queue.end());
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
