// Adds what leaves are worth to the sums of rows, and tests the sums of early exits.
#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "kernels/bits.h"

namespace scurry::SCURRY_ISA {
namespace {

using AnySigned [[gnu::vector_size(SCURRY_VECTOR_BYTES), gnu::may_alias, gnu::aligned(4)]] = std::int32_t;

void add_doubles(const double* table, const u32* payload, std::size_t n, double* scores) {
  for (std::size_t row = 0; row < n; ++row) scores[row] += table[payload[row]];
}

void add_floats(const u32* payload, std::size_t n, float* scores) {
  for (std::size_t row = 0; row < n; ++row) scores[row] += std::bit_cast<float>(payload[row]);
}

// kVectors = 0: the number of vectors is read at run time.
template <std::size_t kVectors>
void add_wide(const double* table, std::size_t width, const u32* payload, std::size_t n, double* scores) {
  const std::size_t vectors = kVectors ? kVectors : width / kDoubleLanes;
  for (std::size_t row = 0; row < n; ++row) {
    const auto* from = reinterpret_cast<const Doubles*>(table) + payload[row] * vectors;
    auto* to = reinterpret_cast<Doubles*>(scores) + row * vectors;
    for (std::size_t v = 0; v < vectors; ++v) to[v] += from[v];
  }
}

void add_pairs(const double* table, const u32* payload, std::size_t n, double* scores) {
  for (std::size_t row = 0; row < n; ++row) {
    scores[2 * row] += table[2 * payload[row]];
    scores[2 * row + 1] += table[2 * payload[row] + 1];
  }
}

void add_vectors(const double* table, std::size_t width, const u32* payload, std::size_t n, double* scores) {
  switch (width) {
    case 2: return add_pairs(table, payload, n, scores);
    case 8: return add_wide<8 / kDoubleLanes>(table, width, payload, n, scores);
    case 16: return add_wide<16 / kDoubleLanes>(table, width, payload, n, scores);
    case 24: return add_wide<24 / kDoubleLanes>(table, width, payload, n, scores);
    case 32: return add_wide<32 / kDoubleLanes>(table, width, payload, n, scores);
    default: return add_wide<0>(table, width, payload, n, scores);
  }
}

// kVectors = 0: sums stay in memory, not in registers.
template <std::size_t kVectors>
void sum_wide(const double* table, std::size_t width, const u32* payload, std::size_t n, double* sums) {
  const std::size_t vectors = kVectors ? kVectors : width / kDoubleLanes;
  auto* to = reinterpret_cast<Doubles*>(sums);
  Doubles total[kVectors + 1];
  std::copy_n(to, kVectors, total);
  Doubles* const into = kVectors ? total : to;
  for (std::size_t i = 0; i < n; ++i) {
    const auto* from = reinterpret_cast<const Doubles*>(table) + payload[i] * vectors;
    for (std::size_t v = 0; v < vectors; ++v) into[v] += from[v];
  }
  std::copy_n(total, kVectors, to);
}

void sum_pairs(const double* table, const u32* payload, std::size_t n, double* sums) {
  double first = sums[0], second = sums[1];
  for (std::size_t i = 0; i < n; ++i) {
    first += table[2 * payload[i]];
    second += table[2 * payload[i] + 1];
  }
  sums[0] = first;
  sums[1] = second;
}

void sum_vectors(const double* table, std::size_t width, const u32* payload, std::size_t n, double* sums) {
  switch (width) {
    case 2: return sum_pairs(table, payload, n, sums);
    case 8: return sum_wide<8 / kDoubleLanes>(table, width, payload, n, sums);
    case 16: return sum_wide<16 / kDoubleLanes>(table, width, payload, n, sums);
    case 24: return sum_wide<24 / kDoubleLanes>(table, width, payload, n, sums);
    case 32: return sum_wide<32 / kDoubleLanes>(table, width, payload, n, sums);
    default: return sum_wide<0>(table, width, payload, n, sums);
  }
}

void add_high_halves(const u32* payload, std::size_t n, std::int32_t* sums) {
  for (std::size_t row = 0; row < n; ++row) sums[row] += static_cast<std::int32_t>(payload[row]) >> 16;
}

// kParts = 0: the number of vectors is read at run time.
template <class Part, std::size_t kParts>
void add_word_parts(const std::uint16_t* table, std::size_t width, const u32* payload, std::size_t n,
                    std::uint16_t* sums) {
  const std::size_t parts = kParts ? kParts : width * sizeof(std::uint16_t) / sizeof(Part);
  for (std::size_t row = 0; row < n; ++row) {
    const auto* from = reinterpret_cast<const Part*>(table) + payload[row] * parts;
    auto* to = reinterpret_cast<Part*>(sums) + row * parts;
    for (std::size_t part = 0; part < parts; ++part) to[part] += from[part];
  }
}

void add_words(const std::uint16_t* table, std::size_t width, const u32* payload, std::size_t n, std::uint16_t* sums) {
  using Eight [[gnu::vector_size(16), gnu::may_alias]] = std::uint16_t;
  using Some [[gnu::vector_size(SCURRY_VECTOR_BYTES), gnu::may_alias]] = std::uint16_t;
  switch (width) {
    case 8: return add_word_parts<Eight, 1>(table, width, payload, n, sums);
    case 16: return add_word_parts<Eight, 2>(table, width, payload, n, sums);
    case 32: return add_word_parts<Some, 64 / sizeof(Some)>(table, width, payload, n, sums);
    default: return add_word_parts<Some, 0>(table, width, payload, n, sums);
  }
}

void look_up(const u32* table, u32 mask, std::size_t n, u32* payload) {
  for (std::size_t row = 0; row < n; ++row) payload[row] = table[payload[row] & mask];
}

void add_and_test(const u32* payload, std::size_t n, std::int32_t* sums, std::int32_t lower, std::int32_t upper,
                  std::uint64_t* exits) {
  for (std::size_t first = 0; first < n; first += kChunk) {
    std::uint64_t bits = 0;
    for (std::size_t row = first; row < first + kChunk; row += kVectorLanes) {
      // Added without a sign: lanes behind the last row hold anything, and may wrap round.
      const Signed sum =
          reinterpret_cast<Signed>(reinterpret_cast<Vector>(Signed(*reinterpret_cast<const AnySigned*>(sums + row))) +
                                   *reinterpret_cast<const Vector*>(payload + row));
      *reinterpret_cast<AnySigned*>(sums + row) = sum;
      bits |= bits_of((sum <= lower) | (sum >= upper)) << (row - first);
    }
    keep_first(bits, n - first);
    exits[first / kChunk] = bits;
  }
}

using TwoLanes [[gnu::vector_size(8), gnu::may_alias]] = std::int32_t;
using FourLanes [[gnu::vector_size(16), gnu::may_alias]] = std::int32_t;
#if SCURRY_VECTOR_BYTES >= 32
using EightLanes [[gnu::vector_size(32), gnu::may_alias]] = std::int32_t;
#else
using EightLanes = FourLanes;  // two of them
#endif

// kVectors = 0: the number of vectors is read at run time.
template <class Part, std::size_t kParts>
void add_int_parts(const std::int32_t* table, std::size_t width, const u32* payload, std::size_t n,
                   std::int32_t* sums) {
  const std::size_t parts = kParts ? kParts : width * sizeof(std::int32_t) / sizeof(Part);
  for (std::size_t row = 0; row < n; ++row) {
    const auto* from = reinterpret_cast<const Part*>(table) + payload[row] * parts;
    auto* to = reinterpret_cast<Part*>(sums) + row * parts;
    for (std::size_t part = 0; part < parts; ++part) to[part] += from[part];
  }
}

void add_int_vectors(const std::int32_t* table, std::size_t width, const u32* payload, std::size_t n,
                     std::int32_t* sums) {
  constexpr std::size_t kHalf = kHalfIntLanes * sizeof(std::int32_t) / sizeof(EightLanes);
  constexpr std::size_t kWhole = kIntLanes * sizeof(std::int32_t) / sizeof(Signed);
  switch (width) {
    case kHalfIntLanes: return add_int_parts<EightLanes, kHalf>(table, width, payload, n, sums);
    case kIntLanes: return add_int_parts<Signed, kWhole>(table, width, payload, n, sums);
    default: return add_int_parts<Signed, 0>(table, width, payload, n, sums);
  }
}

inline Signed larger(Signed a, Signed b) { return a > b ? a : b; }
inline Signed smaller(Signed a, Signed b) { return a < b ? a : b; }

template <std::size_t kApart, std::size_t... kLane>
inline Signed swap_lanes(Signed v, std::index_sequence<kLane...>) {
  return __builtin_shufflevector(v, v, (kLane ^ kApart)...);
}

// The largest and the second largest of some numbers, in each lane.
struct TopTwo {
  Signed first, second = Signed{} + std::numeric_limits<std::int32_t>::min();

  void add(Signed more) {
    second = larger(second, smaller(first, more));
    first = larger(first, more);
  }
  // Takes kTogether neighbouring lanes together.
  template <std::size_t kTogether>
  void join() {
    if constexpr (kTogether > 1) {
      constexpr auto kAll = std::make_index_sequence<kVectorLanes>();
      const Signed others = swap_lanes<kTogether / 2>(second, kAll);
      add(swap_lanes<kTogether / 2>(first, kAll));
      second = larger(second, others);
      join<kTogether / 2>();
    }
  }
};

// Calls work(row, top two) for n rows, kRows of them in each vector: those of row r in lane r * kVectorLanes / kRows.
template <std::size_t kRows, class Work>
inline void for_top_two(const std::int32_t* sums, std::size_t vectors, std::size_t n, Work work) {
  for (std::size_t row = 0; row < n; row += kRows, sums += vectors * kVectorLanes) {
    TopTwo top{*reinterpret_cast<const AnySigned*>(sums)};
    for (std::size_t i = 1; i < vectors; ++i) top.add(*reinterpret_cast<const AnySigned*>(sums + i * kVectorLanes));
    top.join<kVectorLanes / kRows>();
    work(row, top);
  }
}

constexpr std::size_t kMaxRowsInVector = std::max(kVectorLanes / kHalfIntLanes, std::size_t{1});

// The same for rows of `width` numbers, with work<kRows>.
template <class Work>
inline void for_top_two_of(const std::int32_t* sums, std::size_t width, std::size_t n, Work work) {
  if (width == kHalfIntLanes) {
    constexpr std::size_t kVectors = std::max(kHalfIntLanes / kVectorLanes, std::size_t{1});
    for_top_two<kMaxRowsInVector>(sums, kVectors, n, [&](std::size_t row, const TopTwo& top) {
      work.template operator()<kMaxRowsInVector>(row, top);
    });
  } else {
    for_top_two<1>(sums, width / kVectorLanes, n,
                   [&](std::size_t row, const TopTwo& top) { work.template operator()<1>(row, top); });
  }
}

void top_two(const std::int32_t* sums, std::size_t width, std::size_t n, std::int32_t* first, std::int32_t* second) {
  for_top_two_of(sums, width, n, [&]<std::size_t kRows>(std::size_t row, const TopTwo& top) {
    for (std::size_t i = 0; i < kRows; ++i) {
      first[row + i] = top.first[i * kVectorLanes / kRows];
      second[row + i] = top.second[i * kVectorLanes / kRows];
    }
  });
}

// Which lanes have a difference of at least `lead`. It is a number without a sign: it may need all 32 bits.
inline Signed leads_by(const TopTwo& top, std::int32_t lead) {
  const Vector by = reinterpret_cast<const Vector&>(top.first) - reinterpret_cast<const Vector&>(top.second);
  return reinterpret_cast<Signed>(by ^ 0x80000000u) >= signed_key(static_cast<u32>(std::max(lead, 0)));
}

template <std::size_t kFrom, std::size_t... kLane>
inline Signed every_other(Signed a, Signed b, std::index_sequence<kLane...>) {
  return __builtin_shufflevector(a, b, (kFrom + 2 * kLane)...);
}

// Of numbers in a row, the largest and the second largest of each kTogether neighbours. Vectors are filled again after
// each step, so that steps are the fewer the fewer numbers are left.
template <std::size_t kTogether>
inline TopTwo top_two_of_neighbours(const std::int32_t* numbers) {
  constexpr auto kAll = std::make_index_sequence<kVectorLanes>();
  constexpr std::size_t kHalf = kTogether / 2;
  if constexpr (kTogether == 2) {
    const Signed a = *reinterpret_cast<const AnySigned*>(numbers);
    const Signed b = *reinterpret_cast<const AnySigned*>(numbers + kVectorLanes);
    const Signed even = every_other<0>(a, b, kAll), odd = every_other<1>(a, b, kAll);
    return {larger(even, odd), smaller(even, odd)};
  } else {
    const TopTwo a = top_two_of_neighbours<kHalf>(numbers);
    const TopTwo b = top_two_of_neighbours<kHalf>(numbers + kHalf * kVectorLanes);
    TopTwo top{every_other<0>(a.first, b.first, kAll), every_other<0>(a.second, b.second, kAll)};
    top.add(every_other<1>(a.first, b.first, kAll));
    top.second = larger(top.second, every_other<1>(a.second, b.second, kAll));
    return top;
  }
}

template <std::size_t kWidth>
void test_leads_in(const std::int32_t* sums, std::size_t n, std::int32_t lead, std::uint64_t* exits) {
  for (std::size_t first = 0; first < n; first += kChunk) {
    std::uint64_t bits = 0;
    for (std::size_t row = 0; row < kChunk; row += kVectorLanes) {
      bits |= bits_of(leads_by(top_two_of_neighbours<kWidth>(sums + (first + row) * kWidth), lead)) << row;
    }
    keep_first(bits, n - first);
    exits[first / kChunk] = bits;
  }
}

void test_leads(const std::int32_t* sums, std::size_t width, std::size_t n, std::int32_t lead, std::uint64_t* exits) {
  if (width == kHalfIntLanes) return test_leads_in<kHalfIntLanes>(sums, n, lead, exits);
  if (width == kIntLanes) return test_leads_in<kIntLanes>(sums, n, lead, exits);
  for (std::size_t first = 0; first < n; first += kChunk) {
    std::uint64_t bits = 0;
    for_top_two_of(sums + first * width, width, kChunk, [&]<std::size_t kRows>(std::size_t row, const TopTwo& top) {
      const std::uint64_t found = bits_of(leads_by(top, lead));
      for (std::size_t i = 0; i < kRows; ++i) bits |= (found >> (i * kVectorLanes / kRows) & 1) << (row + i);
    });
    keep_first(bits, n - first);
    exits[first / kChunk] = bits;
  }
}

inline TopTwo top_two_of(const std::int32_t* sums, std::size_t width, std::size_t spacing) {
  TopTwo top{*reinterpret_cast<const AnySigned*>(sums)};
  for (std::size_t k = 1; k < width; ++k) top.add(*reinterpret_cast<const AnySigned*>(sums + k * spacing));
  return top;
}

void test_leads_of(const std::int32_t* sums, std::size_t width, std::size_t spacing, std::size_t n, std::int32_t lead,
                   std::uint64_t* exits) {
  for (std::size_t first = 0; first < n; first += kChunk) {
    std::uint64_t bits = 0;
    for (std::size_t row = 0; row < kChunk; row += kVectorLanes) {
      bits |= bits_of(leads_by(top_two_of(sums + first + row, width, spacing), lead)) << row;
    }
    keep_first(bits, n - first);
    exits[first / kChunk] = bits;
  }
}

// Adds kWidth lanes from lane `first` on. A row's sums stay in registers over all trees.
template <class Part, std::size_t kWidth>
void add_some_lanes(const LaneTable& table, std::size_t first, const u32* payload, std::size_t spacing,
                    std::size_t n_trees, std::size_t n, std::int32_t* sums, std::size_t width) {
  constexpr std::size_t kParts = kWidth * sizeof(std::int32_t) / sizeof(Part);
  const std::size_t apart = kWidth < kIntLanes ? kWidth : table.width;
  for (std::size_t row = 0; row < n; ++row) {
    Part* to = reinterpret_cast<Part*>(sums + row * width + first);
    Part total[kParts];
    for (std::size_t part = 0; part < kParts; ++part) total[part] = to[part];
    for (std::size_t tree = 0; tree < n_trees; ++tree) {
      const Part* from = reinterpret_cast<const Part*>(table.lanes + payload[tree * spacing + row] * apart + first);
      for (std::size_t part = 0; part < kParts; ++part) total[part] += from[part];
    }
    for (std::size_t part = 0; part < kParts; ++part) to[part] = total[part];
  }
}

void add_lanes(const LaneTable& table, const u32* payload, std::size_t spacing, std::size_t n_trees, std::size_t n,
               std::int32_t* sums, std::size_t width) {
  switch (table.width) {
    case 1: return add_some_lanes<std::int32_t, 1>(table, 0, payload, spacing, n_trees, n, sums, width);
    case 2: return add_some_lanes<TwoLanes, 2>(table, 0, payload, spacing, n_trees, n, sums, width);
    case 4: return add_some_lanes<FourLanes, 4>(table, 0, payload, spacing, n_trees, n, sums, width);
    case 8: return add_some_lanes<EightLanes, 8>(table, 0, payload, spacing, n_trees, n, sums, width);
    default:
      for (std::size_t first = 0; first < table.width; first += kIntLanes) {
        add_some_lanes<Signed, kIntLanes>(table, first, payload, spacing, n_trees, n, sums, width);
      }
  }
}

}  // namespace

const SumKernels kSumKernels = {add_doubles,  add_floats,      add_vectors, sum_vectors, add_high_halves, add_words,
                                look_up,      add_and_test,    add_int_vectors, top_two, test_leads,      test_leads_of,
                                add_lanes};

}  // namespace scurry::SCURRY_ISA
