#include "kernels.h"

#include <algorithm>
#include <bit>
#include <limits>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

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

// The distance to the child a row goes to.
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
  asm("" : "+r"(nodes));  // one base register: GCC would add the tree's offset again at every step
  for (u32 level = 0; level < levels; ++level) {
#pragma GCC unroll 8
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      at[lane] += step<Node, kCategories>(walk, nodes[at[lane]], keys + lane * stride);
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
    n_left += nodes[at[row]].left != 0;
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
          lane_at[lane] += step<Node, kCategories>(walk, nodes[lane_at[lane]], lane_keys[lane]);
        }
      }
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        at[lane_row[lane]] = lane_at[lane];
        rows[kept] = lane_row[lane];
        kept += nodes[lane_at[lane]].left != 0;
      }
    }
    n_left = kept;
  }
}

using Vector [[gnu::vector_size(64), gnu::may_alias]] = u32;

// at[row] after the tree's top levels: every test of the heap for kChunk rows, its outcomes as bits of one word a row,
// then the path through those bits. Far fewer instructions than walking, and no load depends on another.
template <class Node>
void walk_top(const Node* nodes, u32 levels, const Block& block, u32* at) {
  constexpr std::size_t kVectors = kChunk / 16;
  const u32 n_tests = (1u << levels) - 1;
  for (std::size_t row = 0; row < block.n; row += kChunk) {
    Vector outcome[kVectors] = {};
    for (u32 test = 0; test < n_tests; ++test) {
      const Vector* x = reinterpret_cast<const Vector*>(block.by_column + nodes[test].column * block.column_stride + row);
      const u32 key = nodes[test].key, bit = 1u << test;
      for (std::size_t v = 0; v < kVectors; ++v) outcome[v] = x[v] > key ? outcome[v] | bit : outcome[v];
    }
    for (std::size_t v = 0; v < kVectors; ++v) {
      Vector node = {};
      for (u32 level = 0; level < levels; ++level) node = 2 * node + 1 + ((outcome[v] >> node) & 1);
      *reinterpret_cast<Vector*>(at + row + 16 * v) = node;
    }
  }
}

// out[row] is the place of the node each row reaches after `levels` levels, or what that node holds as a payload.
template <class Node, std::size_t kStride, bool kCategories>
inline void descend_block(const Walk<Node>& walk, const Tree& tree, const Block& block, u32 levels, bool read_payload,
                          u32* out) {
  const std::size_t stride = kStride ? kStride : walk.stride, n = block.n;
  const u32* keys = block.by_row;
  const Node* nodes = walk.nodes + tree.first;
  const u32 top = block.by_column ? std::min(tree.top, levels) : 0;
  if (top > 0) {
    walk_top(nodes, top, block, out);
  } else {
    std::fill_n(out, n, 0u);
  }
  for (std::size_t row = 0; row < n; row += kLanes) {
    u32 at[kLanes];
    for (std::size_t lane = 0; lane < kLanes; ++lane) at[lane] = out[row + lane];
    descend<Node, kStride, kCategories>(walk, nodes, keys + row * stride, levels - top, at);
    for (std::size_t lane = 0; lane < kLanes; ++lane) out[row + lane] = read_payload ? nodes[at[lane]].key : at[lane];
  }
}

template <class Node, std::size_t kStride, bool kCategories>
void walk_block(const Walk<Node>& walk, const Tree& tree, const Block& block, u32* payload, u32* scratch) {
  const bool one_phase = tree.first_phase >= tree.depth;
  descend_block<Node, kStride, kCategories>(walk, tree, block, tree.first_phase, one_phase, payload);
  if (one_phase) return;
  const Node* nodes = walk.nodes + tree.first;
  finish<Node, kStride, kCategories>(walk, nodes, block.by_row, block.n, payload, scratch);
  for (std::size_t row = 0; row < block.n; ++row) payload[row] = nodes[payload[row]].key;
}

// Calls work<kStride, kCategories>() as fits the rows.
template <class Node, class Work>
void with_stride(const Walk<Node>& walk, Work work) {
  if (walk.has_categories) return work.template operator()<0, true>();
  switch (walk.stride) {
    case 16: return work.template operator()<16, false>();
    case 32: return work.template operator()<32, false>();
    case 48: return work.template operator()<48, false>();
    case 64: return work.template operator()<64, false>();
    case 128: return work.template operator()<128, false>();
    default: return work.template operator()<0, false>();
  }
}

template <class Node>
void walk_tree(const Walk<Node>& walk, const Tree& tree, const Block& block, u32* payload, u32* scratch) {
  with_stride(walk, [&]<std::size_t kStride, bool kCategories>() {
    walk_block<Node, kStride, kCategories>(walk, tree, block, payload, scratch);
  });
}

template <class Node>
void descend_tree(const Walk<Node>& walk, const Tree& tree, const Block& block, u32 levels, u32* at) {
  with_stride(walk, [&]<std::size_t kStride, bool kCategories>() {
    descend_block<Node, kStride, kCategories>(walk, tree, block, levels, false, at);
  });
}

// One row: many trees at once hide the latency that many rows hide in a block.
template <class Node, bool kCategories>
void walk_row(const Walk<Node>& walk, const Tree* trees, std::size_t n, const u32* keys, u32* payload) {
  constexpr u32 kLevels = 4;
  const Node* nodes = walk.nodes;
  for (std::size_t first = 0; first < n; first += kLanes) {
    const std::size_t lanes = std::min(kLanes, n - first);
    u32 at[kLanes];
    u32 depth = 0;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const Tree& tree = trees[first + std::min(lane, lanes - 1)];
      at[lane] = tree.first;
      depth = std::max(depth, tree.depth);
    }
    for (u32 walking = 1; walking > 0 && depth > 0;) {
      const u32 levels = std::min(kLevels, depth);
      for (u32 level = 0; level < levels; ++level) {
#pragma GCC unroll 8
        for (std::size_t lane = 0; lane < kLanes; ++lane) at[lane] += step<Node, kCategories>(walk, nodes[at[lane]], keys);
      }
      depth -= levels;
      walking = 0;
      for (std::size_t lane = 0; lane < kLanes; ++lane) walking |= nodes[at[lane]].left;
    }
    for (std::size_t lane = 0; lane < lanes; ++lane) payload[first + lane] = nodes[at[lane]].key;
  }
}

template <class Node>
void walk_one_row(const Walk<Node>& walk, const Tree* trees, std::size_t n, const u32* keys, u32* payload) {
  walk.has_categories ? walk_row<Node, true>(walk, trees, n, keys, payload)
                      : walk_row<Node, false>(walk, trees, n, keys, payload);
}

template <class Node, bool kCategories>
void steps_in(const Walk<Node>& walk, const u32* trees, std::size_t n, const u32* keys, u32* __restrict at) {
  const Node* nodes = walk.nodes;
  u32 tree = trees[0], node = at[tree];
  for (std::size_t i = 0; i < n; ++i) {
    // A branch, not a select: in the same tree a row goes on from a register, in another it need not wait for this one.
    if (trees[i] != tree) {
      tree = trees[i];
      node = at[tree];
    }
    node += step<Node, kCategories>(walk, nodes[node], keys);
    at[tree] = node;
  }
}

template <class Node>
void take_steps(const Walk<Node>& walk, const u32* trees, std::size_t n, const u32* keys, u32* at) {
  walk.has_categories ? steps_in<Node, true>(walk, trees, n, keys, at) : steps_in<Node, false>(walk, trees, n, keys, at);
}

void add_doubles(const double* table, const u32* payload, std::size_t n, double* scores) {
  for (std::size_t row = 0; row < n; ++row) scores[row] += table[payload[row]];
}

void add_floats(const u32* payload, std::size_t n, float* scores) {
  for (std::size_t row = 0; row < n; ++row) scores[row] += std::bit_cast<float>(payload[row]);
}

using Doubles [[gnu::vector_size(64), gnu::may_alias]] = double;

// kVectors = 0: read the number of vectors at run time.
template <std::size_t kVectors>
void add_wide(const double* table, std::size_t width, const u32* payload, std::size_t n, double* scores) {
  const std::size_t vectors = kVectors ? kVectors : width / 8;
  for (std::size_t row = 0; row < n; ++row) {
    const auto* from = reinterpret_cast<const Doubles*>(table) + payload[row] * vectors;
    auto* to = reinterpret_cast<Doubles*>(scores) + row * vectors;
    for (std::size_t v = 0; v < vectors; ++v) to[v] += from[v];
  }
}

void add_pairs(const double* table, const u32* payload, std::size_t n, double* scores) {
  for (std::size_t row = 0; row < n; ++row) {
    scores[2 * row] += table[2 * payload[row]];
    scores[2 * row + 1] += table[2 * payload[row] + 1];
  }
}

void add_vectors(const double* table, std::size_t width, const u32* payload, std::size_t n, double* scores) {
  switch (width) {
    case 2: return add_pairs(table, payload, n, scores);
    case 8: return add_wide<1>(table, width, payload, n, scores);
    case 16: return add_wide<2>(table, width, payload, n, scores);
    case 24: return add_wide<3>(table, width, payload, n, scores);
    case 32: return add_wide<4>(table, width, payload, n, scores);
    default: return add_wide<0>(table, width, payload, n, scores);
  }
}

// kVectors = 0: in memory, not in registers.
template <std::size_t kVectors>
void sum_wide(const double* table, std::size_t width, const u32* payload, std::size_t n, double* sums) {
  const std::size_t vectors = kVectors ? kVectors : width / 8;
  auto* to = reinterpret_cast<Doubles*>(sums);
  Doubles total[kVectors + 1];
  std::copy_n(to, kVectors, total);
  Doubles* const into = kVectors ? total : to;
  for (std::size_t i = 0; i < n; ++i) {
    const auto* from = reinterpret_cast<const Doubles*>(table) + payload[i] * vectors;
    for (std::size_t v = 0; v < vectors; ++v) into[v] += from[v];
  }
  std::copy_n(total, kVectors, to);
}

void sum_pairs(const double* table, const u32* payload, std::size_t n, double* sums) {
  double first = sums[0], second = sums[1];
  for (std::size_t i = 0; i < n; ++i) {
    first += table[2 * payload[i]];
    second += table[2 * payload[i] + 1];
  }
  sums[0] = first;
  sums[1] = second;
}

void sum_vectors(const double* table, std::size_t width, const u32* payload, std::size_t n, double* sums) {
  switch (width) {
    case 2: return sum_pairs(table, payload, n, sums);
    case 8: return sum_wide<1>(table, width, payload, n, sums);
    case 16: return sum_wide<2>(table, width, payload, n, sums);
    case 24: return sum_wide<3>(table, width, payload, n, sums);
    case 32: return sum_wide<4>(table, width, payload, n, sums);
    default: return sum_wide<0>(table, width, payload, n, sums);
  }
}

using Signed [[gnu::vector_size(64), gnu::may_alias]] = std::int32_t;

// Bit i of the result is the sign of lane i.
inline std::uint64_t bits_of(Signed lanes) {
#if defined(__AVX512F__)
  return _mm512_movepi32_mask(reinterpret_cast<__m512i>(lanes));
#elif defined(__AVX2__)
  const auto* halves = reinterpret_cast<const __m256*>(&lanes);
  return static_cast<u32>(_mm256_movemask_ps(halves[0])) | static_cast<u32>(_mm256_movemask_ps(halves[1])) << 8;
#else
  std::uint64_t bits = 0;
  for (int lane = 0; lane < 16; ++lane) bits |= static_cast<std::uint64_t>(lanes[lane] < 0) << lane;
  return bits;
#endif
}

std::size_t add_and_test(const u32* payload, std::size_t n, std::int32_t* sums, std::int32_t lower, std::int32_t upper,
                         u32* exits) {
  std::size_t n_exits = 0;
  for (std::size_t row = 0; row < n; row += 16) {
    Signed& sum = *reinterpret_cast<Signed*>(sums + row);
    sum += *reinterpret_cast<const Signed*>(payload + row);
    std::uint64_t bits = bits_of((sum <= lower) | (sum >= upper));
    if (n - row < 16) bits &= (1u << (n - row)) - 1;
    for (; bits != 0; bits &= bits - 1) exits[n_exits++] = static_cast<u32>(row + std::countr_zero(bits));
  }
  return n_exits;
}

void add_int_vectors(const std::int32_t* table, std::size_t width, const u32* payload, std::size_t n, std::int32_t* sums) {
  const std::size_t vectors = width / kIntLanes;
  for (std::size_t row = 0; row < n; ++row) {
    const auto* from = reinterpret_cast<const Signed*>(table) + payload[row] * vectors;
    auto* to = reinterpret_cast<Signed*>(sums) + row * vectors;
    for (std::size_t v = 0; v < vectors; ++v) to[v] += from[v];
  }
}

inline Signed larger(Signed a, Signed b) { return a > b ? a : b; }

inline std::int32_t largest(Signed v) {
  v = larger(v, __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  v = larger(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
  v = larger(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
  v = larger(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
  return v[0];
}

void top_two(const std::int32_t* sums, std::size_t width, std::size_t n, std::int32_t* first, std::int32_t* second) {
  const std::size_t vectors = width / kIntLanes;
  for (std::size_t row = 0; row < n; ++row) {
    const auto* v = reinterpret_cast<const Signed*>(sums) + row * vectors;
    // Lane by lane: the largest, and the largest of the others.
    Signed high = v[0], low = Signed{} + std::numeric_limits<std::int32_t>::min();
    for (std::size_t i = 1; i < vectors; ++i) {
      low = larger(low, high < v[i] ? high : v[i]);
      high = larger(high, v[i]);
    }
    first[row] = largest(high);
    const Signed leads = high == first[row];
    second[row] = std::has_single_bit(bits_of(leads)) ? largest(leads ? low : larger(high, low)) : first[row];
  }
}

}  // namespace

extern const Kernels kTable;
const Kernels kTable = {walk_tree<NarrowNode>,    walk_tree<WideNode>,    walk_one_row<NarrowNode>,
                        walk_one_row<WideNode>,   descend_tree<NarrowNode>, descend_tree<WideNode>,
                        take_steps<NarrowNode>,   take_steps<WideNode>,   add_doubles,
                        add_floats,               add_vectors,            sum_vectors,             add_and_test,
                        add_int_vectors,          top_two,
                        SCURRY_TEXT(SCURRY_ISA)};

}  // namespace scurry::SCURRY_ISA
