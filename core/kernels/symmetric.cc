// Symmetric trees (runtime/symmetric.h): ranks of rows, the leaves they reach, and sums over the leaves of all trees.
#include <algorithm>
#include <bit>

#include "kernels/isa.h"

namespace scurry::SCURRY_ISA {
namespace {

using u8 = std::uint8_t;
using Bytes [[gnu::vector_size(SCURRY_VECTOR_BYTES), gnu::may_alias]] = u8;

constexpr std::size_t kByteVectors = kChunk / sizeof(Bytes);
constexpr u32 kFewThresholds = 16;  // up to this many, comparing with all of them is faster than searching

// Counts the thresholds below each of kChunk keys.
void count_thresholds(const u32* thresholds, u32 n, const u32 (&keys)[kChunk], u8* ranks) {
  for (std::size_t row = 0; row < kChunk; row += kVectorLanes) {
    const Signed x = reinterpret_cast<Signed>(*reinterpret_cast<const Vector*>(keys + row) ^ 0x80000000u);
    Signed count{};
    for (u32 i = 0; i < n; ++i) count -= x > signed_key(thresholds[i]);
    for (std::size_t lane = 0; lane < kVectorLanes; ++lane) ranks[row + lane] = static_cast<u8>(count[lane]);
  }
}

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

void test_set(const CategoryTest& test, const u32* bits, const u32 (&codes)[kChunk], u8* ranks) {
  for (std::size_t row = 0; row < kChunk; ++row) {
    const u32 code = codes[row];
    const bool in_set = code < test.n_bits ? (bits[test.first_word + code / 32] >> (code % 32)) & 1u
                                           : code == kNanKey && test.nan_left;
    ranks[row] = !in_set;
  }
}

void rank_rows(const Ranking& ranking, const u32* by_row, std::size_t key_stride, std::size_t n, u8* ranks,
               std::size_t stride) {
  alignas(64) u32 keys[kChunk];
  for (std::size_t first = 0; first < n; first += kChunk) {
    u8* out = ranks + first;
    for (const RankColumn& column : ranking.columns) {
      const u32* from = by_row + first * key_stride + column.column;
      for (std::size_t row = 0; row < kChunk; ++row) keys[row] = from[row * key_stride];
      if (column.n_thresholds == 0) {
        test_set(ranking.category_tests[column.first], ranking.category_bits, keys, out);
      } else if (column.n_thresholds <= kFewThresholds) {
        count_thresholds(ranking.thresholds + column.first, column.n_thresholds, keys, out);
      } else {
        search_thresholds(ranking.thresholds + column.first, column.n_thresholds, keys, out);
      }
      out += stride;
    }
  }
}

// Sets a bit of the numbers of leaves where a rank is high enough.
inline Bytes answer(Bytes leaf, Bytes rank, u8 least, u8 bit) {
#if defined(__AVX512F__)
  const __mmask64 yes = _mm512_cmpge_epu8_mask(reinterpret_cast<__m512i>(rank), _mm512_set1_epi8(static_cast<char>(least)));
  const __m512i old = reinterpret_cast<__m512i>(leaf);
  return reinterpret_cast<Bytes>(_mm512_mask_add_epi8(old, yes, old, _mm512_set1_epi8(static_cast<char>(bit))));
#else
  return leaf | (reinterpret_cast<Bytes>(rank >= least) & bit);
#endif
}

// leaf[row] of kChunk rows from `row` on.
inline void find_leaves(const SymmetricTree& tree, const RankTest* tests, const Ranks& ranks, std::size_t row,
                        u8* leaf) {
  Bytes found[kByteVectors] = {};
  for (u32 level = 0; level < tree.depth; ++level) {
    const RankTest& test = tests[tree.first_test + level];
    const auto* rank = reinterpret_cast<const Bytes*>(ranks.of_rows + test.column * ranks.stride + row);
    for (std::size_t v = 0; v < kByteVectors; ++v) {
      found[v] = answer(found[v], rank[v], test.least, static_cast<u8>(1u << level));
    }
  }
  for (std::size_t v = 0; v < kByteVectors; ++v) reinterpret_cast<Bytes*>(leaf)[v] = found[v];
}

void walk(const SymmetricTree& tree, const RankTest* tests, const Ranks& ranks, std::size_t n,
          const u32* payload_of_leaf, u32* payload) {
  alignas(64) u8 leaf[kChunk];
  const u32* of_leaf = payload_of_leaf + tree.first_leaf;
  for (std::size_t row = 0; row < n; row += kChunk) {
    find_leaves(tree, tests, ranks, row, leaf);
    for (std::size_t i = 0; i < kChunk; ++i) payload[row + i] = of_leaf[leaf[i]];
  }
}

// Adds kTogether trees at a time, so that sums stay in registers for as many additions.
template <std::size_t kTogether, class Add>
void for_each_group(std::span<const SymmetricTree> trees, const RankTest* tests, const Ranks& ranks, std::size_t n,
                    Add add) {
  alignas(64) u8 leaf[kTogether][kChunk];
  for (std::size_t first = 0; first < trees.size(); first += kTogether) {
    const std::size_t n_trees = std::min(kTogether, trees.size() - first);
    for (std::size_t row = 0; row < n; row += kChunk) {
      for (std::size_t t = 0; t < n_trees; ++t) find_leaves(trees[first + t], tests, ranks, row, leaf[t]);
      add(trees.subspan(first, n_trees), leaf, row);
    }
  }
}

template <std::size_t kVectors>
void add_wide(std::span<const SymmetricTree> trees, const RankTest* tests, const Ranks& ranks, std::size_t n,
              const double* values, double* sums) {
  constexpr std::size_t kTogether = 16;
  const auto* table = reinterpret_cast<const Doubles*>(values);
  auto* totals = reinterpret_cast<Doubles*>(sums);
  for_each_group<kTogether>(trees, tests, ranks, n, [=](auto group, const auto& leaf, std::size_t row) {
    const auto add = [&](std::size_t n_trees) {
      const Doubles* of_tree[kTogether] = {};
      for (std::size_t t = 0; t < n_trees; ++t) of_tree[t] = table + group[t].first_leaf * kVectors;
      for (std::size_t i = 0; i < kChunk; ++i) {
        Doubles total[kVectors];
        std::copy_n(totals + (row + i) * kVectors, kVectors, total);
        for (std::size_t t = 0; t < n_trees; ++t) {
          const Doubles* value = of_tree[t] + leaf[t][i] * kVectors;
          for (std::size_t v = 0; v < kVectors; ++v) total[v] += value[v];
        }
        std::copy_n(total, kVectors, totals + (row + i) * kVectors);
      }
    };
    group.size() == kTogether ? add(kTogether) : add(group.size());
  });
}

void add_vectors(std::span<const SymmetricTree> trees, const RankTest* tests, const Ranks& ranks, std::size_t n,
                 const double* values, std::size_t width, double* sums) {
  if (width == 8) return add_wide<8 / kDoubleLanes>(trees, tests, ranks, n, values, sums);
  add_wide<16 / kDoubleLanes>(trees, tests, ranks, n, values, sums);
}

#if defined(__AVX512F__)

constexpr bool kLeavesAreWords = true;

// Looks up 32 words by the low bytes of `at` in a table of 64 * kTables words.
template <std::size_t kTables>
inline __m512i look_up(const __m512i* words, __m512i at) {
  const auto in_table = [&](std::size_t table) {
    return _mm512_permutex2var_epi16(words[2 * table], at, words[2 * table + 1]);  // reads 6 bits of `at`
  };
  if constexpr (kTables == 1) return in_table(0);
  const __mmask32 bit6 = _mm512_test_epi16_mask(at, _mm512_set1_epi16(0x40));
  const __m512i low = _mm512_mask_blend_epi16(bit6, in_table(0), in_table(1));
  if constexpr (kTables == 2) return low;
  const __mmask32 bit7 = _mm512_test_epi16_mask(at, _mm512_set1_epi16(0x80));
  return _mm512_mask_blend_epi16(bit7, low, _mm512_mask_blend_epi16(bit6, in_table(kTables - 2), in_table(kTables - 1)));
}

// Adds one tree to the sums of n rows. A double is looked up as four words, which are then put together:
//
//   word 3 of rows  0 2 4 … 62    word 2 …    word 1 …    word 0 …     (even rows, then odd rows)
//             \______ unpack _______/             \__ unpack __/
//                        \_________ unpack __________/
//   doubles of rows 0 2 16 18 32 34 48 50, of rows 4 6 20 22 …, and so on
//
// The sums of a chunk lie in that order (see place_of) until all trees are added.
template <u32 kDepth>
void add_tree(const SymmetricTree& tree, const RankTest* tests, const Ranks& ranks, std::size_t n,
              const double* values, double* sums) {
  constexpr std::size_t kTables = kDepth <= 6 ? 1 : std::size_t{1} << (kDepth - 6);
  const u8* rank[kDepth + 1];
  __m512i least[kDepth + 1];
  for (u32 level = 0; level < kDepth; ++level) {
    const RankTest& test = tests[tree.first_test + level];
    rank[level] = ranks.of_rows + test.column * ranks.stride;
    least[level] = _mm512_set1_epi8(static_cast<char>(test.least));
  }
  __m512i words[4][2 * kTables];
  for (std::size_t w = 0; w < 4; ++w) {
    for (std::size_t i = 0; i < 2 * kTables; ++i) words[w][i] = _mm512_load_si512(values + (w * 2 * kTables + i) * 8);
  }
  for (std::size_t row = 0; row < n; row += kChunk) {
    __m512i leaf = _mm512_setzero_si512();
    for (u32 level = 0; level < kDepth; ++level) {
      const __mmask64 yes = _mm512_cmpge_epu8_mask(_mm512_load_si512(rank[level] + row), least[level]);
      leaf = _mm512_mask_add_epi8(leaf, yes, leaf, _mm512_set1_epi8(static_cast<char>(1u << level)));
    }
    for (std::size_t odd = 0; odd < 2; ++odd) {
      const __m512i at = odd ? _mm512_srli_epi16(leaf, 8) : leaf;
      const __m512i w0 = look_up<kTables>(words[0], at), w1 = look_up<kTables>(words[1], at);
      const __m512i w2 = look_up<kTables>(words[2], at), w3 = look_up<kTables>(words[3], at);
      const __m512i low[2] = {_mm512_unpacklo_epi16(w0, w1), _mm512_unpackhi_epi16(w0, w1)};
      const __m512i high[2] = {_mm512_unpacklo_epi16(w2, w3), _mm512_unpackhi_epi16(w2, w3)};
      auto* total = reinterpret_cast<Doubles*>(sums + row) + 4 * odd;
      for (std::size_t half = 0; half < 2; ++half) {
        total[2 * half] += reinterpret_cast<Doubles>(_mm512_maskz_unpacklo_epi32(0xFFFF, low[half], high[half]));
        total[2 * half + 1] += reinterpret_cast<Doubles>(_mm512_maskz_unpackhi_epi32(0xFFFF, low[half], high[half]));
      }
    }
  }
}

// Where the sum of each row of a chunk lies.
constexpr std::size_t place_of(std::size_t row) {
  const std::size_t word = row / 2, lane = word / 8, pair = word % 8 / 2;
  return 32 * (row % 2) + 8 * pair + 2 * lane + word % 2;
}

void add_doubles(std::span<const SymmetricTree> trees, const RankTest* tests, const Ranks& ranks, std::size_t n,
                 const double* values, std::size_t, double* sums) {
  const auto reorder = [&](bool back) {
    for (double* chunk = sums; chunk < sums + n; chunk += kChunk) {
      double copy[kChunk];
      std::copy_n(chunk, kChunk, copy);
      for (std::size_t row = 0; row < kChunk; ++row) {
        back ? chunk[row] = copy[place_of(row)] : chunk[place_of(row)] = copy[row];
      }
    }
  };
  reorder(false);
  for (const SymmetricTree& tree : trees) {
    switch (tree.depth) {
      case 0: add_tree<0>(tree, tests, ranks, n, values, sums); break;
      case 1: add_tree<1>(tree, tests, ranks, n, values, sums); break;
      case 2: add_tree<2>(tree, tests, ranks, n, values, sums); break;
      case 3: add_tree<3>(tree, tests, ranks, n, values, sums); break;
      case 4: add_tree<4>(tree, tests, ranks, n, values, sums); break;
      case 5: add_tree<5>(tree, tests, ranks, n, values, sums); break;
      case 6: add_tree<6>(tree, tests, ranks, n, values, sums); break;
      case 7: add_tree<7>(tree, tests, ranks, n, values, sums); break;
      default: add_tree<8>(tree, tests, ranks, n, values, sums); break;
    }
    values += std::max<std::size_t>(std::size_t{1} << tree.depth, kChunk);
  }
  reorder(true);
}

#else

constexpr bool kLeavesAreWords = false;

void add_doubles(std::span<const SymmetricTree> trees, const RankTest* tests, const Ranks& ranks, std::size_t n,
                 const double* values, std::size_t, double* sums) {
  constexpr std::size_t kTogether = 8;
  for_each_group<kTogether>(trees, tests, ranks, n, [=](auto group, const auto& leaf, std::size_t row) {
    const auto add = [&](std::size_t n_trees) {
      const double* of_tree[kTogether] = {};
      for (std::size_t t = 0; t < n_trees; ++t) of_tree[t] = values + group[t].first_leaf;
      for (std::size_t i = 0; i < kChunk; ++i) {
        double total = sums[row + i];
        for (std::size_t t = 0; t < n_trees; ++t) total += of_tree[t][leaf[t][i]];
        sums[row + i] = total;
      }
    };
    group.size() == kTogether ? add(kTogether) : add(group.size());
  });
}

#endif

}  // namespace

const SymmetricKernels kSymmetricKernels = {rank_rows, walk, add_doubles, add_vectors, kLeavesAreWords};

}  // namespace scurry::SCURRY_ISA
