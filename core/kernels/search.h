// Search trees in registers. Node i has the children 2 i and 2 i + 1, and the root is node 1, so that the nodes of a level
// lie in registers of their own:
//
//   sorted   3 5 8 …      level 0        5           tree   – 5 3 8 …
//                         level 1      3   8
//
// One step for each level finds how many of the numbers are below those of a vector.
#pragma once

#include <bit>
#include <cstddef>

#include "kernels/isa.h"

namespace scurry::SCURRY_ISA {

// Writes n sorted numbers as a tree of `size` entries, a power of two above n; `above` fills it up.
template <class Number>
void plant_tree(const Number* sorted, std::size_t n, std::size_t size, Number above, Number* tree) {
  tree[0] = above;
  for (std::size_t width = 1; width < size; width *= 2) {
    const std::size_t apart = size / width;
    for (std::size_t i = 0; i < width; ++i) {
      const std::size_t at = i * apart + apart / 2 - 1;
      tree[width + i] = at < n ? sorted[at] : above;
    }
  }
}

#if defined(__AVX2__)

// What kCount registers hold at the low bits of `at`.
template <std::size_t kCount>
inline Signed pick(const Signed* table, Signed at) {
#if defined(__AVX512F__)
  // With masks, because GCC 12 takes the others for uses of a variable that was never set.
  const auto as = [](Signed lanes) { return reinterpret_cast<__m512i>(lanes); };
  if constexpr (kCount == 1) return reinterpret_cast<Signed>(_mm512_maskz_permutexvar_epi32(0xFFFF, as(at), as(table[0])));
  if constexpr (kCount == 2) {
    return reinterpret_cast<Signed>(_mm512_permutex2var_epi32(as(table[0]), as(at), as(table[1])));
  }
#else
  const auto as = [](Signed lanes) { return reinterpret_cast<__m256i>(lanes); };
  if constexpr (kCount == 1) return reinterpret_cast<Signed>(_mm256_permutevar8x32_epi32(as(table[0]), as(at)));
#endif
  else {
    constexpr int kBit = static_cast<int>(kVectorLanes * kCount / 2);
    const Signed low = pick<kCount / 2>(table, at), high = pick<kCount / 2>(table + kCount / 2, at);
#if defined(__AVX512F__)
    const __mmask16 is_high = _mm512_test_epi32_mask(as(at), _mm512_set1_epi32(kBit));
    return reinterpret_cast<Signed>(_mm512_mask_blend_epi32(is_high, as(low), as(high)));
#else
    const auto is_high = reinterpret_cast<__m256>(at << (31 - std::countr_zero(unsigned{kBit})));
    return reinterpret_cast<Signed>(
        _mm256_blendv_ps(reinterpret_cast<__m256>(low), reinterpret_cast<__m256>(high), is_high));
#endif
  }
}

// The numbers at some nodes, all of one level.
template <std::size_t kLevel>
inline Signed pick_level(const Signed* tree, Signed node) {
  constexpr std::size_t kNodes = std::size_t{1} << kLevel;
  if constexpr (kNodes < kVectorLanes) return pick<1>(tree, node);
  else return pick<kNodes / kVectorLanes>(tree + kNodes / kVectorLanes, node);
}

#endif

}  // namespace scurry::SCURRY_ISA
