// Partial selection within queries.
#include "runtime/top_ranks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace scurry {
namespace {

constexpr double kFarApart = 0x1p40;
constexpr std::int64_t kLeast = std::numeric_limits<std::int32_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

// The k-th largest of some numbers, more than k, and the next. The numbers may change their places.
Neighbours select(std::span<std::int32_t> numbers, std::size_t k) {
  if (numbers.size() <= kMostRanked) return kernels().sums.select(numbers.data(), numbers.size(), k);
  const auto kth = numbers.begin() + static_cast<std::ptrdiff_t>(k) - 1;
  std::nth_element(numbers.begin(), kth, numbers.end(), std::greater<>());
  return {*kth, *std::max_element(kth + 1, numbers.end())};
}

// The k-th largest of some numbers, which may change their places. Few are counted: for each, how many are larger.
double find_largest(std::span<double> numbers, std::size_t k) {
  if (numbers.size() > kMostRanked) {
    const auto kth = numbers.begin() + static_cast<std::ptrdiff_t>(k) - 1;
    std::nth_element(numbers.begin(), kth, numbers.end(), std::greater<>());
    return *kth;
  }
  double least = std::numeric_limits<double>::infinity();
  for (const double x : numbers) {
    std::size_t n_above = 0;
    for (const double other : numbers) n_above += other > x;
    least = n_above < k ? std::min(least, x) : least;
  }
  return least;
}

}  // namespace

void TopRanks::start(const TopK& top, std::span<const std::int64_t> offset, std::size_t first) {
  top_ = top;
  offset_.clear();
  for (const std::int64_t row : offset) offset_.push_back(static_cast<std::size_t>(row) - first);
  const std::size_t n_queries = offset_.size() - 1;
  query_of_.resize(offset_.back());
  for (std::size_t q = 0; q < n_queries; ++q) {
    std::fill(query_of_.begin() + static_cast<std::ptrdiff_t>(offset_[q]),
              query_of_.begin() + static_cast<std::ptrdiff_t>(offset_[q + 1]), static_cast<std::uint32_t>(q));
  }
  side_.assign(offset_.back(), Side::kStayed);
  n_open_.assign(n_queries, top.k);
  sums_.resize(offset_.back());
  largest_.resize(top.as_set ? offset_.back() : 0);
  n_sums_.resize(n_queries);
  bounds_.resize(n_queries);
}

void TopRanks::test(const AliveRows& alive, const PlaceTest& test, const std::uint64_t* removed,
                    std::uint64_t* stopped) {
  if (!test.spread) {
    test_by(alive, test.lane, test.limit, [](std::size_t) { return std::int64_t{0}; }, removed, stopped);
    return;
  }
  const std::int32_t* spreads = alive.sums + *test.spread * alive.sum_apart;
  const double limit = std::isnan(test.limit) ? kFarApart : std::min(test.limit, kFarApart);
  const std::size_t row_apart = alive.row_apart;
  const auto reach = [=](std::size_t at) {
    return static_cast<std::int64_t>(std::clamp(limit * static_cast<double>(spreads[at * row_apart]), 0.0, kFarApart));
  };
  test_by(alive, test.lane, limit < kFarApart ? 0.0 : kFarApart, reach, removed, stopped);
}

template <class Reach>
void TopRanks::test_by(const AliveRows& alive, std::size_t lane, double limit, const Reach& reach,
                       const std::uint64_t* removed, std::uint64_t* stopped) {
  gather_sums(alive, lane, reach, removed);
  // Sums are integers: more than the limit apart is more than the largest integer below it.
  const auto apart = static_cast<std::int64_t>(
      std::isnan(limit) ? kFarApart : std::floor(std::clamp(limit, -kFarApart, kFarApart)));
  constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  for (std::size_t q = 0; q < n_open_.size(); ++q) {
    const std::span<std::int32_t> of_query(sums_.data() + offset_[q], n_sums_[q]);
    Bounds& bounds = bounds_[q];
    if (of_query.size() <= n_open_[q]) {
      bounds = {kAll, top_.as_set ? kAll : kNone};  // nobody is out
    } else if (n_open_[q] == 0) {
      // With every place taken, nobody is good enough, unless nobody leaves.
      bounds = {limit < kFarApart ? kNone : kAll, kNone};
    } else {
      bounds = {std::int64_t{select(of_query, n_open_[q]).kth} - apart, kNone};
      if (top_.as_set) {
        const std::span<std::int32_t> largest(largest_.data() + offset_[q], n_sums_[q]);
        bounds.in_above = std::int64_t{select(largest, n_open_[q]).next} + apart;
      }
    }
  }
  mark(alive, lane, reach, removed, stopped);
  // Places are counted after all documents of a query were compared with the same ones.
  for (std::size_t word = 0; top_.as_set && word * kChunk < alive.n; ++word) {
    for (std::uint64_t left = stopped[word] & ~removed[word]; left != 0; left &= left - 1) {
      const std::uint32_t id = alive.ids[word * kChunk + static_cast<std::size_t>(std::countr_zero(left))];
      if (side_[id] == Side::kIn) --n_open_[query_of_[id]];
    }
  }
}

// Collects the sums of the documents of each query that are still in. Most of them stand next to each other.
template <class Reach>
void TopRanks::gather_sums(const AliveRows& alive, std::size_t lane, const Reach& reach, const std::uint64_t* removed) {
  // Copies, because the compiler must assume that writing sums could change the originals.
  const std::uint32_t *query_of = query_of_.data(), *ids = alive.ids;
  const std::int32_t* of_lane = alive.sums + lane * alive.sum_apart;
  const std::size_t row_apart = alive.row_apart, *offset = offset_.data();
  std::uint32_t* n_sums = n_sums_.data();
  std::int32_t *sums = sums_.data(), *largest = top_.as_set ? largest_.data() : nullptr;
  std::size_t begin = 0, to = 0;  // of the query q
  std::fill_n(n_sums, n_open_.size(), 0u);
  std::uint32_t q = 0;
  for (std::size_t at = 0; at < alive.n; ++at) {
    if (query_of[ids[at]] != q) {
      n_sums[q] = static_cast<std::uint32_t>(to - begin);
      q = query_of[ids[at]];
      begin = offset[q];
      to = begin + n_sums[q];
    }
    const std::int64_t sum = of_lane[at * row_apart], far = reach(at);
    sums[to] = static_cast<std::int32_t>(std::max(sum - far, kLeast));
    if (largest != nullptr) largest[to] = static_cast<std::int32_t>(std::min(sum + far, kMost));
    to += ((removed[at / kChunk] >> (at % kChunk)) & 1) == 0;  // one that has left is overwritten by the next
  }
  n_sums[q] = static_cast<std::uint32_t>(to - begin);
}

// Sets the bits of the documents beyond the bounds of their query. Which ones these are cannot be foreseen, so that there
// are no branches.
template <class Reach>
void TopRanks::mark(const AliveRows& alive, std::size_t lane, const Reach& reach, const std::uint64_t* removed,
                    std::uint64_t* stopped) {
  const std::uint32_t *query_of = query_of_.data(), *ids = alive.ids;
  const std::int32_t* of_lane = alive.sums + lane * alive.sum_apart;
  const std::size_t row_apart = alive.row_apart;
  const Bounds* bounds = bounds_.data();
  auto* side = reinterpret_cast<std::uint8_t*>(side_.data());
  constexpr auto kOut = static_cast<std::uint8_t>(Side::kOut), kIn = static_cast<std::uint8_t>(Side::kIn);
  std::fill_n(stopped, alive.n / kChunk + 1, 0u);
  for (std::size_t first = 0; first < alive.n; first += kChunk) {
    const std::size_t n_here = std::min(kChunk, alive.n - first);
    std::uint64_t leaving = 0;
    for (std::size_t i = 0; i < n_here; ++i) {
      const std::uint32_t id = ids[first + i];
      const std::int64_t sum = of_lane[(first + i) * row_apart], far = reach(first + i);
      const auto [out_below, in_above] = bounds[query_of[id]];
      const std::uint64_t is_in = static_cast<std::uint64_t>(((removed[first / kChunk] >> i) & 1) == 0);
      const std::uint64_t out = is_in & static_cast<std::uint64_t>(sum + far < out_below);
      const std::uint64_t in = is_in & static_cast<std::uint64_t>(sum - far > in_above) & ~out;
      side[id] = static_cast<std::uint8_t>(side[id] | out * kOut | in * kIn);
      leaving |= (out | in) << i;
    }
    stopped[first / kChunk] = leaving;
  }
}

void TopRanks::settle(double* scores) const {
  std::vector<double> stayed;
  for (std::size_t q = 0; q < n_open_.size(); ++q) {
    const std::size_t begin = offset_[q], end = offset_[q + 1];
    stayed.resize(end - begin + 1);
    double worst = std::numeric_limits<double>::infinity();
    std::size_t n_stayed = 0;
    for (std::size_t row = begin; row < end; ++row) {
      worst = side_[row] == Side::kIn ? std::min(worst, scores[row]) : worst;
      stayed[n_stayed] = scores[row];
      n_stayed += side_[row] == Side::kStayed;
    }
    const std::size_t n_best = std::min(n_open_[q], n_stayed);
    const double last = n_best > 0 ? find_largest({stayed.data(), n_stayed}, n_best)
                                   : std::numeric_limits<double>::infinity();
    worst = std::min(worst, last);
    const double below = std::nextafter(worst, -std::numeric_limits<double>::infinity());
    for (std::size_t row = begin; row < end; ++row) {
      scores[row] = side_[row] == Side::kOut ? std::min(scores[row], below) : scores[row];
    }
    // In an order, those that stayed are ranked by their own scores already, also where two are equal. In a set, those
    // that are not among the best are lowered; of equal scores the first document's counts more, as in a stable sort.
    if (!top_.as_set || n_best == n_stayed) continue;
    const std::size_t n_above = static_cast<std::size_t>(std::count_if(
        stayed.begin(), stayed.begin() + static_cast<std::ptrdiff_t>(n_stayed), [=](double x) { return x > last; }));
    std::size_t n_equal = n_best == 0 ? 0 : n_best - n_above;  // of these are among the best
    for (std::size_t row = begin; row < end; ++row) {
      if (side_[row] != Side::kStayed || scores[row] > last) continue;
      if (scores[row] == last && n_equal > 0) {
        --n_equal;
      } else {
        scores[row] = std::min(scores[row], below);
      }
    }
  }
}

}  // namespace scurry
