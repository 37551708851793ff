// Makes all node tests in the top levels of a tree at once, on a row that is held in registers.
//
// Sixteen tests take one permutation of the row, which picks their columns, and one comparison. The outcomes are bits,
// and the path through the tree is read from these bits for sixteen rows at once, some rows later.
#pragma once

#include <algorithm>

#include "kernels/isa.h"

namespace scurry::SCURRY_ISA {

// The nodes reached after `levels` levels of complete binary heaps. Bit i of a lane is the outcome of its test i.
inline Vector follow(Vector outcomes, u32 levels) {
  Vector node = {};
  for (u32 level = 0; level < levels; ++level) node = 2 * node + 1 + ((outcomes >> node) & 1);
  return node;
}

#if defined(__AVX512F__)
constexpr std::size_t kMaxRegisterStride = 64, kLongStride = 128;
#else
constexpr std::size_t kMaxRegisterStride = 0, kLongStride = 0;
#endif

// Whether rows of a stride are held in registers; 0 is any stride that is not known at compile time.
constexpr bool fits_registers(std::size_t stride) { return stride != 0 && stride <= kMaxRegisterStride; }

// The levels that are worth testing in registers: in the longest rows, picking the columns of the sixteen tests of a fifth
// level takes longer than walking it.
constexpr u32 register_levels(std::size_t stride) { return stride <= kMaxRegisterStride ? 5 : kTopsLevels; }

// at[row] after the tree's top `levels` levels, which are no more than register_levels().
template <std::size_t kStride, bool kMissing>
void walk_top_by_row(const Walk<NarrowNode>& walk, const Tree& tree, u32 levels, const Block& block, u32* at);

// at[t * spacing + row] after the top kTopsLevels levels of several trees, of rows of kLongStride keys: loading so many
// registers for one tree alone takes as long as walking does.
template <bool kMissing>
void walk_tops_by_row(const Walk<NarrowNode>& walk, const Tree* trees, std::size_t n_trees, const Block& block, u32* at,
                      std::size_t spacing);

#if defined(__AVX512F__)

template <std::size_t kStride>
class RowInRegisters {
 public:
  explicit RowInRegisters(const u32* keys) {
    for (std::size_t part = 0; part < kParts; ++part) parts_[part] = _mm512_load_si512(keys + kVectorLanes * part);
  }

  __m512i pick(__m512i columns) const {
    if constexpr (kParts == 1) {
      return _mm512_maskz_permutexvar_epi32(0xFFFF, columns, parts_[0]);
    } else if constexpr (kParts == 2) {
      return _mm512_permutex2var_epi32(parts_[0], columns, parts_[1]);
    } else if constexpr (kParts == 3) {
      const __m512i low = _mm512_permutex2var_epi32(parts_[0], columns, parts_[1]);
      return _mm512_mask_permutexvar_epi32(low, _mm512_test_epi32_mask(columns, _mm512_set1_epi32(32)), columns,
                                           parts_[2]);
    } else {
      const __m512i low = pick_of_four(0, columns);
      if constexpr (kParts == 4) return low;
      return _mm512_mask_blend_epi32(_mm512_test_epi32_mask(columns, _mm512_set1_epi32(64)), low,
                                     pick_of_four(kParts - 4, columns));
    }
  }

 private:
  static constexpr std::size_t kParts = kStride / kVectorLanes;

  __m512i pick_of_four(std::size_t first, __m512i columns) const {
    const __m512i low = _mm512_permutex2var_epi32(parts_[first], columns, parts_[first + 1]);
    const __m512i high = _mm512_permutex2var_epi32(parts_[first + 2], columns, parts_[first + 3]);
    return _mm512_mask_blend_epi32(_mm512_test_epi32_mask(columns, _mm512_set1_epi32(32)), low, high);
  }

  __m512i parts_[kParts];
};

// The first 31 nodes of a tree. Behind a smaller tree, other nodes are read as well, but their outcomes are never used.
template <bool kMissing>
class TopTests {
 public:
  TopTests() = default;
  TopTests(const Walk<NarrowNode>& walk, const Tree& tree) {
    const NarrowNode* nodes = walk.nodes + tree.first;
    for (std::size_t half = 0; half < 2; ++half, nodes += kVectorLanes) {
      const __m512i low = _mm512_loadu_si512(nodes), high = _mm512_loadu_si512(nodes + kVectorLanes / 2);
      const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
      keys_[half] = _mm512_permutex2var_epi32(low, even, high);
      const __m512i rest = _mm512_permutex2var_epi32(low, _mm512_add_epi32(even, _mm512_set1_epi32(1)), high);
      columns_[half] = _mm512_and_si512(rest, _mm512_set1_epi32(0xFFFF));
    }
    if constexpr (kMissing) {
      const u32* words = walk.marks + tree.first / 32;
      marks_ = static_cast<u32>((words[0] | std::uint64_t{words[1]} << 32) >> (tree.first % 32));
    }
  }

  template <std::size_t kStride>
  u32 outcomes(const RowInRegisters<kStride>& row) const {
    if constexpr (register_levels(kStride) <= 4) return half_of_outcomes(row, 0);
    return _mm512_kunpackw(half_of_outcomes(row, 1), half_of_outcomes(row, 0));
  }

 private:
  template <std::size_t kStride>
  __mmask16 half_of_outcomes(const RowInRegisters<kStride>& row, std::size_t half) const {
    const __m512i x = row.pick(columns_[half]);
    const __mmask16 right = _mm512_cmpgt_epu32_mask(x, keys_[half]);
    if constexpr (!kMissing) return right;
    const __mmask16 missing = _mm512_cmpeq_epi32_mask(x, _mm512_set1_epi32(-1));
    return static_cast<__mmask16>(right & ~(missing & (marks_ >> (16 * half))));
  }

  __m512i keys_[2], columns_[2];
  u32 marks_ = 0;
};

// How many rows are tested before paths are followed. Outcomes are stored row by row and loaded sixteen at a time, which
// has to wait until all sixteen have left the processor's queue of stores: long ago, with so many rows between.
constexpr std::size_t kRowsBetween = 256;

// Replaces the outcomes of n rows by the nodes they reach.
inline void follow_all(u32* at, std::size_t n, u32 levels) {
  for (std::size_t row = 0; row < n; row += kVectorLanes) {
    auto& of_rows = *reinterpret_cast<Vector*>(at + row);
    of_rows = follow(of_rows, levels);
  }
}

template <std::size_t kStride, bool kMissing>
void walk_top_by_row(const Walk<NarrowNode>& walk, const Tree& tree, u32 levels, const Block& block, u32* at) {
  const TopTests<kMissing> tests(walk, tree);
  const u32* keys = block.by_row;
  const std::size_t n = block.n;
  for (std::size_t first = 0; first < n; first += kRowsBetween) {
    const std::size_t end = std::min(first + kRowsBetween, n);
    for (std::size_t row = first; row < end; ++row) {
      at[row] = tests.outcomes(RowInRegisters<kStride>(keys + row * kStride));
    }
    follow_all(at + first, end - first, levels);
  }
}

template <bool kMissing>
void walk_tops_by_row(const Walk<NarrowNode>& walk, const Tree* trees, std::size_t n_trees, const Block& block, u32* at,
                      std::size_t spacing) {
  TopTests<kMissing> tests[kTopsTogether];
  for (std::size_t t = 0; t < n_trees; ++t) tests[t] = TopTests<kMissing>(walk, trees[t]);
  for (std::size_t row = 0; row < block.n; ++row) {
    const RowInRegisters<kLongStride> keys(block.by_row + row * kLongStride);
    for (std::size_t t = 0; t < n_trees; ++t) at[t * spacing + row] = tests[t].outcomes(keys);
  }
  for (std::size_t t = 0; t < n_trees; ++t) follow_all(at + t * spacing, block.n, std::min(trees[t].top, kTopsLevels));
}

#endif

}  // namespace scurry::SCURRY_ISA
