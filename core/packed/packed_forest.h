// PackedForest: trees as a packed file holds them. One bit for each node says whether it is a split; splits and leaves
// are numbers of rows in tables of distinct ones. Nodes of a tree are in level order, so that the k-th split has its
// children at 2k + 1 and 2k + 2.
#pragma once

#include <algorithm>
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
  std::size_t n_splits() const { return n_splits_; }  // distinct ones
  std::size_t n_leaves() const { return n_leaves_; }
  const std::vector<std::int64_t>& tree_offset() const { return tree_offset_; }

  const std::vector<std::int32_t>& tree_depth() const { return tree_depth_; }

  // Calls visit(i, is_split, entry, n_splits) for the nodes of a tree, level by level; n_splits are those before the node,
  // so that the children of a split are at 2 * n_splits + 1 and + 2. Entries of leaves are their rows, and those of splits
  // theirs plus the number of distinct leaves. Throws if one is not in its table, once all have been visited: what a
  // visitor makes of them must stand any entry, and is to be thrown away then.
  template <class Visit>
  void walk(std::size_t tree, Visit visit) const;
  void read(std::size_t tree, TreeNodes& out) const;

  // What nodes are in the numbering of the forest: children or -1, entries, depths; and the nodes in level order.
  struct Expanded {
    std::int32_t *left, *right, *entry, *depth, *level_order;
  };
  void expand(const Expanded& out) const;

 private:
  template <bool kLeafIds, bool kAreWithin, class Visit>
  void walk_tree(std::size_t tree, Visit visit) const;
  std::uint32_t n_nodes_in(std::size_t tree) const {
    return static_cast<std::uint32_t>(tree_offset_[tree + 1] - tree_offset_[tree]);
  }
  // Throws if the bits of a tree are no tree. Returns its depth.
  std::int32_t check_shape(std::size_t tree) const;
  [[noreturn]] static void refuse(std::size_t tree, const char* why);
  void number(std::size_t tree, const TreeNodes& nodes, std::vector<std::uint32_t>& number) const;
  void read_numbers(std::size_t tree, std::vector<std::uint32_t>& number) const;

  Bits topology_, split_id_, leaf_id_, node_number_;
  bool has_leaf_ids_;
  std::uint32_t n_splits_, n_leaves_;
  NodeOrder order_;
  std::vector<std::int64_t> tree_offset_;
  std::vector<std::int32_t> tree_depth_;
};

template <class Visit>
void PackedForest::walk(std::size_t tree, Visit visit) const {
  // What is read is checked again: the file may have changed since. The last tree may end within 8 bytes of the file's
  // arrays, and no bits of it lead beyond these places.
  check_shape(tree);
  const auto first = static_cast<std::size_t>(tree_offset_[tree]);
  const std::size_t last_split = (first - tree) / 2 + n_nodes_in(tree), last_leaf = last_split + tree;
  const bool are_within = split_id_.is_within(last_split) && (!has_leaf_ids_ || leaf_id_.is_within(last_leaf));
  if (has_leaf_ids_) return are_within ? walk_tree<true, true>(tree, visit) : walk_tree<true, false>(tree, visit);
  return are_within ? walk_tree<false, true>(tree, visit) : walk_tree<false, false>(tree, visit);
}

// Without branches but those of the loop: whether a node is a split cannot be predicted.
template <bool kLeafIds, bool kAreWithin, class Visit>
void PackedForest::walk_tree(std::size_t tree, Visit visit) const {
  const auto first = static_cast<std::size_t>(tree_offset_[tree]);
  const std::size_t first_split = (first - tree) / 2;
  const Bits ids[2] = {leaf_id_, split_id_};
  const std::uint32_t n_rows[2] = {n_leaves_, n_splits_}, first_entry[2] = {0, n_leaves_};
  std::size_t split = first_split, leaf = first_split + tree;
  std::uint32_t n_splits = 0, is_wrong = 0;
  const std::uint32_t n = n_nodes_in(tree);
  for (std::uint32_t i = 0; i < n;) {
    std::uint64_t are_splits = topology_.bits_from(first + i);
    for (const std::uint32_t end = i + std::min(n - i, Bits::kBitsAtOnce); i < end; ++i, are_splits >>= 1) {
      const auto is_split = static_cast<std::uint32_t>(are_splits & 1);
      const std::size_t all = std::size_t{0} - is_split;
      std::uint32_t id;
      if constexpr (kLeafIds) {
        id = ids[is_split].template at<kAreWithin>(leaf ^ ((split ^ leaf) & all));
      } else {
        const std::uint32_t of_split = ids[1].template at<kAreWithin>(split), of_leaf = static_cast<std::uint32_t>(leaf);
        id = of_leaf ^ ((of_split ^ of_leaf) & static_cast<std::uint32_t>(all));
      }
      is_wrong |= id >= n_rows[is_split];
      visit(i, is_split, id + first_entry[is_split], n_splits);
      split += is_split;
      leaf += 1 - is_split;
      n_splits += is_split;
    }
  }
  if (is_wrong != 0 || 2 * n_splits + 1 != n) refuse(tree, "has a split or a leaf that is not in its table");
}

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
