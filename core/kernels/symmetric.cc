// Symmetric trees (runtime/symmetric.h): the leaves that rows reach, and sums over the leaves of all trees.
#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/row.h"

namespace scurry::SCURRY_ISA {
namespace {

constexpr std::size_t kByteVectors = kChunk / sizeof(Bytes);

// Sets a bit of the numbers of leaves where a rank is high enough.
inline Bytes answer(Bytes leaf, Bytes rank, u8 least, u8 bit) {
#if defined(__AVX512F__)
  const __m512i old = reinterpret_cast<__m512i>(leaf), given = reinterpret_cast<__m512i>(rank);
  const __mmask64 yes = _mm512_cmpge_epu8_mask(given, _mm512_set1_epi8(static_cast<char>(least)));
  return reinterpret_cast<Bytes>(_mm512_mask_add_epi8(old, yes, old, _mm512_set1_epi8(static_cast<char>(bit))));
#else
  const auto above = static_cast<std::int8_t>((least - 1) ^ kRankBias);
  return leaf | (reinterpret_cast<Bytes>(reinterpret_cast<SignedBytes>(rank) > above) & bit);
#endif
}

// leaf[row] of kChunks chunks of rows from `row` on.
template <std::size_t kChunks = 1>
inline void find_leaves(const SymmetricTree& tree, const RankTest* tests, const Ranks& ranks, std::size_t row,
                        u8* leaf) {
  Bytes found[kChunks * kByteVectors] = {};
  for (u32 level = 0; level < tree.depth; ++level) {
    const RankTest& test = tests[tree.first_test + level];
    const auto* rank = reinterpret_cast<const Bytes*>(ranks.of_rows + test.column * ranks.stride + row);
    for (std::size_t v = 0; v < kChunks * kByteVectors; ++v) {
      found[v] = answer(found[v], rank[v], test.least, static_cast<u8>(1u << level));
    }
  }
  for (std::size_t v = 0; v < kChunks * kByteVectors; ++v) reinterpret_cast<Bytes*>(leaf)[v] = found[v];
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

// One row in all trees. Their tests are independent, so that the processor makes several at once; a vector of them
// would have to gather its keys, which takes longer (the compiler is kept from that).
void walk_row(const RowTest* tests, u32 depth, std::span<const SymmetricTree> trees, const u32* keys,
              const u32* payload_of_leaf, u32* payload) {
  for (std::size_t first = 0; first < trees.size(); first += kRowTrees, tests += depth) {
    const std::size_t n_trees = std::min(kRowTrees, trees.size() - first);
    for (std::size_t t = 0; t < n_trees; ++t) {
      u32 leaf = 0;
      for (u32 level = 0; level < depth; ++level) {
        u32 yes = keys[tests[level].column[t]] > tests[level].key[t];
        asm("" : "+r"(yes));
        leaf |= yes << level;
      }
      payload[first + t] = payload_of_leaf[trees[first + t].first_leaf + leaf];
    }
  }
}

#if defined(__AVX2__)

constexpr std::size_t kMostRowRanks = kMaxRowRanks;

void leaves_of_row(std::span<const RowTests> groups, const std::uint64_t* asked, const u8* ranks,
                   std::size_t n_columns, u8* leaf) {
  with_ranks(ranks, n_columns, [&](const auto& row) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const std::uint64_t outcomes = row.test(groups[g]);
      const std::uint64_t leaves = (kSaysLeft ? ~outcomes : outcomes) & asked[g];  // a byte of each tree
      std::memcpy(leaf + g * kTestedTrees, &leaves, sizeof leaves);
    }
  });
}

#else

constexpr std::size_t kMostRowRanks = 0;

void leaves_of_row(std::span<const RowTests>, const std::uint64_t*, const u8*, std::size_t, u8*) {}

#endif

// Adds kTogether trees at a time, so that sums stay in registers for as many additions. Their tests are made for several
// chunks of rows, because what is compared with takes longer to set than to compare.
template <std::size_t kTogether, class Add>
void for_each_group(std::span<const SymmetricTree> trees, const RankTest* tests, const Ranks& ranks, std::size_t n,
                    Add add) {
  constexpr std::size_t kChunks = 4;
  alignas(64) u8 leaf[kTogether][kChunks * kChunk];
  for (std::size_t first = 0; first < trees.size(); first += kTogether) {
    const auto group = trees.subspan(first, std::min(kTogether, trees.size() - first));
    const auto add_rows = [&]<std::size_t kCount>(std::size_t row) {
      for (std::size_t t = 0; t < group.size(); ++t) find_leaves<kCount>(group[t], tests, ranks, row, leaf[t]);
      for (std::size_t chunk = 0; chunk < kCount; ++chunk) add(group, leaf, chunk * kChunk, row + chunk * kChunk);
    };
    std::size_t row = 0;
    for (; row + kChunks * kChunk <= n; row += kChunks * kChunk) add_rows.template operator()<kChunks>(row);
    for (; row < n; row += kChunk) add_rows.template operator()<1>(row);
  }
}

// Where the numbers of a leaf begin in the table of its tree, in bytes, is read for several rows at once.
template <std::size_t kVectors>
void add_wide(std::span<const SymmetricTree> trees, const RankTest* tests, const Ranks& ranks, std::size_t n,
              const double* values, double* sums) {
  constexpr std::size_t kTogether = 8, kRows = 4;
  constexpr std::size_t kLeafBytes = kVectors * sizeof(Doubles);
  static_assert(255 * kLeafBytes <= UINT16_MAX);
  auto* totals = reinterpret_cast<Doubles*>(sums);
  for_each_group<kTogether>(trees, tests, ranks, n, [=](auto group, const auto& leaf, std::size_t at, std::size_t row) {
    const auto add = [&](std::size_t n_trees) {
      const char* of_tree[kTogether] = {};
      alignas(64) std::uint16_t place[kTogether][kChunk];
      for (std::size_t t = 0; t < n_trees; ++t) {
        of_tree[t] = reinterpret_cast<const char*>(values) + group[t].first_leaf * kLeafBytes;
        for (std::size_t i = 0; i < kChunk; ++i) place[t][i] = static_cast<std::uint16_t>(leaf[t][at + i] * kLeafBytes);
      }
      for (std::size_t i = 0; i < kChunk; i += kRows) {
        Doubles* of_rows = totals + (row + i) * kVectors;
        Doubles total[kRows * kVectors];
        for (std::size_t v = 0; v < kRows * kVectors; ++v) total[v] = of_rows[v];
        for (std::size_t t = 0; t < n_trees; ++t) {
          std::uint64_t places;
          std::memcpy(&places, place[t] + i, sizeof places);
          for (std::size_t r = 0; r < kRows; ++r) {
            const auto* value = reinterpret_cast<const Doubles*>(of_tree[t] + (places >> (16 * r) & UINT16_MAX));
            for (std::size_t v = 0; v < kVectors; ++v) total[r * kVectors + v] += value[v];
          }
        }
        for (std::size_t v = 0; v < kRows * kVectors; ++v) of_rows[v] = total[v];
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

// Which of several tables of 64 words a leaf's words are in.
struct TableBits {
  __mmask32 bit6, bit7;
};

// Looks up 32 words by the low bytes of `at` in a table of 64 * kTables words.
template <std::size_t kTables>
inline __m512i look_up(const __m512i (&words)[2 * kTables], __m512i at, [[maybe_unused]] const TableBits& bits) {
  const auto in_table = [&](std::size_t table) {
    return _mm512_permutex2var_epi16(words[2 * table], at, words[2 * table + 1]);  // reads 6 bits of `at`
  };
  if constexpr (kTables == 1) {
    return in_table(0);
  } else {
    const __m512i low = _mm512_mask_blend_epi16(bits.bit6, in_table(0), in_table(1));
    if constexpr (kTables == 2) return low;
    const __m512i high = _mm512_mask_blend_epi16(bits.bit6, in_table(kTables - 2), in_table(kTables - 1));
    return _mm512_mask_blend_epi16(bits.bit7, low, high);
  }
}

// What add_tree() and add_large_tree() ask of rows.
template <u32 kDepth>
struct Questions {
  const u8* rank[kDepth + 1];
  __m512i least[kDepth + 1];

  Questions(const SymmetricTree& tree, const RankTest* tests, const Ranks& ranks) {
    for (u32 level = 0; level != kDepth; ++level) {
      const RankTest& test = tests[tree.first_test + level];
      rank[level] = ranks.of_rows + test.column * ranks.stride;
      least[level] = _mm512_set1_epi8(static_cast<char>(test.least));
    }
  }

  // The leaves of kChunk rows from `row` on.
  __m512i leaves(std::size_t row) const {
    __m512i leaf = _mm512_setzero_si512();
    for (u32 level = 0; level != kDepth; ++level) {
      const __mmask64 yes = _mm512_cmpge_epu8_mask(_mm512_load_si512(rank[level] + row), least[level]);
      leaf = _mm512_mask_add_epi8(leaf, yes, leaf, _mm512_set1_epi8(static_cast<char>(1u << level)));
    }
    return leaf;
  }
};

// Adds doubles to the sums of 32 rows, of whose words 0 and 1 (2 and 3) `low` (`high`) holds the first and last halves.
// With masks, because GCC 12 takes the others for uses of a variable that was never set.
inline void add_pairs(const __m512i (&low)[2], const __m512i (&high)[2], double* sums) {
  auto* total = reinterpret_cast<Doubles*>(sums);
  for (std::size_t i = 0; i < 2; ++i) {
    total[2 * i] += reinterpret_cast<Doubles>(_mm512_maskz_unpacklo_epi32(0xFFFF, low[i], high[i]));
    total[2 * i + 1] += reinterpret_cast<Doubles>(_mm512_maskz_unpackhi_epi32(0xFFFF, low[i], high[i]));
  }
}

// Adds one tree to the sums of n rows. A double is looked up as four words, which are then put together:
//
//   word 0 of rows  0 2 4 … 62    word 1 …    word 2 …    word 3 …     (even rows, then odd rows)
//             \______ unpack _______/             \__ unpack __/
//                        \_________ unpack __________/
//   doubles of rows 0 2 16 18 32 34 48 50, of rows 4 6 20 22 …, and so on
//
// The sums of a chunk lie in that order (see place_of) until all trees are added. The tables of up to 64 leaves stay in
// registers; those of more leaves are loaded for kTogether chunks, one word after the other.
template <u32 kDepth>
void add_tree(const SymmetricTree& tree, const RankTest* tests, const Ranks& ranks, std::size_t n,
              const double* values, double* sums) {
  constexpr std::size_t kTables = kDepth <= 6 ? 1 : std::size_t{1} << (kDepth - 6);
  constexpr std::size_t kTogether = kTables == 1 ? 1 : 4;
  const Questions<kDepth> questions(tree, tests, ranks);
  __m512i words[4][2 * kTables];
  const auto load_words = [&](std::size_t w) {
    for (std::size_t i = 0; i < 2 * kTables; ++i) words[w][i] = _mm512_load_si512(values + (w * 2 * kTables + i) * 8);
  };
  for (std::size_t w = 0; kTables == 1 && w < 4; ++w) load_words(w);
  const auto add_chunks = [&]<std::size_t kChunks>(std::size_t first) {
    __m512i at[2 * kChunks], word[4][2 * kChunks];
    TableBits bits[2 * kChunks];
    for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
      const __m512i leaf = questions.leaves(first + chunk * kChunk);
      at[2 * chunk] = leaf;
      at[2 * chunk + 1] = _mm512_srli_epi16(leaf, 8);
    }
    for (std::size_t half = 0; half < 2 * kChunks; ++half) {
      bits[half] = {_mm512_test_epi16_mask(at[half], _mm512_set1_epi16(0x40)),
                    _mm512_test_epi16_mask(at[half], _mm512_set1_epi16(0x80))};
    }
    for (std::size_t w = 0; w < 4; ++w) {
      if (kTables > 1) load_words(w);
      for (std::size_t half = 0; half < 2 * kChunks; ++half) {
        word[w][half] = look_up<kTables>(words[w], at[half], bits[half]);
      }
    }
    for (std::size_t half = 0; half < 2 * kChunks; ++half) {
      const __m512i low[2] = {_mm512_unpacklo_epi16(word[0][half], word[1][half]),
                              _mm512_unpackhi_epi16(word[0][half], word[1][half])};
      const __m512i high[2] = {_mm512_unpacklo_epi16(word[2][half], word[3][half]),
                               _mm512_unpackhi_epi16(word[2][half], word[3][half])};
      add_pairs(low, high, sums + first + 32 * half);
    }
  };
  std::size_t row = 0;
  for (; row + kTogether * kChunk <= n; row += kTogether * kChunk) add_chunks.template operator()<kTogether>(row);
  for (; row < n; row += kChunk) add_chunks.template operator()<1>(row);
}

#if defined(__AVX512VBMI__)

constexpr u8 kPlaneBytes[] = {2, 2, 2, 2, 2, 2, 2, 1, 1};

// The same for 128 or 256 leaves, a double as eight bytes: an instruction looks up 64 of them among 128, as the tables
// of words would need two. Even rows come first here as well, so that sums lie where the other trees have them.
template <u32 kDepth>
void add_large_tree(const SymmetricTree& tree, const RankTest* tests, const Ranks& ranks, std::size_t n,
                    const double* values, double* sums) {
  constexpr std::size_t kTables = std::size_t{1} << (kDepth - 7), kTogether = 2;
  const Questions<kDepth> questions(tree, tests, ranks);
  const __m512i evens_first =
      _mm512_maskz_broadcast_i32x4(0xFFFF, _mm_set_epi8(15, 13, 11, 9, 7, 5, 3, 1, 14, 12, 10, 8, 6, 4, 2, 0));
  const auto* table = reinterpret_cast<const __m512i*>(values);
  const auto add_chunks = [&]<std::size_t kChunks>(std::size_t first) {
    __m512i leaf[kChunks], byte[kChunks][8];
    __mmask64 bit7[kChunks];
    for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
      leaf[chunk] = _mm512_shuffle_epi8(questions.leaves(first + chunk * kChunk), evens_first);
      bit7[chunk] = _mm512_movepi8_mask(leaf[chunk]);
    }
    for (std::size_t b = 0; b < 8; ++b) {
      __m512i part[2 * kTables];
      for (std::size_t i = 0; i < 2 * kTables; ++i) part[i] = table[b * 2 * kTables + i];
      for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
        __m512i found = _mm512_permutex2var_epi8(part[0], leaf[chunk], part[1]);  // reads 7 bits of a leaf
        if constexpr (kTables == 2) {
          found = _mm512_mask_blend_epi8(bit7[chunk], found, _mm512_permutex2var_epi8(part[2], leaf[chunk], part[3]));
        }
        byte[chunk][b] = found;
      }
    }
    for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
      const __m512i(&of)[8] = byte[chunk];
      const auto add_half = [&](auto join, double* to) {
        const __m512i word[4] = {join(of[0], of[1]), join(of[2], of[3]), join(of[4], of[5]), join(of[6], of[7])};
        const __m512i low[2] = {_mm512_unpacklo_epi16(word[0], word[1]), _mm512_unpackhi_epi16(word[0], word[1])};
        const __m512i high[2] = {_mm512_unpacklo_epi16(word[2], word[3]), _mm512_unpackhi_epi16(word[2], word[3])};
        add_pairs(low, high, to);
      };
      double* to = sums + first + chunk * kChunk;
      add_half([](__m512i a, __m512i b) { return _mm512_unpacklo_epi8(a, b); }, to);
      add_half([](__m512i a, __m512i b) { return _mm512_unpackhi_epi8(a, b); }, to + 32);
    }
  };
  std::size_t row = 0;
  for (; row + kTogether * kChunk <= n; row += kTogether * kChunk) add_chunks.template operator()<kTogether>(row);
  for (; row < n; row += kChunk) add_chunks.template operator()<1>(row);
}

#else

constexpr u8 kPlaneBytes[] = {2, 2, 2, 2, 2, 2, 2, 2, 2};

template <u32 kDepth>
void add_large_tree(const SymmetricTree& tree, const RankTest* tests, const Ranks& ranks, std::size_t n,
                    const double* values, double* sums) {
  add_tree<kDepth>(tree, tests, ranks, n, values, sums);
}

#endif

// Where the sum of each row of a chunk lies.
constexpr std::size_t place_of(std::size_t row) {
  const std::size_t word = row / 2, lane = word / 8, pair = word % 8 / 2;
  return 32 * (row % 2) + 8 * pair + 2 * lane + word % 2;
}

void add_doubles(std::span<const SymmetricTree> trees, const RankTest* tests, const Ranks& ranks, std::size_t n,
                 const double* values, double* sums) {
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
      case 7: add_large_tree<7>(tree, tests, ranks, n, values, sums); break;
      default: add_large_tree<8>(tree, tests, ranks, n, values, sums); break;
    }
    values += std::max<std::size_t>(std::size_t{1} << tree.depth, kChunk);
  }
  reorder(true);
}

#else

constexpr u8 kPlaneBytes[] = {8, 8, 8, 8, 8, 8, 8, 8, 8};

void add_doubles(std::span<const SymmetricTree> trees, const RankTest* tests, const Ranks& ranks, std::size_t n,
                 const double* values, double* sums) {
  constexpr std::size_t kTogether = 8;
  for_each_group<kTogether>(trees, tests, ranks, n, [=](auto group, const auto& leaf, std::size_t at, std::size_t row) {
    const auto add = [&](std::size_t n_trees) {
      const double* of_tree[kTogether] = {};
      for (std::size_t t = 0; t < n_trees; ++t) of_tree[t] = values + group[t].first_leaf;
      for (std::size_t i = 0; i < kChunk; ++i) {
        double total = sums[row + i];
        for (std::size_t t = 0; t < n_trees; ++t) total += of_tree[t][leaf[t][at + i]];
        sums[row + i] = total;
      }
    };
    group.size() == kTogether ? add(kTogether) : add(group.size());
  });
}

#endif

}  // namespace

const SymmetricKernels kSymmetricKernels = {walk,        walk_row,      leaves_of_row, add_doubles,
                                            add_vectors, kMostRowRanks, kPlaneBytes};

}  // namespace scurry::SCURRY_ISA
