// Ranks of rows among the thresholds of their columns (runtime/ranks.h).
#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "kernels/keys.h"
#include "kernels/search.h"

namespace scurry::SCURRY_ISA {
namespace {

// Up to this many, comparing with all of them is faster than searching.
#if defined(__AVX512F__)
constexpr u32 kFewThresholds = 4;
#elif defined(__AVX2__)
constexpr u32 kFewThresholds = 8;
#else
constexpr u32 kFewThresholds = 16;
#endif

constexpr u32 kFine = 8;  // thresholds between two coarse ones, if there are many

// Thresholds, evenly spread among those of a column (of all its parts), between which the others are searched: 31, and one
// above all keys.
constexpr std::size_t kCoarse = 32;

// How many of n thresholds there are for each coarse one.
inline u32 step_of(u32 n) {
  const u32 padded = std::bit_ceil(n + 1);
  return padded <= kCoarse ? 1 : padded <= kCoarse * kFine ? kFine : padded / kCoarse;
}

// The coarse threshold at a place: the last one of as many as step_of() says.
inline u32 coarse_at(const u32* thresholds, u32 n, std::size_t place) {
  const std::size_t at = (place + 1) * step_of(n) - 1;
  return at < n ? thresholds[at] : kNanKey;
}

// Counts the thresholds below each of kChunk keys.
void count_thresholds(const u32* thresholds, u32 n, const u32* keys, u8* ranks) {
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

constexpr std::size_t kKeyVectors = kChunk / kVectorLanes;

inline __m512i splat(u32 x) { return _mm512_set1_epi32(static_cast<int>(x)); }

std::size_t table_size(u32 n) { return n > kMaxThresholds ? kCoarse : std::max<std::size_t>(std::bit_ceil(n + 1), kVectorLanes); }

// As many as a byte counts become a search tree. Of more, the coarse ones are in their order.
void arrange(const u32* thresholds, u32 n, u32* table) {
  if (n <= kMaxThresholds) return plant_tree(thresholds, n, table_size(n), kNanKey, table);
  for (std::size_t place = 0; place < kCoarse; ++place) table[place] = coarse_at(thresholds, n, place);
}

// The low bytes of kChunk numbers below 256, in their order.
inline __m512i pack_bytes(const __m512i (&numbers)[kKeyVectors]) {
  // Packing takes four numbers of each register at a time, from a quarter of each.
  const __m512i low = _mm512_packs_epi32(numbers[0], numbers[1]), high = _mm512_packs_epi32(numbers[2], numbers[3]);
  const __m512i fours = _mm512_packus_epi16(low, high);
  const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  return _mm512_maskz_permutexvar_epi32(0xFFFF, order, fours);
}

// Counts the thresholds below keys by going down a search tree, with several vectors at a time, as none depends on another.
template <std::size_t kLevels>
void search_tree(const u32* tree, const u32* keys, std::size_t n, u8* ranks) {
  constexpr std::size_t kRegisters = (std::size_t{1} << kLevels) / kVectorLanes;
  Signed table[kRegisters];
  std::copy_n(reinterpret_cast<const Signed*>(tree), kRegisters, table);
  for (std::size_t row = 0; row < n; row += kChunk) {
    Signed node[kKeyVectors];
    for (Signed& lanes : node) lanes = Signed{} + 1;
    const auto descend = [&]<std::size_t kLevel> {
      for (std::size_t v = 0; v < kKeyVectors; ++v) {
        const Vector threshold = reinterpret_cast<Vector>(pick_level<kLevel>(table, node[v]));
        const Signed above = reinterpret_cast<const Vector*>(keys + row)[v] > threshold;
        node[v] = node[v] + node[v] - above;
      }
    };
    [&]<std::size_t... kLevel>(std::index_sequence<kLevel...>) {
      (descend.template operator()<kLevel>(), ...);
    }(std::make_index_sequence<kLevels>());
    __m512i rank[kKeyVectors];
    for (std::size_t v = 0; v < kKeyVectors; ++v) rank[v] = reinterpret_cast<__m512i>(node[v] - (1 << kLevels));
    _mm512_store_si512(ranks + row, pack_bytes(rank));
  }
}

void search_thresholds(const u32*, u32 n, const u32* table, const u32* keys, std::size_t n_rows, u8* ranks) {
  switch (std::bit_width(table_size(n)) - 1) {
    case 4: return search_tree<4>(table, keys, n_rows, ranks);
    case 5: return search_tree<5>(table, keys, n_rows, ranks);
    case 6: return search_tree<6>(table, keys, n_rows, ranks);
    case 7: return search_tree<7>(table, keys, n_rows, ranks);
    default: return search_tree<8>(table, keys, n_rows, ranks);
  }
}

// Counts the coarse thresholds below each key by halving, kept in two registers. Several vectors take each step together,
// as none depends on another.
void search_coarse(const u32* coarse, const u32* keys, u32* ranks) {
  const __m512i low = _mm512_load_si512(coarse), high = _mm512_load_si512(coarse + kVectorLanes);
  __m512i rank[kKeyVectors];
  for (__m512i& lanes : rank) lanes = _mm512_setzero_si512();
  for (u32 half = kCoarse / 2; half > 0; half /= 2) {
    for (std::size_t v = 0; v < kKeyVectors; ++v) {
      const __m512i threshold = _mm512_permutex2var_epi32(low, _mm512_add_epi32(rank[v], splat(half - 1)), high);
      const __mmask16 above = _mm512_cmpgt_epu32_mask(_mm512_load_si512(keys + v * kVectorLanes), threshold);
      rank[v] = _mm512_mask_add_epi32(rank[v], above, rank[v], splat(half));
    }
  }
  for (std::size_t v = 0; v < kKeyVectors; ++v) _mm512_store_si512(ranks + v * kVectorLanes, rank[v]);
}

// How many of some thresholds are below a key; not all, and their number is a power of two.
inline u32 count_some(const u32* thresholds, u32 n, u32 key) {
  u32 count = 0;
  for (u32 i = 0; i < n; i += kVectorLanes) {
    count += static_cast<u32>(std::popcount(u32{_mm512_cmplt_epu32_mask(_mm512_loadu_si512(thresholds + i), splat(key))}));
  }
  return count;
}

#elif defined(__AVX2__)

std::size_t table_size(u32) { return kCoarse; }

// The coarse ones: the last of every four, then the first, the second and the third of them, as signed keys, in registers
// of eight.
void arrange(const u32* thresholds, u32 n, u32* table) {
  for (std::size_t place = 0; place < kCoarse; ++place) {
    const auto key = static_cast<u32>(signed_key(coarse_at(thresholds, n, place)));
    table[(place + 1) % 4 * kVectorLanes + place / 4] = key;
  }
}

inline Signed pick(Signed table, Signed at) {
  return reinterpret_cast<Signed>(
      _mm256_permutevar8x32_epi32(reinterpret_cast<__m256i>(table), reinterpret_cast<__m256i>(at)));
}

// Counts the coarse thresholds below each key: finds its four by halving, then compares with three of these.
void search_coarse(const u32* coarse, const u32* keys, u32* ranks) {
  const auto* of_four = reinterpret_cast<const Signed*>(coarse);
  const Signed last = of_four[0], first = of_four[1], second = of_four[2], third = of_four[3];
  const Signed middle = Signed{} + last[3];
  for (std::size_t row = 0; row < kChunk; row += kVectorLanes) {
    const Signed x = reinterpret_cast<Signed>(*reinterpret_cast<const Vector*>(keys + row) ^ 0x80000000u);
    Signed four = (x > middle) & 4;
    four += (x > pick(last, four + 1)) & 2;
    four -= x > pick(last, four);
    const Signed below = (x > pick(first, four)) + (x > pick(second, four)) + (x > pick(third, four));
    *reinterpret_cast<Signed*>(ranks + row) = 4 * four - below;
  }
}

// How many of kFine thresholds are below a key.
inline u32 count_fine(const u32* thresholds, u32 key) {
  const __m256i those = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(thresholds));
  const __m256i sign = _mm256_set1_epi32(std::numeric_limits<std::int32_t>::min());
  const __m256i above = _mm256_cmpgt_epi32(_mm256_set1_epi32(signed_key(key)), _mm256_xor_si256(those, sign));
  return static_cast<u32>(std::popcount(static_cast<u8>(_mm256_movemask_ps(_mm256_castsi256_ps(above)))));
}

inline u32 count_some(const u32* thresholds, u32 n, u32 key) {
  u32 count = 0;
  for (u32 half = n / 2; half > 0; half /= 2) count += key > thresholds[count + half - 1] ? half : 0;
  return count;
}

// Counts the thresholds below keys: among the coarse ones, then among those between two of these.
void search_thresholds(const u32* thresholds, u32 n, const u32* coarse, const u32* keys, std::size_t n_rows, u8* ranks) {
  alignas(64) u32 found[kChunk];
  for (; n_rows > 0; n_rows -= kChunk, keys += kChunk, ranks += kChunk) {
    search_coarse(coarse, keys, found);
    if (step_of(n) == 1) {
      for (std::size_t row = 0; row < kChunk; ++row) ranks[row] = static_cast<u8>(found[row]);
    } else {
      for (std::size_t row = 0; row < kChunk; ++row) {
        ranks[row] = static_cast<u8>(kFine * found[row] + count_fine(thresholds + kFine * found[row], keys[row]));
      }
    }
  }
}

#endif

#if defined(__AVX2__)

// Counts more thresholds than a byte does.
void search_many(const u32* thresholds, u32 n, const u32* coarse, const u32* keys, u32* ranks) {
  const u32 step = step_of(n);
  search_coarse(coarse, keys, ranks);
  for (std::size_t row = 0; row < kChunk; ++row) {
    ranks[row] = step * ranks[row] + count_some(thresholds + step * ranks[row], step, keys[row]);
  }
}

#else

// There is no instruction that picks thresholds from registers.
std::size_t table_size(u32) { return 0; }
void arrange(const u32*, u32, u32*) {}

// Counts the thresholds below each key by halving; their number with padding is a power of two.
template <class Rank>
void search(const u32* thresholds, u32 n, const u32* keys, Rank* ranks) {
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

void search_thresholds(const u32* thresholds, u32 n, const u32*, const u32* keys, std::size_t n_rows, u8* ranks) {
  for (std::size_t row = 0; row < n_rows; row += kChunk) search(thresholds, n, keys + row, ranks + row);
}

void search_many(const u32* thresholds, u32 n, const u32*, const u32* keys, u32* ranks) {
  search(thresholds, n, keys, ranks);
}

#endif

// The ranks of a column that is the first of several: one search, of which each column counts its own thresholds.
void rank_parts(const u32* thresholds, const u32* table, const RankColumn* parts, const u32* keys, u8* ranks,
                std::size_t stride) {
  const u32 n_parts = parts->n_parts, last = (n_parts - 1) * kMaxThresholds;
  alignas(64) u32 all[kChunk];
  search_many(thresholds, last + parts[n_parts - 1].n_thresholds, table, keys, all);
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

void test_set(const CategoryTest& test, const u32* bits, const u32* codes, u8* ranks) {
  for (std::size_t row = 0; row < kChunk; ++row) ranks[row] = !is_in_set(test, bits, codes[row]);
}

inline u8 code_of(u32 key) {
  return key < kOtherCode ? static_cast<u8>(key) : key == kNanKey ? kNanCode : kOtherCode;
}

using Square [[gnu::vector_size(std::min(SCURRY_VECTOR_BYTES, 32)), gnu::may_alias]] = u32;
using UnalignedSquare [[gnu::vector_size(sizeof(Square)), gnu::may_alias, gnu::aligned(4)]] = u32;
constexpr std::size_t kSide = sizeof(Square) / sizeof(u32);

// Turns a matrix of kSide x kSide numbers, by taking together rows that are half of them apart.
template <std::size_t... kAt>
inline void transpose(Square (&rows)[kSide], std::index_sequence<kAt...>) {
  for (std::size_t step = 1; step < kSide; step *= 2) {
    Square turned[kSide];
    for (std::size_t i = 0; i < kSide / 2; ++i) {
      const Square a = rows[i], b = rows[i + kSide / 2];
      turned[2 * i] = __builtin_shufflevector(a, b, (kAt % 2 * kSide + kAt / 2)...);
      turned[2 * i + 1] = __builtin_shufflevector(a, b, (kAt % 2 * kSide + kSide / 2 + kAt / 2)...);
    }
    std::copy_n(turned, kSide, rows);
  }
}

// Rows that are ranked together: the thresholds of a column stay in registers for as many, and their keys near the core.
constexpr std::size_t kRankedRows = 4 * kChunk;

static_assert(kSide <= kRankedFloats);

// The values of some rows in a few columns that lie next to each other.
struct ByColumn {
  static constexpr std::size_t kColumns = kSide;
  alignas(64) u32 of[kColumns][kRankedRows];
  std::size_t first = 0, end = 0;

  // Rows have n_values values, kColumns or more, and begin `stride` apart.
  const u32* column(std::size_t c, const u32* by_row, std::ptrdiff_t stride, std::size_t n_values, std::size_t n) {
    if (c < first || c >= end) {
      first = std::min(c / kColumns * kColumns, n_values - kColumns);
      end = first + kColumns;
      for (std::size_t row = 0; row < n; row += kSide) {
        Square rows[kSide];
        for (std::size_t i = 0; i < kSide; ++i) {
          rows[i] = *reinterpret_cast<const UnalignedSquare*>(by_row + static_cast<std::ptrdiff_t>(row + i) * stride + first);
        }
        transpose(rows, std::make_index_sequence<kSide>());
        for (std::size_t i = 0; i < kSide; ++i) *reinterpret_cast<Square*>(of[i] + row) = rows[i];
      }
    }
    return of[c - first];
  }
};

// Ranks n rows in a column, or in all its parts.
void rank_column(const Ranking& ranking, const RankColumn& column, const u32* keys, std::size_t n, u8* ranks,
                 std::size_t stride) {
  const u32 *thresholds = ranking.thresholds + column.first, *table = ranking.tables + column.table;
  if (column.kind == RankKind::kThresholds && column.n_parts == 1 && column.n_thresholds > kFewThresholds) {
    search_thresholds(thresholds, column.n_thresholds, table, keys, n, ranks);
  } else {
    for (std::size_t row = 0; row < n; row += kChunk) {
      if (column.n_parts > 1) {
        rank_parts(thresholds, table, &column, keys + row, ranks + row, stride);
      } else if (column.kind == RankKind::kSet) {
        test_set(ranking.category_tests[column.first], ranking.category_bits, keys + row, ranks + row);
      } else {
        count_thresholds(thresholds, column.n_thresholds, keys + row, ranks + row);
      }
    }
  }
  if (kRankBias == 0 || column.n_parts > 1) return;
  for (std::size_t i = 0; i < n; ++i) ranks[i] ^= kRankBias;
}

void rank_rows(const Ranking& ranking, const u32* by_row, std::size_t key_stride, std::size_t n, u8* ranks,
               std::size_t stride) {
  alignas(64) u32 without_missing[kRankedRows];
  for (std::size_t row = 0; row < n; row += kRankedRows) {
    const std::size_t n_rows = std::min(kRankedRows, n - row);
    ByColumn by_column;
    u8* out = ranks + row;
    for (std::size_t c = 0; c < ranking.columns.size(); c += ranking.columns[c].n_parts) {
      const RankColumn& column = ranking.columns[c];
      const u32* keys = by_column.column(column.column, by_row + row * key_stride,
                                         static_cast<std::ptrdiff_t>(key_stride), key_stride, n_rows);
      if (column.kind == RankKind::kCodes) {
        for (std::size_t i = 0; i < n_rows; ++i) out[i] = code_of(keys[i]);
      } else {
        if (column.missing_left) {
          for (std::size_t i = 0; i < n_rows; ++i) without_missing[i] = keys[i] == kNanKey ? 0 : keys[i];
          keys = without_missing;
        }
        rank_column(ranking, column, keys, n_rows, out, stride);
      }
      out += column.n_parts * stride;
    }
  }
}

bool rank_float_rows(const Ranking& ranking, const FloatColumns& columns, const float* x, std::ptrdiff_t row_stride,
                     std::size_t n, u8* ranks, std::size_t stride) {
  const auto feature_of = [&](std::size_t c) { return columns.feature.empty() ? c : columns.feature[c]; };
  std::size_t n_values = kRankedFloats;
  for (std::size_t c = 0; c < columns.n; ++c) n_values = std::max<std::size_t>(n_values, feature_of(c) + 1);
  alignas(64) u32 keys[kRankedRows];
  Signed missing{};
  for (std::size_t row = 0; row < n; row += kRankedRows, x += static_cast<std::ptrdiff_t>(kRankedRows) * row_stride) {
    const std::size_t n_rows = std::min(kRankedRows, n - row);
    ByColumn by_column;
    u8* out = ranks + row;
    for (std::size_t c = 0; c < ranking.columns.size(); c += ranking.columns[c].n_parts) {
      const RankColumn& column = ranking.columns[c];
      const u32* values = by_column.column(feature_of(column.column), reinterpret_cast<const u32*>(x), row_stride,
                                           n_values, n_rows);
      const u32 nan_key = columns.nan_keys[column.column];
      const Vector key_of_missing = Vector{} + (column.missing_left && nan_key == kNanKey ? 0 : nan_key);
      for (std::size_t i = 0; i < n_rows; i += kVectorLanes) {
        const Floats value = *reinterpret_cast<const Floats*>(values + i);
        const Signed is_missing = value != value;
        *reinterpret_cast<Vector*>(keys + i) = is_missing ? key_of_missing : ordered_keys(value);
        missing |= is_missing;
      }
      rank_column(ranking, column, keys, n_rows, out, stride);
      out += column.n_parts * stride;
    }
  }
  return any(missing);
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

const RankKernels kRankKernels = {table_size, arrange, rank_rows, rank_float_rows, rank_row, rank_numbers<float>, rank_numbers<double>};

}  // namespace scurry::SCURRY_ISA
