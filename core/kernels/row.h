// Many tests of one row at once, for sliced and symmetric trees.
#pragma once

#include "kernels/isa.h"

#if defined(__AVX2__)

namespace scurry::SCURRY_ISA {

// Makes kRowTests tests of one row: their columns are picked from registers that hold its ranks, of up to kColumns
// columns. The bit of a test says whether the rank is at least what it asks for, or whether it is not (kSaysLeft).
template <std::size_t kColumns>
class RanksInRegisters {
 public:
#if defined(__AVX512F__)
  explicit RanksInRegisters(const u8* ranks) {
    if constexpr (kColumns == 16) {
      parts_[0] = _mm512_maskz_broadcast_i32x4(0xFFFF, _mm_load_si128(reinterpret_cast<const __m128i*>(ranks)));
    } else {
      for (std::size_t i = 0; i < 2; ++i) parts_[i] = widen(ranks + 32 * i);
    }
  }

  std::uint64_t test(const RowTests& tests) const {
    if constexpr (kColumns == 16) {
      const __m512i picked = _mm512_shuffle_epi8(parts_[0], _mm512_load_si512(tests.column));
      return _mm512_cmpge_epu8_mask(picked, _mm512_load_si512(tests.least));
    } else {
      std::uint64_t outcomes = 0;
      for (std::size_t i = 0; i < 2; ++i) {
        const __m512i picked = _mm512_permutex2var_epi16(parts_[0], widen(tests.column + 32 * i), parts_[1]);
        outcomes |= std::uint64_t{_mm512_cmpge_epu16_mask(picked, widen(tests.least + 32 * i))} << (32 * i);
      }
      return outcomes;
    }
  }

 private:
  static __m512i widen(const u8* bytes) {
    return _mm512_maskz_cvtepu8_epi16(~__mmask32{0}, _mm256_load_si256(reinterpret_cast<const __m256i*>(bytes)));
  }

  __m512i parts_[2];
#else
  explicit RanksInRegisters(const u8* ranks) {
    for (std::size_t i = 0; i < kParts; ++i) {
      parts_[i] = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(ranks + 16 * i)));
    }
  }

  std::uint64_t test(const RowTests& tests) const {
    std::uint64_t outcomes = 0;
    for (std::size_t i = 0; i < 2; ++i) {
      const __m256i column = _mm256_load_si256(reinterpret_cast<const __m256i*>(tests.column + 32 * i));
      __m256i picked = pick(0, column);
      if constexpr (kParts == 4) {  // the sixth bit of a column becomes the sign by which bytes are blended
        picked = _mm256_blendv_epi8(picked, pick(2, column), _mm256_slli_epi16(column, 2));
      }
      const __m256i least = _mm256_load_si256(reinterpret_cast<const __m256i*>(tests.least + 32 * i));
      const __m256i limit = _mm256_xor_si256(least, _mm256_set1_epi8(static_cast<char>(kRankBias)));
      outcomes |= std::uint64_t{static_cast<u32>(_mm256_movemask_epi8(_mm256_cmpgt_epi8(limit, picked)))} << (32 * i);
    }
    return outcomes;
  }

 private:
  static constexpr std::size_t kParts = kColumns / 16;

  // Of the 32 columns from a part on, or of 16 if there are no more.
  __m256i pick(std::size_t part, __m256i column) const {
    const __m256i low = _mm256_shuffle_epi8(parts_[part], column);
    if constexpr (kParts == 1) return low;
    // The fifth bit.
    return _mm256_blendv_epi8(low, _mm256_shuffle_epi8(parts_[part + 1], column), _mm256_slli_epi16(column, 3));
  }

  __m256i parts_[kParts];
#endif
};

// Calls a function with the ranks of a row in registers that suffice for n_columns.
template <class Function>
void with_ranks(const u8* ranks, std::size_t n_columns, Function function) {
  if (n_columns <= 16) return function(RanksInRegisters<16>(ranks));
#if !defined(__AVX512F__)
  if (n_columns <= 32) return function(RanksInRegisters<32>(ranks));
#endif
  function(RanksInRegisters<kMaxRowRanks>(ranks));
}

}  // namespace scurry::SCURRY_ISA

#endif
