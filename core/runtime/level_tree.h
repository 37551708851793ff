// LevelTree: one tree of a forest as it is lowered, level by level. The k-th split has its children at 2k + 1 and 2k + 2,
// so that no node says where they are; sibling nodes are a pair, which has the number of the split above it.
//
//          0               split 0 at place 0, its pair at places 1 and 2
//       1     2            split 1 at place 2, its pair at places 3 and 4
//            3 4           leaves at places 1, 3, 4
#pragma once

#include <cstdint>
#include <span>

#include "runtime/aligned.h"
#include "runtime/forest_view.h"

namespace scurry {

class LevelTree {
 public:
  // A node is its entry (see ForestView), with this bit if it is a split.
  static constexpr std::uint32_t kSplit = 1u << 31;

  // For trees of up to so many nodes.
  explicit LevelTree(std::size_t most) : nodes_(most), place_(most + 2), is_dropped_(most) {}

  void read(const ForestView& forest, std::size_t tree);
  // Makes leaves of the splits whose leaves all have the same payload. The pairs below them are dropped.
  void merge(std::span<const std::uint32_t> payload_of_entry);

  std::size_t size() const { return size_; }
  std::size_t n_splits() const { return n_splits_; }
  const std::uint32_t* nodes() const { return nodes_.data(); }
  static bool is_split(std::uint32_t node) { return (node & kSplit) != 0; }
  static std::uint32_t entry(std::uint32_t node) { return node & ~kSplit; }
  // By pair: whether it was dropped. Null if none was.
  const std::uint8_t* dropped() const { return n_dropped_ > 0 ? is_dropped_.data() : nullptr; }
  // The number of the first split that lies at a place, or behind it.
  std::uint32_t first_split_from(std::size_t place) const;
  std::uint32_t place_of_split(std::uint32_t split) const { return place_[split]; }

 private:
  void drop(std::uint32_t pair, std::span<const std::uint32_t> payload_of_entry);

  LargeVector<std::uint32_t> nodes_, place_;  // place_ of splits; longer than there are splits
  LargeVector<std::uint8_t> is_dropped_;
  std::size_t size_ = 0, n_splits_ = 0, n_dropped_ = 0;
};

}  // namespace scurry
