// TreeLayout: the nodes of a tree as walks expect them. Its top is a complete heap; below that, nodes follow level by
// level, as they lie in a LevelTree.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "runtime/level_tree.h"
#include "runtime/trees.h"

namespace scurry {

template <class Node>
Node make_node(const NodeTest& test, std::uint32_t left);
template <>
inline NarrowNode make_node(const NodeTest& test, std::uint32_t left) {  // in one word
  static_assert(sizeof(NodeTest) == sizeof(NarrowNode));
  return std::bit_cast<NarrowNode>((std::bit_cast<std::uint64_t>(test) << 16 >> 16) | std::uint64_t{left} << 48);
}
template <>
inline WideNode make_node(const NodeTest& test, std::uint32_t left) {
  return {test.key, test.column(), left};
}

// What is written down of the nodes of a tree besides what walks read: their entries, and whether they are marked.
struct Traces {
  std::vector<std::int32_t> entry;
  std::vector<std::uint8_t> is_marked;

  void resize(std::size_t n) {
    entry.resize(n);
    is_marked.resize(n);
  }
};

template <class Node, bool kTraces>
class TreeLayout {
 public:
  static constexpr std::uint32_t kMaxTop = Trees::kMaxTop;
  static constexpr std::uint32_t kMaxOnePhase = 12;  // deeper trees are walked in phases

  // Writes at most as many nodes as the tree has, and 2 << kMaxTop more. Tests are those of entries.
  TreeLayout(const LevelTree& from, const NodeTest* tests, std::uint32_t pad, Node* out, Traces& traces)
      : from_(from),
        tests_(tests),
        pad_(pad),
        out_(out),
        entries_(traces.entry.data()),
        marks_(traces.is_marked.data()) {
    for (std::uint32_t split = 0; split < from.n_splits() && from.place_of_split(split) < child_.size(); ++split) {
      child_[from.place_of_split(split)] = 2 * split + 1;
    }
    top_ = count_top_levels();
    lay_out_top();
    std::uint32_t pair = 0;  // the first one of the next level
    for (std::uint32_t level = 0; level < top_; ++level) pair = from.first_split_from(2 * std::size_t{pair} + 1);
    while (size_ > at_) {
      ++depth_;
      const std::uint32_t end = from.first_split_from(2 * std::size_t{pair} + 1), first = at_;
      from.dropped() == nullptr ? lay_out<false>(pair, end) : lay_out<true>(pair, end);
      count_leaves(at_ - first);
      if (end == pair) throw std::invalid_argument("a tree has changed while it was read");
      pair = end;
    }
  }

  std::uint32_t size() const { return size_; }
  std::uint32_t depth() const { return depth_; }
  std::uint32_t top() const { return top_; }
  std::uint32_t first_phase() const {
    const auto mean_path = static_cast<std::uint32_t>(leaf_levels_ / n_leaves_);
    return depth_ <= kMaxOnePhase ? depth_ : std::min(depth_, mean_path);
  }

 private:
  static constexpr std::uint32_t kAhead = 16;
  using Level = std::array<std::uint32_t, 1u << kMaxTop>;  // places of nodes

  std::uint32_t node_at(std::uint32_t place) const { return from_.nodes()[place]; }
  bool is_leaf(std::uint32_t place) const { return !LevelTree::is_split(node_at(place)); }

  // How many levels below the root are tested for many rows at once: no more than kMaxTop, without categorical splits.
  std::uint32_t count_top_levels() const {
    Level level{}, next{};
    std::size_t n = 1;
    for (std::uint32_t levels = 0; levels < kMaxTop; ++levels, level = next) {
      std::size_t n_next = 0;
      for (const std::uint32_t place : std::span(level).first(n)) {
        if (is_leaf(place)) continue;
        if (tests_[LevelTree::entry(node_at(place))].column() > pad_) return levels;
        next[n_next++] = child_[place];
        next[n_next++] = child_[place] + 1;
      }
      if (n_next == 0) return levels;
      n = n_next;
    }
    return kMaxTop;
  }

  // The heap, and the level below it.
  void lay_out_top() {
    Level level{}, next{};
    std::size_t n = 1;
    for (; depth_ < top_; ++depth_, level = next, n *= 2) {
      for (std::size_t slot = 0; slot < n; ++slot) {
        const std::uint32_t place = level[slot], child = child_[place];
        if (is_leaf(place)) {
          // It becomes a split that always goes left, to a copy of the leaf.
          put({0xFFFFFFFFu, pad_}, node_at(place), 1);
          next[2 * slot] = next[2 * slot + 1] = place;
        } else {
          put(node_at(place));
          next[2 * slot] = child;
          next[2 * slot + 1] = child + 1;
        }
      }
    }
    for (const std::uint32_t place : std::span(level).first(n)) put(node_at(place));
    count_leaves(static_cast<std::uint32_t>(n));
  }

  // The nodes of a level, by their pairs.
  template <bool kSomeDropped>
  void lay_out(std::uint32_t pair, std::uint32_t end) {
    const std::uint32_t* const nodes = from_.nodes();
    const std::uint8_t* const dropped = from_.dropped();
    const std::uint32_t size = static_cast<std::uint32_t>(from_.size()), last = size > kAhead ? size - kAhead : 0;
    for (; pair < end; ++pair) {
      if (2 * pair + 1 < last) {
        __builtin_prefetch(&tests_[LevelTree::entry(nodes[2 * pair + kAhead])]);
        __builtin_prefetch(&tests_[LevelTree::entry(nodes[2 * pair + kAhead + 1])]);
      }
      put(nodes[2 * pair + 1]);
      put(nodes[2 * pair + 2]);
      if constexpr (kSomeDropped) at_ -= 2u * dropped[pair];  // two leaves, which are written over
    }
  }

  void put(std::uint32_t node) { put(tests_[LevelTree::entry(node)], node, node >> 31); }
  void put(const NodeTest& test, std::uint32_t node, std::uint32_t is_split) {
    if constexpr (kTraces) {
      entries_[at_] = static_cast<std::int32_t>(LevelTree::entry(node));
      marks_[at_] = static_cast<std::uint8_t>(test.is_marked());
    }
    out_[at_] = make_node<Node>(test, (size_ - at_) & (0u - is_split));
    size_ += 2 * is_split;
    ++at_;
  }

  // Of a level of n nodes that has been laid out; those of the next one wait behind it.
  void count_leaves(std::uint32_t n) {
    const std::uint32_t n_leaves = n - (size_ - at_) / 2;
    n_leaves_ += n_leaves;
    leaf_levels_ += std::size_t{n_leaves} * depth_;
  }

  const LevelTree& from_;
  const NodeTest* const tests_;
  const std::uint32_t pad_;
  Node* const out_;
  std::int32_t* const entries_;
  std::uint8_t* const marks_;
  std::array<std::uint32_t, 2u << kMaxTop> child_{};  // of splits near the root, by their places: the left one
  std::uint32_t at_ = 0, size_ = 1, depth_ = 0, top_ = 0;
  std::size_t leaf_levels_ = 0, n_leaves_ = 0;
};

}  // namespace scurry
