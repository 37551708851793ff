#include "kernels.h"

#include <algorithm>
#include <bit>

#ifndef SCURRY_ISA
#error "compile kernels.cc once per instruction set, with SCURRY_ISA naming it"
#endif
#define SCURRY_TEXT_(x) #x
#define SCURRY_TEXT(x) SCURRY_TEXT_(x)

namespace scurry::SCURRY_ISA {
namespace {

using u32 = std::uint32_t;

inline bool in_category_set(const CategoryTest& test, const u32* bits, u32 code) {
  if (code < test.n_bits) return (bits[test.first_word + code / 32] >> (code % 32)) & 1u;
  return code == kNanKey && test.nan_left;
}

template <class Node, bool kCategories>
inline u32 step(const Walk<Node>& walk, const Node& node, const u32* keys) {
  const u32 x = keys[node.column];
  if constexpr (kCategories) {
    if (node.column > walk.pad) {
      return node.left + !in_category_set(walk.category_tests[node.key], walk.category_bits, x);
    }
  }
  return node.left + (x > node.key);
}

// Walks kLanes consecutive rows down `levels` levels; `at` is read and written.
template <class Node, std::size_t kStride, bool kCategories>
inline void descend(const Walk<Node>& walk, const Node* nodes, const u32* keys, u32 levels, u32 (&at)[kLanes]) {
  const std::size_t stride = kStride ? kStride : walk.stride;
  for (u32 level = 0; level < levels; ++level) {
#pragma GCC unroll 8
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      at[lane] = step<Node, kCategories>(walk, nodes[at[lane]], keys + lane * stride);
    }
  }
}

// Rows not yet at a leaf, gathered and walked a few levels at a time until none is left.
template <class Node, std::size_t kStride, bool kCategories>
void finish(const Walk<Node>& walk, const Node* nodes, const u32* keys, std::size_t n, u32* at, u32* rows) {
  constexpr u32 kLevels = 5;
  const std::size_t stride = kStride ? kStride : walk.stride;
  std::size_t n_left = 0;
  for (std::size_t row = 0; row < n; ++row) {
    rows[n_left] = static_cast<u32>(row);
    n_left += nodes[at[row]].left != at[row];
  }
  while (n_left > 0) {
    std::size_t kept = 0;
    for (std::size_t first = 0; first < n_left; first += kLanes) {
      const std::size_t lanes = std::min(kLanes, n_left - first);
      u32 lane_row[kLanes], lane_at[kLanes];
      const u32* lane_keys[kLanes];
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        lane_row[lane] = rows[first + (lane < lanes ? lane : 0)];
        lane_at[lane] = at[lane_row[lane]];
        lane_keys[lane] = keys + lane_row[lane] * stride;
      }
      for (u32 level = 0; level < kLevels; ++level) {
#pragma GCC unroll 8
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
          lane_at[lane] = step<Node, kCategories>(walk, nodes[lane_at[lane]], lane_keys[lane]);
        }
      }
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        at[lane_row[lane]] = lane_at[lane];
        rows[kept] = lane_row[lane];
        kept += nodes[lane_at[lane]].left != lane_at[lane];
      }
    }
    n_left = kept;
  }
}

template <class Node, std::size_t kStride, bool kCategories>
void walk_block(const Walk<Node>& walk, const Tree& tree, const u32* keys, std::size_t n, u32* payload, u32* scratch) {
  const std::size_t stride = kStride ? kStride : walk.stride;
  const Node* nodes = walk.nodes + tree.first;
  const bool one_phase = tree.first_phase >= tree.depth;
  for (std::size_t row = 0; row < n; row += kLanes) {
    u32 at[kLanes] = {};
    descend<Node, kStride, kCategories>(walk, nodes, keys + row * stride, tree.first_phase, at);
    for (std::size_t lane = 0; lane < kLanes; ++lane) payload[row + lane] = one_phase ? nodes[at[lane]].key : at[lane];
  }
  if (one_phase) return;
  finish<Node, kStride, kCategories>(walk, nodes, keys, n, payload, scratch);
  for (std::size_t row = 0; row < n; ++row) payload[row] = nodes[payload[row]].key;
}

template <class Node>
void walk_tree(const Walk<Node>& walk, const Tree& tree, const u32* keys, std::size_t n, u32* payload, u32* scratch) {
  if (walk.has_categories) return walk_block<Node, 0, true>(walk, tree, keys, n, payload, scratch);
  switch (walk.stride) {
    case 16: return walk_block<Node, 16, false>(walk, tree, keys, n, payload, scratch);
    case 32: return walk_block<Node, 32, false>(walk, tree, keys, n, payload, scratch);
    case 48: return walk_block<Node, 48, false>(walk, tree, keys, n, payload, scratch);
    case 64: return walk_block<Node, 64, false>(walk, tree, keys, n, payload, scratch);
    case 128: return walk_block<Node, 128, false>(walk, tree, keys, n, payload, scratch);
    default: return walk_block<Node, 0, false>(walk, tree, keys, n, payload, scratch);
  }
}

// One row: many trees at once hide the latency that many rows hide in a block.
template <class Node, bool kCategories>
void walk_row(const Walk<Node>& walk, const Tree* trees, std::size_t n, const u32* keys, u32* payload) {
  constexpr std::size_t kTrees = 16;
  constexpr u32 kLevels = 4;
  std::size_t first = 0;
  for (; first + kTrees <= n; first += kTrees) {
    const Node* roots[kTrees];
    u32 at[kTrees] = {};
    u32 depth = 0;
    for (std::size_t t = 0; t < kTrees; ++t) {
      roots[t] = walk.nodes + trees[first + t].first;
      depth = std::max(depth, trees[first + t].depth);
    }
    bool walking = true;
    for (u32 level = 0; level < depth && walking; level += kLevels) {
      const u32 levels = std::min(kLevels, depth - level);
      for (u32 l = 0; l < levels; ++l) {
#pragma GCC unroll 16
        for (std::size_t t = 0; t < kTrees; ++t) at[t] = step<Node, kCategories>(walk, roots[t][at[t]], keys);
      }
      walking = false;
      for (std::size_t t = 0; t < kTrees; ++t) walking |= roots[t][at[t]].left != at[t];
    }
    for (std::size_t t = 0; t < kTrees; ++t) payload[first + t] = roots[t][at[t]].key;
  }
  for (; first < n; ++first) {
    const Node* nodes = walk.nodes + trees[first].first;
    u32 at = 0;
    while (nodes[at].left != at) at = step<Node, kCategories>(walk, nodes[at], keys);
    payload[first] = nodes[at].key;
  }
}

template <class Node>
void walk_one_row(const Walk<Node>& walk, const Tree* trees, std::size_t n, const u32* keys, u32* payload) {
  walk.has_categories ? walk_row<Node, true>(walk, trees, n, keys, payload)
                      : walk_row<Node, false>(walk, trees, n, keys, payload);
}

void add_doubles(const double* table, const u32* payload, std::size_t n, double* scores) {
  for (std::size_t row = 0; row < n; ++row) scores[row] += table[payload[row]];
}

void add_floats(const u32* payload, std::size_t n, float* scores) {
  for (std::size_t row = 0; row < n; ++row) scores[row] += std::bit_cast<float>(payload[row]);
}

template <std::size_t kWidth>
void add_fixed(const double* table, const u32* payload, std::size_t n, double* scores) {
  for (std::size_t row = 0; row < n; ++row) {
    const double* from = table + payload[row] * kWidth;
    for (std::size_t c = 0; c < kWidth; ++c) scores[row * kWidth + c] += from[c];
  }
}

void add_vectors(const double* table, std::size_t width, const u32* payload, std::size_t n, double* scores) {
  if (width == 2) return add_fixed<2>(table, payload, n, scores);
  if (width == 3) return add_fixed<3>(table, payload, n, scores);
  for (std::size_t row = 0; row < n; ++row) {
    const double* __restrict from = table + payload[row] * width;
    double* __restrict to = scores + row * width;
    for (std::size_t c = 0; c < width; ++c) to[c] += from[c];
  }
}

}  // namespace

extern const Kernels kTable;
const Kernels kTable = {walk_tree<NarrowNode>, walk_tree<WideNode>, walk_one_row<NarrowNode>, walk_one_row<WideNode>,
                        add_doubles,           add_floats,          add_vectors,             SCURRY_TEXT(SCURRY_ISA)};

}  // namespace scurry::SCURRY_ISA
