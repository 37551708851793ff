// Walks rows down the trees: blocks of rows in one tree, one row in many trees, and tree step by tree step.
#include <algorithm>
#include <type_traits>

#include "kernels/top.h"

#define SCURRY_TEXT_(x) #x
#define SCURRY_TEXT(x) SCURRY_TEXT_(x)

namespace scurry::SCURRY_ISA {
namespace {

// The kinds of node tests that a walk may meet. Fewer kinds make faster code.
enum class Tests { kNumbers, kMissing, kCategories };

inline bool in_category_set(const CategoryTest& test, const u32* bits, u32 code) {
  if (code < test.n_bits) return (bits[test.first_word + code / 32] >> (code % 32)) & 1u;
  return code == kNanKey && test.nan_left;
}

template <class Node>
inline bool is_marked(const Walk<Node>& walk, const Node& node) {
  const std::size_t at = static_cast<std::size_t>(&node - walk.nodes);
  return (walk.marks[at / 32] >> (at % 32)) & 1u;
}

// Makes one node test. Returns the distance to the child that the row goes to.
template <class Node, Tests kTests>
inline u32 test_node(const Walk<Node>& walk, const Node& node, const u32* keys) {
  const u32 x = keys[node.column];
  if constexpr (kTests == Tests::kCategories) {
    if (node.column > walk.pad) {
      return node.left + !in_category_set(walk.category_tests[node.key], walk.category_bits, x);
    }
  }
  if constexpr (kTests != Tests::kNumbers) {
    if (x == kNanKey) [[unlikely]] {
      return node.left + !is_marked(walk, node);
    }
  }
  return node.left + (x > node.key);
}

// Walks kLanes consecutive rows down `levels` levels; `at` is read and written.
template <class Node, std::size_t kStride, Tests kTests>
inline void descend(const Walk<Node>& walk, const Node* nodes, const u32* keys, u32 levels, std::size_t (&at)[kLanes]) {
  const std::size_t stride = kStride ? kStride : walk.stride;
  asm("" : "+r"(nodes));  // one base register: GCC would add the offset of the tree again at every test
  // The same nodes, which GCC takes for others: it would compute the address of a node before it reads the parts, which
  // takes longer than an address in each instruction that reads one.
  const Node *of_key = nodes, *of_left = nodes;
  asm("" : "+r"(of_key));
  asm("" : "+r"(of_left));
  for (u32 level = 0; level < levels; ++level) {
#pragma GCC unroll 8
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      if constexpr (kTests == Tests::kNumbers) {
        const u32 x = keys[lane * stride + nodes[at[lane]].column];
        at[lane] += std::size_t{of_left[at[lane]].left} + (x > of_key[at[lane]].key);
      } else {
        at[lane] += test_node<Node, kTests>(walk, nodes[at[lane]], keys + lane * stride);
      }
    }
  }
}

// Gathers the rows that are not at a leaf yet and walks them a few levels at a time until none is left.
template <class Node, std::size_t kStride, Tests kTests>
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
          lane_at[lane] += test_node<Node, kTests>(walk, nodes[lane_at[lane]], lane_keys[lane]);
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

// Puts the outcome of a test, -1 or 0 in each lane, below the outcomes of the tests after it.
inline Vector append(Vector outcomes, Signed is_true, [[maybe_unused]] u32 test) {
#if defined(__AVX512F__)
  return is_true ? outcomes | (1u << test) : outcomes;  // one masked instruction after the comparison
#else
  return outcomes + outcomes - reinterpret_cast<Vector&>(is_true);
#endif
}

// With four lanes, making all tests of the heap takes longer than walking: measured, twice as long.
constexpr bool kTestsByColumn = kVectorLanes >= 8;

// Writes at[row] after the top levels of the tree: makes every test of the heap for kChunk rows, keeps the outcomes as
// the bits of one word per row, then follows the path through those bits. This takes far fewer instructions than
// walking, and no load depends on another.
template <class Node, bool kMissing>
void walk_top(const Walk<Node>& walk, const Node* nodes, u32 levels, const Block& block, u32* at) {
  constexpr std::size_t kVectors = kChunk / kVectorLanes;
  const u32 n_tests = (1u << levels) - 1;
  for (std::size_t row = 0; row < block.n; row += kChunk) {
    Vector outcome[kVectors] = {};
    for (u32 test = n_tests; test-- > 0;) {  // the last test made becomes bit 0
      const Signed* x =
          reinterpret_cast<const Signed*>(block.by_column + nodes[test].column * block.column_stride + row);
      const std::int32_t key = signed_key(nodes[test].key);
      if (kMissing && is_marked(walk, nodes[test])) {
        for (std::size_t v = 0; v < kVectors; ++v) {
          outcome[v] = append(outcome[v], (x[v] > key) & (x[v] != signed_key(kNanKey)), test);
        }
      } else {
        for (std::size_t v = 0; v < kVectors; ++v) outcome[v] = append(outcome[v], x[v] > key, test);
      }
    }
    for (std::size_t v = 0; v < kVectors; ++v) {
      *reinterpret_cast<Vector*>(at + row + kVectorLanes * v) = follow(outcome[v], levels);
    }
  }
}

template <class Node, std::size_t kStride>
constexpr bool kInRegisters = std::is_same_v<Node, NarrowNode> && fits_registers(kStride);

// out[row] is the node that each row reaches after `levels` levels, or the payload of that node.
template <class Node, std::size_t kStride, Tests kTests>
inline void descend_block(const Walk<Node>& walk, const Tree& tree, const Block& block, u32 levels, bool read_payload,
                          u32* out) {
  const std::size_t stride = kStride ? kStride : walk.stride, n = block.n;
  const u32* keys = block.by_row;
  const Node* nodes = walk.nodes + tree.first;
  constexpr bool kMissing = kTests != Tests::kNumbers;
  u32 top = std::min(tree.top, levels);
  if (block.n_walked > 0) {
    top = std::min(block.n_walked, levels);
  } else if (kTestsByColumn && block.by_column != nullptr) {
    walk_top<Node, kMissing>(walk, nodes, top, block, out);
  } else if constexpr (kInRegisters<Node, kStride>) {
    top = std::min(top, register_levels(kStride));
    walk_top_by_row<kStride, kMissing>(walk, tree, top, block, out);
  } else {
    top = 0;
    std::fill_n(out, n, 0u);
  }
  for (std::size_t row = 0; row < n; row += kLanes) {
    std::size_t at[kLanes];
    for (std::size_t lane = 0; lane < kLanes; ++lane) at[lane] = out[row + lane];
    descend<Node, kStride, kTests>(walk, nodes, keys + row * stride, levels - top, at);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      out[row + lane] = read_payload ? nodes[at[lane]].key : static_cast<u32>(at[lane]);
    }
  }
}

// Rows are finished a few at a time, while their keys are near.
template <class Node, std::size_t kStride, Tests kTests>
void walk_block(const Walk<Node>& walk, const Tree& tree, const Block& block, u32* payload, u32* scratch) {
  constexpr std::size_t kNearRows = 512;
  if (tree.first_phase >= tree.depth) {
    return descend_block<Node, kStride, kTests>(walk, tree, block, tree.first_phase, true, payload);
  }
  const Node* nodes = walk.nodes + tree.first;
  Block part = block;
  for (std::size_t first = 0; first < block.n; first += part.n, payload += part.n) {
    part.n = std::min(kNearRows, block.n - first);
    part.by_row = block.by_row + first * walk.stride;
    if (block.by_column != nullptr) part.by_column = block.by_column + first;
    descend_block<Node, kStride, kTests>(walk, tree, part, tree.first_phase, false, payload);
    finish<Node, kStride, kTests>(walk, nodes, part.by_row, part.n, payload, scratch);
    for (std::size_t row = 0; row < part.n; ++row) payload[row] = nodes[payload[row]].key;
  }
}

// Calls work<kStride>() with the stride of the rows, or 0 if it is none of those known at compile time.
template <class Work>
void with_stride(u32 stride, Work work) {
  switch (stride) {
    case 16: return work.template operator()<16>();
    case 32: return work.template operator()<32>();
    case 48: return work.template operator()<48>();
    case 64: return work.template operator()<64>();
    case 128: return work.template operator()<128>();
    default: return work.template operator()<0>();
  }
}

// Calls work<kStride, kTests>() as the rows require.
template <class Node, class Work>
void specialise(const Walk<Node>& walk, bool missing, Work work) {
  if (walk.has_categories) return work.template operator()<0, Tests::kCategories>();
  with_stride(walk.stride, [&]<std::size_t kStride>() {
    missing ? work.template operator()<kStride, Tests::kMissing>()
            : work.template operator()<kStride, Tests::kNumbers>();
  });
}

template <class Node>
void walk_tree(const Walk<Node>& walk, const Tree& tree, const Block& block, u32* payload, u32* scratch) {
  specialise(walk, block.has_missing, [&]<std::size_t kStride, Tests kTests>() {
    walk_block<Node, kStride, kTests>(walk, tree, block, payload, scratch);
  });
}

template <class Node>
void descend_tree(const Walk<Node>& walk, const Tree& tree, const Block& block, u32 levels, u32* at) {
  specialise(walk, block.has_missing, [&]<std::size_t kStride, Tests kTests>() {
    descend_block<Node, kStride, kTests>(walk, tree, block, levels, false, at);
  });
}

// Walks one row in kTogether trees at once, which hides the latency of memory as many rows do in a block.
template <class Node, Tests kTests, std::size_t kTogether>
void walk_row(const Walk<Node>& walk, const Tree* trees, std::size_t n, const u32* keys, u32* payload) {
  constexpr u32 kLevels = 4, kNoCheck = 8;  // in deep trees, test now and then whether all have reached a leaf
  const Node* nodes = walk.nodes;
  for (std::size_t first = 0; first < n; first += kTogether) {
    u32 at[kTogether], depth = 0;
    for (std::size_t lane = 0; lane < kTogether; ++lane) {
      const Tree& tree = trees[std::min(first + lane, n - 1)];
      at[lane] = tree.first;
      depth = std::max(depth, tree.depth);
      __builtin_prefetch(nodes + trees[std::min(first + lane + kTogether, n - 1)].first);
    }
    for (u32 walking = 1; walking > 0 && depth > 0;) {
      const u32 levels = depth <= kNoCheck ? depth : kLevels;
      for (u32 level = 0; level < levels; ++level) {
#pragma GCC unroll 16
        for (std::size_t lane = 0; lane < kTogether; ++lane) {
          at[lane] += test_node<Node, kTests>(walk, nodes[at[lane]], keys);
        }
      }
      depth -= levels;
      walking = 0;
      for (std::size_t lane = 0; depth > 0 && lane < kTogether; ++lane) walking |= nodes[at[lane]].left;
    }
    const std::size_t lanes = std::min(kTogether, n - first);
    for (std::size_t lane = 0; lane < lanes; ++lane) payload[first + lane] = nodes[at[lane]].key;
  }
}

template <class Node, Tests kTests>
void walk_row(const Walk<Node>& walk, const Tree* trees, std::size_t n, const u32* keys, u32* payload) {
  n > kLanes ? walk_row<Node, kTests, 2 * kLanes>(walk, trees, n, keys, payload)
             : walk_row<Node, kTests, kLanes>(walk, trees, n, keys, payload);
}

inline bool any_missing(const u32* keys, u32 n) {
  bool found = false;
  for (u32 c = 0; c < n; ++c) found |= keys[c] == kNanKey;
  return found;
}

template <class Node>
void walk_one_row(const Walk<Node>& walk, const Tree* trees, std::size_t n, const u32* keys, u32* payload) {
  if (walk.has_categories) return walk_row<Node, Tests::kCategories>(walk, trees, n, keys, payload);
  if (walk.marks && any_missing(keys, walk.pad)) return walk_row<Node, Tests::kMissing>(walk, trees, n, keys, payload);
  walk_row<Node, Tests::kNumbers>(walk, trees, n, keys, payload);
}

template <class Node, Tests kTests>
void steps_in(const Walk<Node>& walk, const u32* trees, std::size_t n, const u32* keys, u32* __restrict at) {
  const Node* nodes = walk.nodes;
  u32 tree = trees[0], node = at[tree];
  for (std::size_t i = 0; i < n; ++i) {
    // A branch, not a select: in the same tree the row continues from a register, and in another tree it does not have
    // to wait for this one.
    if (trees[i] != tree) {
      tree = trees[i];
      node = at[tree];
    }
    node += test_node<Node, kTests>(walk, nodes[node], keys);
    at[tree] = node;
  }
}

template <class Node>
void take_steps(const Walk<Node>& walk, const u32* trees, std::size_t n, const u32* keys, u32* at) {
  if (walk.has_categories) return steps_in<Node, Tests::kCategories>(walk, trees, n, keys, at);
  // Only a few steps are taken at once. Searching for missing values first would cost more than testing for them.
  if (walk.marks) return steps_in<Node, Tests::kMissing>(walk, trees, n, keys, at);
  steps_in<Node, Tests::kNumbers>(walk, trees, n, keys, at);
}

// Only of rows of kLongStride keys.
template <class Node>
void walk_tops([[maybe_unused]] const Walk<Node>& walk, [[maybe_unused]] const Tree* trees,
               [[maybe_unused]] std::size_t n, [[maybe_unused]] const Block& block, [[maybe_unused]] u32* at,
               [[maybe_unused]] std::size_t spacing) {
  if constexpr (std::is_same_v<Node, NarrowNode> && kLongStride > 0) {
    block.has_missing ? walk_tops_by_row<true>(walk, trees, n, block, at, spacing)
                      : walk_tops_by_row<false>(walk, trees, n, block, at, spacing);
  }
}

}  // namespace

template <class Node>
constexpr WalkKernels<Node> kWalkKernels = {walk_tree<Node>, descend_tree<Node>, walk_one_row<Node>, take_steps<Node>,
                                            walk_tops<Node>};

const WalkKernels<NarrowNode> kNarrowKernels = kWalkKernels<NarrowNode>;
const WalkKernels<WideNode> kWideKernels = kWalkKernels<WideNode>;

extern const Kernels kTable;
const Kernels kTable = {kEncodeKernels,    kNarrowKernels, kWideKernels,       kSumKernels,
                        kLaneTestKernels,  kRankKernels,      kRivalKernels,  kStateKernels,      kSymmetricKernels,
                        kSlicedKernels,    kSlicedLaneKernels, kCompressKernels, kMaxRegisterStride, kLongStride, kTestsByColumn,
                        SCURRY_TEXT(SCURRY_ISA)};

}  // namespace scurry::SCURRY_ISA
