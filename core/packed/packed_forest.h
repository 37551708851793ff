// PackedForest: trees as a packed file holds them. One bit for each node says whether it is a split; splits and leaves
// are numbers of rows in tables of distinct ones. Nodes of a tree are in level order, so that the k-th split has its
// children at 2k + 1 and 2k + 2.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "packed/bits.h"

namespace scurry {

// The nodes of one tree, its root first and children after their parent. An entry is what arrays of a ForestView are
// read by.
struct TreeNodes {
  std::vector<std::uint32_t> entry, left, right;  // left is 0 at leaves

  std::size_t size() const { return entry.size(); }
  void resize(std::size_t n) {
    entry.resize(n);
    left.resize(n);
    right.resize(n);
  }
};

// How the nodes of a tree are numbered outside the file.
enum class NodeOrder : std::uint8_t { kPreorder, kLevel, kListed };

struct PackedArrays {
  std::span<const std::uint32_t> tree_nodes;
  std::span<const std::uint8_t> topology, split_id, leaf_id, node_number;
  std::size_t n_splits = 0, n_leaves = 0;  // distinct ones
  bool has_leaf_ids = true;                // else the leaves are the rows of their table, in order
  NodeOrder order = NodeOrder::kPreorder;
};

class PackedForest {
 public:
  // Checks sizes. Throws std::invalid_argument.
  explicit PackedForest(const PackedArrays& arrays);
  // Checks every node, before anything below is called: it looks at nothing twice. Throws std::invalid_argument.
  void check();
  bool is_checked() const { return !tree_depth_.empty(); }

  std::size_t n_trees() const { return tree_offset_.size() - 1; }
  std::size_t n_nodes() const { return static_cast<std::size_t>(tree_offset_.back()); }
  const std::vector<std::int64_t>& tree_offset() const { return tree_offset_; }

  const std::vector<std::int32_t>& tree_depth() const { return tree_depth_; }

  // Entries of leaves are their rows, and those of splits theirs plus the number of distinct leaves.
  void read(std::size_t tree, TreeNodes& out) const;

  // What nodes are in the numbering of the forest: children or -1, entries, depths; and the nodes in level order.
  struct Expanded {
    std::int32_t *left, *right, *entry, *depth, *level_order;
  };
  void expand(const Expanded& out) const;

 private:
  // Calls visit(i, entry, left or 0) for the nodes of a tree, and returns its depth.
  template <class Visit>
  std::int32_t walk(std::size_t tree, Visit visit) const;
  template <bool kLeafIds, class Visit>
  std::int32_t walk_tree(std::size_t tree, Visit visit) const;
  void number(std::size_t tree, const TreeNodes& nodes, std::vector<std::uint32_t>& number) const;

  Bits topology_, split_id_, leaf_id_, node_number_;
  bool has_leaf_ids_;
  std::uint32_t n_splits_, n_leaves_;
  NodeOrder order_;
  std::vector<std::int64_t> tree_offset_;
  std::vector<std::int32_t> tree_depth_;
};

// The nodes of all trees in level order, and which order they have.
struct LevelOrder {
  std::vector<std::int32_t> nodes;
  NodeOrder order;
};
LevelOrder level_order(std::span<const std::int64_t> tree_offset, std::span<const std::int32_t> left,
                       std::span<const std::int32_t> right);

// Numbers the distinct rows of a matrix of bytes in the order of their first occurrence.
struct DistinctRows {
  std::vector<std::uint32_t> id;
  std::vector<std::int64_t> first;
};
DistinctRows distinct_rows(const std::uint8_t* rows, std::size_t n, std::size_t width);

}  // namespace scurry
