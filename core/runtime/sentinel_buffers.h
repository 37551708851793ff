// What a sentinel exit keeps of the rows of a block: which leaves they reached, and where the rows stood then.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "runtime/sentinel_exit.h"

namespace scurry {

struct SentinelExit::Buffers {
  AlignedVector<std::uint32_t> ids;
  AlignedVector<std::int32_t> sums;
  std::vector<std::uint64_t> stopped, removed;
  AlignedVector<std::uint32_t> leaves;       // of each tree walked, from first_of_tree on, those of the rows in the block
  std::vector<std::size_t> first_of_tree;    // [tree of the plan]
  std::vector<std::size_t> epoch_of_tree;    // [tree of the plan]
  std::vector<std::uint32_t> places;         // [epoch][room]: where the row with this id stood
  std::vector<std::uint32_t> leaves_of_row;  // [tree of the plan]
  // Of sliced trees: the numbers of leaves, one lot of trees after another, [tree][apart].
  struct Lot {
    std::size_t first, n_trees, apart;
  };
  AlignedVector<std::uint8_t> numbers;
  std::vector<Lot> lots;
  std::vector<const std::uint8_t*> numbers_of_tree;  // [tree of the plan]
  std::size_t room, n_epochs, n_leaves, apart;  // apart: of one tree's leaves and the next one's

  static Buffers& of_this_thread() {
    thread_local Buffers buffers;
    return buffers;
  }

  // The sums of the first rows are zero, or not if nothing is kept of trees.
  void start(std::size_t n, std::size_t n_trees, std::size_t width) {
    room = round_up(n, kChunk) + kChunk;
    n_epochs = n_leaves = 0;
    ids.resize(room);
    std::iota(ids.begin(), ids.end(), 0u);
    n_trees > 0 ? sums.assign(room * width, 0) : sums.resize(room * width);
    stopped.assign(room / kChunk, 0);
    removed.assign(room / kChunk, 0);
    first_of_tree.resize(n_trees);
    epoch_of_tree.resize(n_trees);
    leaves_of_row.resize(n_trees);
  }

  // Between two epochs rows move.
  void start_epoch(std::size_t n) {
    if (places.size() < (n_epochs + 1) * room) places.resize((n_epochs + 1) * room);
    std::uint32_t* place = places.data() + n_epochs++ * room;
    for (std::size_t at = 0; at < n; ++at) place[ids[at]] = static_cast<std::uint32_t>(at);
  }

  // For the leaves of n rows in the next trees, in whole chunks.
  void make_space(std::size_t first_tree, std::size_t n_trees, std::size_t n) {
    apart = round_up(n, kChunk);
    for (std::size_t tree = first_tree; tree < first_tree + n_trees; ++tree, n_leaves += apart) {
      first_of_tree[tree] = n_leaves;
      epoch_of_tree[tree] = n_epochs - 1;
    }
    if (leaves.size() < n_leaves) leaves.resize(std::max(n_leaves, leaves.size() + leaves.size() / 2));
  }

  // Makes space for the numbers of n rows in the next trees, in whole chunks.
  const Lot& add_lot(std::size_t n_trees, std::size_t n) {
    const std::size_t first = lots.empty() ? 0 : lots.back().first + lots.back().n_trees * lots.back().apart;
    lots.push_back({first, n_trees, round_up(n, kChunk)});
    const std::size_t end = first + n_trees * lots.back().apart + kChunk;
    if (numbers.size() < end) numbers.resize(std::max(end, numbers.size() + numbers.size() / 2));
    numbers_of_tree.clear();
    for (const Lot& lot : lots) {
      for (std::size_t tree = 0; tree < lot.n_trees; ++tree) {
        numbers_of_tree.push_back(numbers.data() + lot.first + tree * lot.apart);
      }
    }
    return lots.back();
  }

  std::uint32_t* leaves_of(std::size_t tree) { return leaves.data() + first_of_tree[tree]; }
  const std::uint32_t* leaves_of(std::size_t tree) const { return leaves.data() + first_of_tree[tree]; }
  std::uint32_t leaf(std::size_t tree, std::uint32_t id) const {
    return leaves_of(tree)[places[epoch_of_tree[tree] * room + id]];
  }
};

}  // namespace scurry
