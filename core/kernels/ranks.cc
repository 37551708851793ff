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

constexpr std::size_t kKeyVectors = kChunk / kVectorLanes;

inline __m512i splat(u32 x) { return _mm512_set1_epi32(static_cast<int>(x)); }

inline __m512i gather(const u32* thresholds, __m512i at, u32 offset) {
  at = _mm512_add_epi32(at, splat(offset));
  return _mm512_mask_i32gather_epi32(at, 0xFFFF, at, thresholds, 4);
}

// Counts the thresholds below each key by halving, among 31 of them, `step` apart and kept in two registers. Several
// vectors take each step together, as none depends on another.
struct CoarseRanks {
  __m512i x[kKeyVectors], rank[kKeyVectors];

  void halve(std::size_t v, u32 half, __m512i threshold) {
    rank[v] = _mm512_mask_add_epi32(rank[v], _mm512_cmpgt_epu32_mask(x[v], threshold), rank[v], splat(half));
  }

  CoarseRanks(const u32* thresholds, u32 step, const u32 (&keys)[kChunk]) {
    const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i spread = _mm512_mullo_epi32(lanes, splat(step));
    const __m512i low = gather(thresholds, spread, step - 1), high = gather(thresholds, spread, 17 * step - 1);
    for (std::size_t v = 0; v < kKeyVectors; ++v) {
      x[v] = _mm512_load_si512(keys + v * kVectorLanes);
      rank[v] = _mm512_setzero_si512();
    }
    for (u32 half = kCoarse / 2; half > 0; half /= 2) {
      for (std::size_t v = 0; v < kKeyVectors; ++v) {
        halve(v, half, _mm512_permutex2var_epi32(low, _mm512_add_epi32(rank[v], splat(half - 1)), high));
      }
    }
  }

  void store(u32* to) const {
    for (std::size_t v = 0; v < kKeyVectors; ++v) _mm512_store_si512(to + v * kVectorLanes, rank[v]);
  }
};

// The same among all of them, then among those between two of these.
void search_thresholds(const u32* thresholds, u32 n, const u32 (&keys)[kChunk], u8* ranks) {
  const u32 step = std::max(std::bit_ceil(n + 1) / kCoarse, 1u);
  CoarseRanks found(thresholds, step, keys);
  if (step == kFine) {
    // Comparing with all of the last few takes less time than gathering three of them.
    alignas(64) u32 coarse[kChunk];
    found.store(coarse);
    for (std::size_t row = 0; row < kChunk; ++row) {
      const __m256i those = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(thresholds + kFine * coarse[row]));
      const __mmask8 below = _mm256_cmplt_epu32_mask(those, _mm256_set1_epi32(static_cast<int>(keys[row])));
      ranks[row] = static_cast<u8>(kFine * coarse[row] + static_cast<u32>(std::popcount(static_cast<u8>(below))));
    }
    return;
  }
  auto& rank = found.rank;
  for (std::size_t v = 0; v < kKeyVectors; ++v) rank[v] = _mm512_mullo_epi32(rank[v], splat(step));
  for (u32 half = step / 2; half > 0; half /= 2) {
    for (std::size_t v = 0; v < kKeyVectors; ++v) found.halve(v, half, gather(thresholds, rank[v], half - 1));
  }
  for (std::size_t v = 0; v < kKeyVectors; ++v) {
    _mm_store_si128(reinterpret_cast<__m128i*>(ranks + v * kVectorLanes), _mm512_maskz_cvtepi32_epi8(0xFFFF, rank[v]));
  }
}

// The same for more thresholds than a byte counts.
void search_many(const u32* thresholds, u32 n, const u32 (&keys)[kChunk], u32* ranks) {
  const u32 step = std::bit_ceil(n + 1) / kCoarse;  // a multiple of the lanes
  CoarseRanks(thresholds, step, keys).store(ranks);
  for (std::size_t row = 0; row < kChunk; ++row) {
    const u32* those = thresholds + step * ranks[row];
    const __m512i key = splat(keys[row]);
    u32 rank = step * ranks[row];
    for (u32 i = 0; i < step; i += kVectorLanes) {
      rank += static_cast<u32>(std::popcount(u32{_mm512_cmplt_epu32_mask(_mm512_loadu_si512(those + i), key)}));
    }
    ranks[row] = rank;
  }
}

#else

// The same by halving; their number with padding is a power of two.
template <class Rank>
void search(const u32* thresholds, u32 n, const u32 (&keys)[kChunk], Rank* ranks) {
  const u32 first_half = std::bit_ceil(n + 1) / 2;
  for (std::size_t row = 0; row < kChunk; row += kLanes) {
    u32 rank[kLanes] = {};
    for (u32 half = first_half; half > 0; half /= 2) {
#pragma GCC unroll 8
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        rank[lane] += keys[row + lane] > thresholds[rank[lane] + half - 1] ? half : 0;
      }
    }
    for (std::size_t lane = 0; lane < kLanes; ++lane) ranks[row + lane] = static_cast<Rank>(rank[lane]);
  }
}

void search_thresholds(const u32* thresholds, u32 n, const u32 (&keys)[kChunk], u8* ranks) {
  search(thresholds, n, keys, ranks);
}

void search_many(const u32* thresholds, u32 n, const u32 (&keys)[kChunk], u32* ranks) {
  search(thresholds, n, keys, ranks);
}

#endif

// The ranks of a column that is the first of several: one search, of which each column counts its own thresholds.
void rank_parts(const u32* thresholds, const RankColumn* parts, const u32 (&keys)[kChunk], u8* ranks,
                std::size_t stride) {
  const u32 n_parts = parts->n_parts, last = (n_parts - 1) * kMaxThresholds;
  alignas(64) u32 all[kChunk];
  search_many(thresholds, last + parts[n_parts - 1].n_thresholds, keys, all);
  for (u32 below = 0; below <= last; below += kMaxThresholds, ranks += stride) {
    for (std::size_t row = 0; row < kChunk; ++row) {
      const u32 rank = std::min(std::max(all[row], below) - below, kMaxThresholds);
      ranks[row] = static_cast<u8>(rank) ^ kRankBias;
    }
  }
}

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
    for (std::size_t c = 0; c < ranking.columns.size(); c += ranking.columns[c].n_parts) {
      const RankColumn& column = ranking.columns[c];
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
      if (column.n_parts > 1) {
        rank_parts(ranking.thresholds + column.first, &column, keys, out, stride);
        out += column.n_parts * stride;
        continue;
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

#if defined(__AVX512F__)

inline __m512 load_numbers(const float* x, __mmask16 some) { return _mm512_maskz_loadu_ps(some, x); }
inline __m512 load_numbers(const double* x, __mmask16 some) {
  const auto low = static_cast<__mmask8>(some), high = static_cast<__mmask8>(some >> 8);
  const __m256 first = _mm512_maskz_cvtpd_ps(0xFF, _mm512_maskz_loadu_pd(low, x));
  const __m256 second = _mm512_maskz_cvtpd_ps(0xFF, _mm512_maskz_loadu_pd(high, x + 8));
  return __builtin_shufflevector(first, second, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

// Halves among floats that stand for every eighth threshold, kept in two registers, then compares with the next eight.
// A threshold whose float is below that of a number is below the number. Where both have the same float, more than eight
// may have to be compared.
template <class T>
void rank_numbers(const double* thresholds, u32 n_padded, const T* x, std::size_t n, u8* ranks) {
  const u32 n_runs = std::max(n_padded / kFine, 1u);
  alignas(64) float coarse[kCoarse];
  for (u32 i = 0; i < kCoarse; ++i) {
    coarse[i] = static_cast<float>(thresholds[std::min((std::min(i, n_runs - 1) + 1) * kFine, n_padded) - 1]);
  }
  const __m512 low = _mm512_load_ps(coarse), high = _mm512_load_ps(coarse + kVectorLanes);
  const auto all = static_cast<__mmask8>((1u << std::min(n_padded, kFine)) - 1);
  for (std::size_t first = 0; first < n; first += kVectorLanes) {
    const std::size_t n_left = std::min(kVectorLanes, n - first);
    const __m512 value = load_numbers(x + first, static_cast<__mmask16>((1u << n_left) - 1));
    __m512i run = _mm512_setzero_si512();
    for (u32 half = std::bit_ceil(n_runs) / 2; half > 0; half /= 2) {
      const __m512 threshold = _mm512_permutex2var_ps(low, _mm512_add_epi32(run, splat(half - 1)), high);
      run = _mm512_mask_add_epi32(run, _mm512_cmp_ps_mask(threshold, value, _CMP_LT_OQ), run, splat(half));
    }
    alignas(64) u32 runs[kVectorLanes];
    _mm512_store_si512(runs, run);
    for (std::size_t i = 0; i < n_left; ++i) {
      const __m512d number = _mm512_set1_pd(static_cast<double>(x[first + i]));
      u32 at = kFine * runs[i];
      __mmask8 below;
      while (true) {
        below = _mm512_mask_cmp_pd_mask(all, _mm512_maskz_loadu_pd(all, thresholds + at), number, _CMP_LT_OQ);
        if (below != 0xFF || at + kFine >= n_padded) [[likely]] {
          break;
        }
        at += kFine;
      }
      const u32 rank = at + static_cast<u32>(std::popcount(static_cast<u8>(below)));
      ranks[first + i] = x[first + i] != x[first + i] ? kNanCode : static_cast<u8>(rank);
    }
  }
}

#else

template <class T>
void rank_numbers(const double* thresholds, u32 n_padded, const T* x, std::size_t n, u8* ranks) {
  for (std::size_t first = 0; first < n; first += kLanes) {
    const std::size_t n_left = std::min(kLanes, n - first);
    double value[kLanes] = {};
    u32 below[kLanes] = {};
    for (std::size_t i = 0; i < n_left; ++i) value[i] = static_cast<double>(x[first + i]);
    for (u32 half = n_padded / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kLanes; ++i) below[i] += thresholds[below[i] + half - 1] < value[i] ? half : 0;
    }
    for (std::size_t i = 0; i < n_left; ++i) {
      ranks[first + i] = value[i] != value[i] ? kNanCode : static_cast<u8>(below[i]);
    }
  }
}

#endif

}  // namespace

const RankKernels kRankKernels = {rank_rows, rank_row, rank_numbers<float>, rank_numbers<double>};

}  // namespace scurry::SCURRY_ISA
