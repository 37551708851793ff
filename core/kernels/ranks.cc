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

// The same by halving: first among 31 of them, kept in two registers, then among those between two of these.
void search_thresholds(const u32* thresholds, u32 n, const u32 (&keys)[kChunk], u8* ranks) {
  const int step = static_cast<int>(std::max(std::bit_ceil(n + 1) / 32, 1u));
  const auto gather = [&](__m512i at, int offset) {
    at = _mm512_add_epi32(at, _mm512_set1_epi32(offset));
    return _mm512_mask_i32gather_epi32(at, 0xFFFF, at, thresholds, 4);
  };
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i spread = _mm512_mullo_epi32(lanes, _mm512_set1_epi32(step));
  const __m512i low = gather(spread, step - 1), high = gather(spread, 17 * step - 1);
  for (std::size_t row = 0; row < kChunk; row += kVectorLanes) {
    const __m512i x = _mm512_load_si512(keys + row);
    __m512i rank = _mm512_setzero_si512();
    const auto halve = [&](int half, __m512i threshold) {
      rank = _mm512_mask_add_epi32(rank, _mm512_cmpgt_epu32_mask(x, threshold), rank, _mm512_set1_epi32(half));
    };
    for (int half = 16; half > 0; half /= 2) {
      const __m512i at = _mm512_add_epi32(rank, _mm512_set1_epi32(half - 1));
      halve(half, _mm512_permutex2var_epi32(low, at, high));
    }
    rank = _mm512_mullo_epi32(rank, _mm512_set1_epi32(step));
    for (int half = step / 2; half > 0; half /= 2) halve(half, gather(rank, half - 1));
    _mm_store_si128(reinterpret_cast<__m128i*>(ranks + row), _mm512_maskz_cvtepi32_epi8(0xFFFF, rank));
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
