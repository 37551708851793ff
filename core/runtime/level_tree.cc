// Reads trees level by level, and merges equal leaves.
#include "runtime/level_tree.h"

#include <algorithm>

namespace scurry {

void LevelTree::read(const ForestView& forest, std::size_t tree) {
  const std::int64_t first = forest.tree_offset[tree];
  const auto n = static_cast<std::size_t>(forest.tree_offset[tree + 1] - first);
  size_ = n;
  n_splits_ = n / 2;
  n_dropped_ = 0;
  std::uint32_t *const nodes = nodes_.data(), *const place = place_.data();
  if (forest.packed != nullptr) {
    forest.packed->walk(tree, [=](std::uint32_t i, std::uint32_t is_split, std::uint32_t entry, std::uint32_t n_splits) {
      nodes[i] = entry | is_split << 31;
      place[n_splits] = i;
    });
    return;
  }
  // Nodes that wait for their turn lie in the places that they will have.
  nodes[0] = static_cast<std::uint32_t>(first);
  std::uint32_t split = 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint32_t node = nodes[i];
    if (forest.left[node] < 0) continue;
    nodes[2 * split + 1] = static_cast<std::uint32_t>(forest.left[node]);
    nodes[2 * split + 2] = static_cast<std::uint32_t>(forest.right[node]);
    nodes[i] |= kSplit;
    place[split++] = i;
  }
}

void LevelTree::merge(std::span<const std::uint32_t> payload_of_entry) {
  const std::uint32_t *const nodes = nodes_.data(), *const payload = payload_of_entry.data();
  // The payload of a leaf, and that of any entry for splits: always the same one, which stays in the cache.
  const auto payload_of = [=](std::uint32_t node) { return payload[node & ((node >> 31) - 1)]; };
  for (std::uint32_t pair = 0; pair < n_splits_; ++pair) {
    const std::uint32_t left = nodes[2 * pair + 1], right = nodes[2 * pair + 2];
    // In one number, because two conditions would be two branches, and neither can be predicted.
    if ((((left | right) & kSplit) | (payload_of(left) ^ payload_of(right))) == 0) drop(pair, payload_of_entry);
  }
}

// Drops a pair of equal leaves, and those above it that become pairs of equal leaves by it.
void LevelTree::drop(std::uint32_t pair, std::span<const std::uint32_t> payload_of_entry) {
  if (n_dropped_ == 0) std::fill_n(is_dropped_.begin(), n_splits_, std::uint8_t{0});
  for (;;) {
    const std::uint32_t place = place_[pair];
    nodes_[place] = nodes_[2 * pair + 1];
    is_dropped_[pair] = 1;
    ++n_dropped_;
    if (place == 0) return;
    pair = (place - 1) / 2;
    const std::uint32_t left = nodes_[2 * pair + 1], right = nodes_[2 * pair + 2];
    if (is_split(left | right) || payload_of_entry[left] != payload_of_entry[right]) return;
  }
}

std::uint32_t LevelTree::first_split_from(std::size_t place) const {
  const auto splits = place_.begin(), end = splits + static_cast<std::ptrdiff_t>(n_splits_);
  return static_cast<std::uint32_t>(std::lower_bound(splits, end, place) - splits);
}

}  // namespace scurry
