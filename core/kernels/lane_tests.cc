// Which rows stop at a sentinel, by their sums (runtime/sentinel_exit.h, runtime/top_ranks.h).
#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/bits.h"
#include "kernels/search.h"

namespace scurry::SCURRY_ISA {
namespace {

constexpr std::size_t kFewEdges = 8;  // that few are compared with all rows

// The sums of kChunk rows in one lane.
inline void read_lane(const std::int32_t* sums, std::size_t width, std::int32_t* to) {
  if (width == 1) {
    std::copy_n(sums, kChunk, to);
  } else {
    for (std::size_t i = 0; i < kChunk; ++i) to[i] = sums[i * width];
  }
}

// The bits of a chunk from those of its vectors.
template <class Stops>
inline std::uint64_t gather_bits(const Stops& stops) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < kChunk; i += kVectorLanes) bits |= bits_of(stops(i)) << i;
  return bits;
}

inline u32 interval_of(const LaneTest& test, std::int32_t sum) {
  u32 first = 0, last = static_cast<u32>(test.n_edges);
  while (first < last) {
    const u32 middle = first + (last - first) / 2;
    if (test.edges[middle] <= sum) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return first;
}

// Finds the intervals of kChunk sums.
inline void find_intervals(const LaneTest& test, const std::int32_t* sum, u32* interval) {
  if (test.n_edges > kFewEdges) {
    for (std::size_t i = 0; i < kChunk; ++i) interval[i] = interval_of(test, sum[i]);
    return;
  }
  for (std::size_t i = 0; i < kChunk; ++i) interval[i] = 0;
  for (std::size_t edge = 0; edge < test.n_edges; ++edge) {
    for (std::size_t i = 0; i < kChunk; ++i) interval[i] += sum[i] >= test.edges[edge];
  }
}

// Tests without spreads: whether a row stops depends on its interval alone, and changes at some of the edges.
void test_intervals(const LaneTest& test, const std::int32_t* sums, std::size_t width, std::size_t n,
                    std::uint64_t* exits) {
  alignas(64) std::int32_t sum[kChunk];
  for (std::size_t first = 0; first < n; first += kChunk) {
    read_lane(sums + first * width + test.lane, width, sum);
    std::uint64_t bits = gather_bits([&](std::size_t i) {
      const Signed x = *reinterpret_cast<const Signed*>(sum + i);
      Signed stops = Signed{} - static_cast<std::int32_t>(test.limits[0] >= 0.0);
      for (std::size_t edge = 0; edge < test.n_edges; ++edge) {
        if ((test.limits[edge] >= 0.0) != (test.limits[edge + 1] >= 0.0)) stops ^= x >= test.edges[edge];
      }
      return stops;
    });
    keep_first(bits, n - first);
    exits[first / kChunk] = bits;
  }
}

// Tests of spreads against one limit.
void test_spreads(const LaneTest& test, const std::int32_t* sums, std::size_t width, std::size_t n,
                  std::uint64_t* exits) {
  alignas(64) std::int32_t spread[kChunk];
  for (std::size_t first = 0; first < n; first += kChunk) {
    read_lane(sums + first * width + test.spread, width, spread);
    std::uint64_t bits = gather_bits(
        [&](std::size_t i) -> Signed { return *reinterpret_cast<const Signed*>(spread + i) <= test.whole_limits[0]; });
    keep_first(bits, n - first);
    exits[first / kChunk] = bits;
  }
}

#if defined(__AVX2__)

constexpr std::size_t kEdgeLevels = 6, kSomeEdges = (1 << kEdgeLevels) - 1;

// Tests of spreads against the limits of intervals, which are found and looked up in registers.
void test_some_edges(const LaneTest& test, const std::int32_t* sums, std::size_t width, std::size_t n,
                     std::uint64_t* exits) {
  constexpr std::size_t kEntries = kSomeEdges + 1, kRegisters = kEntries / kVectorLanes;
  alignas(64) std::int32_t numbers[kEntries], sum[kChunk], spread[kChunk] = {};
  Signed edges[kRegisters], limits[kRegisters];
  plant_tree(test.edges, test.n_edges, kEntries, std::numeric_limits<std::int32_t>::max(), numbers);
  std::copy_n(reinterpret_cast<const Signed*>(numbers), kRegisters, edges);
  // Rows that are not there have any sum, which may be as large as what edges are filled up with.
  std::copy_n(test.whole_limits, test.n_edges + 1, numbers);
  std::fill(numbers + test.n_edges + 1, numbers + kEntries, test.whole_limits[test.n_edges]);
  std::copy_n(reinterpret_cast<const Signed*>(numbers), kRegisters, limits);
  for (std::size_t first = 0; first < n; first += kChunk) {
    read_lane(sums + first * width + test.lane, width, sum);
    if (test.has_spread) read_lane(sums + first * width + test.spread, width, spread);
    std::uint64_t bits = gather_bits([&](std::size_t i) -> Signed {
      const Signed x = *reinterpret_cast<const Signed*>(sum + i);
      Signed node = Signed{} + 1;
      [&]<std::size_t... kLevel>(std::index_sequence<kLevel...>) {
        ((node = node + node - (x >= pick_level<kLevel>(edges, node))), ...);
      }(std::make_index_sequence<kEdgeLevels>());
      return *reinterpret_cast<const Signed*>(spread + i) <= pick<kRegisters>(limits, node);
    });
    keep_first(bits, n - first);
    exits[first / kChunk] = bits;
  }
}

#else

constexpr std::size_t kSomeEdges = 0;  // no instruction picks numbers from registers

void test_some_edges(const LaneTest&, const std::int32_t*, std::size_t, std::size_t, std::uint64_t*) {}

#endif

void test_lanes(const LaneTest& test, const std::int32_t* sums, std::size_t width, std::size_t n,
                std::uint64_t* exits) {
  const bool is_whole = test.whole_limits != nullptr;
  if (is_whole && !test.has_spread && test.n_edges <= kFewEdges) return test_intervals(test, sums, width, n, exits);
  if (is_whole && test.has_spread && test.n_edges == 0) return test_spreads(test, sums, width, n, exits);
  if (is_whole && test.n_edges <= kSomeEdges) return test_some_edges(test, sums, width, n, exits);
  alignas(64) std::int32_t sum[kChunk], spread[kChunk] = {}, stops[kChunk];
  alignas(64) u32 interval[kChunk];
  for (std::size_t first = 0; first < n; first += kChunk) {
    const std::int32_t* of_rows = sums + first * width;
    read_lane(of_rows + test.lane, width, sum);
    if (test.has_spread) read_lane(of_rows + test.spread, width, spread);
    find_intervals(test, sum, interval);
    for (std::size_t i = 0; i < kChunk; ++i) {
      const double wide = sum[i];
      stops[i] = -static_cast<std::int32_t>(spread[i] - test.square * (wide * wide) <= test.limits[interval[i]]);
    }
    std::uint64_t bits = gather_bits([&](std::size_t i) { return *reinterpret_cast<const Signed*>(stops + i); });
    keep_first(bits, n - first);
    exits[first / kChunk] = bits;
  }
}

// Counts for each number how many are larger: the m-th largest is the least of those with fewer than m above them. This
// takes n^2 comparisons and not one branch that depends on the numbers.
Neighbours select(const std::int32_t* numbers, std::size_t n, std::size_t k) {
  constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min(), kMost = std::numeric_limits<std::int32_t>::max();
  alignas(64) std::int32_t padded[kMostRanked];
  std::copy_n(numbers, n, padded);
  std::fill(padded + n, padded + (n + kVectorLanes - 1) / kVectorLanes * kVectorLanes, kLeast);
  const auto limit = static_cast<std::int32_t>(k);
  Signed kth = Signed{} + kMost, next = kth;
  for (std::size_t first = 0; first < n; first += kVectorLanes) {
    const Signed x = *reinterpret_cast<const Signed*>(padded + first);
    Signed n_above{};
    for (std::size_t i = 0; i < n; ++i) n_above -= padded[i] > x;
    const Signed of_k = n_above < limit ? x : Signed{} + kMost, of_next = n_above <= limit ? x : Signed{} + kMost;
    kth = kth < of_k ? kth : of_k;
    next = next < of_next ? next : of_next;
  }
  Neighbours found{kMost, kMost};
  for (std::size_t lane = 0; lane < kVectorLanes; ++lane) {
    found.kth = std::min(found.kth, static_cast<std::int32_t>(kth[lane]));
    found.next = std::min(found.next, static_cast<std::int32_t>(next[lane]));
  }
  return found;
}

using SomeSums [[gnu::vector_size(32), gnu::may_alias]] = std::int32_t;
using SomeDoubles [[gnu::vector_size(64)]] = double;
constexpr double kFirstSum = std::numeric_limits<std::int32_t>::min() + 1.0;
constexpr double kLastSum = std::numeric_limits<std::int32_t>::max() - 1.0;

inline SomeSums cut(SomeDoubles x) {
  x = x > kFirstSum ? x : SomeDoubles{} + kFirstSum;
  x = x < kLastSum ? x : SomeDoubles{} + kLastSum;
  return __builtin_convertvector(x, SomeSums);
}

// In doubles, which hold all integers of this size. The spaces behind the rows are written, too.
void reach(const Reaches& of, std::size_t n, std::int32_t* least, std::int32_t* largest) {
  alignas(64) std::int32_t sum[kChunk], spread[kChunk];
  for (std::size_t first = 0; first < n; first += kChunk) {
    read_lane(of.sums + first * of.apart, of.apart, sum);
    read_lane(of.spreads + first * of.apart, of.apart, spread);
    for (std::size_t i = 0; i < kChunk; i += sizeof(SomeSums) / sizeof(std::int32_t)) {
      const auto middle = __builtin_convertvector(*reinterpret_cast<const SomeSums*>(sum + i), SomeDoubles);
      const SomeDoubles far = of.limit * __builtin_convertvector(*reinterpret_cast<const SomeSums*>(spread + i), SomeDoubles);
      SomeDoubles whole = __builtin_convertvector(cut(far), SomeDoubles);
      whole = far > kLastSum ? SomeDoubles{} + 2 * kLastSum : whole > 0.0 ? whole : SomeDoubles{};
      *reinterpret_cast<SomeSums*>(least + first + i) = cut(middle - whole);
      *reinterpret_cast<SomeSums*>(largest + first + i) = cut(middle + whole);
    }
  }
}

void mark(const QueryBounds& bounds, const u32* documents, const std::int32_t* least, const std::int32_t* largest,
          std::size_t apart, std::size_t n, std::uint64_t* leaving, std::uint64_t* is_in) {
  alignas(64) std::int32_t low[kChunk], high[kChunk], out[kChunk], in[kChunk];
  for (std::size_t first = 0; first < n; first += kChunk) {
    read_lane(least + first * apart, apart, low);
    read_lane(largest + first * apart, apart, high);
    const std::size_t n_here = std::min(kChunk, n - first);  // the others have no query
    for (std::size_t i = 0; i < n_here; ++i) {
      const u32 query = bounds.query_of[documents[first + i]];
      out[i] = -static_cast<std::int32_t>(high[i] < bounds.out_below[query]);
      in[i] = -static_cast<std::int32_t>(low[i] > bounds.in_above[query]);
    }
    const auto bits = [n_here](const std::int32_t* marks) {
      std::uint64_t all = gather_bits([&](std::size_t i) { return *reinterpret_cast<const Signed*>(marks + i); });
      keep_first(all, n_here);
      return all;
    };
    const std::uint64_t is_out = bits(out);
    is_in[first / kChunk] = bits(in) & ~is_out;
    leaving[first / kChunk] = is_out | is_in[first / kChunk];
  }
}

}  // namespace

const LaneTestKernels kLaneTestKernels = {test_lanes, select, reach, mark};

}  // namespace scurry::SCURRY_ISA
