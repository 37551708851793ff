// Ranks of rows among the thresholds of their columns (runtime/ranks.h).
#include <algorithm>
#include <bit>

#include "kernels/isa.h"

namespace scurry::SCURRY_ISA {
namespace {

// Up to this many, comparing with all of them is faster than searching.
#if defined(__AVX512F__)
constexpr u32 kFewThresholds = 4;
#else
constexpr u32 kFewThresholds = 16;
#endif

// Counts the thresholds below each of kChunk keys.
void count_thresholds(const u32* thresholds, u32 n, const u32 (&keys)[kChunk], u8* ranks) {
  alignas(64) std::int32_t counts[kChunk];
  for (std::size_t row = 0; row < kChunk; row += kVectorLanes) {
    const Signed x = reinterpret_cast<Signed>(*reinterpret_cast<const Vector*>(keys + row) ^ 0x80000000u);
    Signed count{};
    for (u32 i = 0; i < n; ++i) count -= x > signed_key(thresholds[i]);
    *reinterpret_cast<Signed*>(counts + row) = count;
  }
  for (std::size_t row = 0; row < kChunk; ++row) ranks[row] = static_cast<u8>(counts[row]);
}

#if defined(__AVX512F__)

constexpr u32 kCoarse = 32, kFine = 8;

// The same by halving: first among 31 of them, kept in two registers, then among those between two of these. Several
// vectors take each step together, as none depends on another.
void search_thresholds(const u32* thresholds, u32 n, const u32 (&keys)[kChunk], u8* ranks) {
  constexpr std::size_t kVectors = kChunk / kVectorLanes;
  const u32 step = std::max(std::bit_ceil(n + 1) / kCoarse, 1u);
  const auto splat = [](u32 x) { return _mm512_set1_epi32(static_cast<int>(x)); };
  const auto gather = [&](__m512i at, u32 offset) {
    at = _mm512_add_epi32(at, splat(offset));
    return _mm512_mask_i32gather_epi32(at, 0xFFFF, at, thresholds, 4);
  };
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i spread = _mm512_mullo_epi32(lanes, splat(step));
  const __m512i low = gather(spread, step - 1), high = gather(spread, 17 * step - 1);
  __m512i x[kVectors], rank[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) {
    x[v] = _mm512_load_si512(keys + v * kVectorLanes);
    rank[v] = _mm512_setzero_si512();
  }
  const auto halve = [&](std::size_t v, u32 half, __m512i threshold) {
    rank[v] = _mm512_mask_add_epi32(rank[v], _mm512_cmpgt_epu32_mask(x[v], threshold), rank[v], splat(half));
  };
  for (u32 half = kCoarse / 2; half > 0; half /= 2) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      halve(v, half, _mm512_permutex2var_epi32(low, _mm512_add_epi32(rank[v], splat(half - 1)), high));
    }
  }
  if (step == kFine) {
    // Comparing with all of the last few takes less time than gathering three of them.
    alignas(64) u32 coarse[kChunk];
    for (std::size_t v = 0; v < kVectors; ++v) _mm512_store_si512(coarse + v * kVectorLanes, rank[v]);
    for (std::size_t row = 0; row < kChunk; ++row) {
      const __m256i those = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(thresholds + kFine * coarse[row]));
      const __mmask8 below = _mm256_cmplt_epu32_mask(those, _mm256_set1_epi32(static_cast<int>(keys[row])));
      ranks[row] = static_cast<u8>(kFine * coarse[row] + static_cast<u32>(std::popcount(static_cast<u8>(below))));
    }
    return;
  }
  for (std::size_t v = 0; v < kVectors; ++v) rank[v] = _mm512_mullo_epi32(rank[v], splat(step));
  for (u32 half = step / 2; half > 0; half /= 2) {
    for (std::size_t v = 0; v < kVectors; ++v) halve(v, half, gather(rank[v], half - 1));
  }
  for (std::size_t v = 0; v < kVectors; ++v) {
    _mm_store_si128(reinterpret_cast<__m128i*>(ranks + v * kVectorLanes), _mm512_maskz_cvtepi32_epi8(0xFFFF, rank[v]));
  }
}

#else

// The same by halving; their number with padding is a power of two.
void search_thresholds(const u32* thresholds, u32 n, const u32 (&keys)[kChunk], u8* ranks) {
  const u32 first_half = std::bit_ceil(n + 1) / 2;
  for (std::size_t row = 0; row < kChunk; row += kLanes) {
    u32 rank[kLanes] = {};
    for (u32 half = first_half; half > 0; half /= 2) {
#pragma GCC unroll 8
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        rank[lane] += keys[row + lane] > thresholds[rank[lane] + half - 1] ? half : 0;
      }
    }
    for (std::size_t lane = 0; lane < kLanes; ++lane) ranks[row + lane] = static_cast<u8>(rank[lane]);
  }
}

#endif

inline bool is_in_set(const CategoryTest& test, const u32* bits, u32 code) {
  return code < test.n_bits ? (bits[test.first_word + code / 32] >> (code % 32)) & 1u
                            : code == kNanKey && test.nan_left;
}

void test_set(const CategoryTest& test, const u32* bits, const u32 (&codes)[kChunk], u8* ranks) {
  for (std::size_t row = 0; row < kChunk; ++row) ranks[row] = !is_in_set(test, bits, codes[row]);
}

inline u8 code_of(u32 key) {
  return key < kOtherCode ? static_cast<u8>(key) : key == kNanKey ? kNanCode : kOtherCode;
}

void rank_rows(const Ranking& ranking, const u32* by_row, std::size_t key_stride, std::size_t n, u8* ranks,
               std::size_t stride) {
  alignas(64) u32 keys[kChunk];
  for (std::size_t first = 0; first < n; first += kChunk) {
    u8* out = ranks + first;
    for (const RankColumn& column : ranking.columns) {
      const u32* from = by_row + first * key_stride + column.column;
      for (std::size_t row = 0; row < kChunk; ++row) keys[row] = from[row * key_stride];
      if (column.kind == RankKind::kCodes) {
        for (std::size_t row = 0; row < kChunk; ++row) out[row] = code_of(keys[row]);
        out += stride;
        continue;
      }
      if (column.missing_left) {
        for (std::size_t row = 0; row < kChunk; ++row) keys[row] = keys[row] == kNanKey ? 0 : keys[row];
      }
      if (column.kind == RankKind::kSet) {
        test_set(ranking.category_tests[column.first], ranking.category_bits, keys, out);
      } else if (column.n_thresholds <= kFewThresholds) {
        count_thresholds(ranking.thresholds + column.first, column.n_thresholds, keys, out);
      } else {
        search_thresholds(ranking.thresholds + column.first, column.n_thresholds, keys, out);
      }
      for (std::size_t row = 0; kRankBias != 0 && row < kChunk; ++row) out[row] ^= kRankBias;
      out += stride;
    }
  }
}

// Not for columns of codes. The searches of several columns overlap in the processor: none depends on another.
void rank_row(const Ranking& ranking, const u32* keys, u8* ranks) {
  for (const RankColumn& column : ranking.columns) {
    u32 key = keys[column.column], rank = 0;
    if (column.kind == RankKind::kSet) {
      rank = !is_in_set(ranking.category_tests[column.first], ranking.category_bits, key);
    } else {
      if (column.missing_left && key == kNanKey) key = 0;
      const u32* thresholds = ranking.thresholds + column.first;
      for (u32 half = std::bit_ceil(column.n_thresholds + 1) / 2; half > 0; half /= 2) {
        rank += key > thresholds[rank + half - 1] ? half : 0;
      }
    }
    *ranks++ = static_cast<u8>(rank ^ kRankBias);
  }
}

}  // namespace

const RankKernels kRankKernels = {rank_rows, rank_row};

}  // namespace scurry::SCURRY_ISA
