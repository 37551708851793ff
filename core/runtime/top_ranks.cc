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
// No sum is as small or as large as these.
constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min(), kMost = std::numeric_limits<std::int32_t>::max();

// The k-th largest of some numbers, more than k, and the next. The numbers may change their places.
Neighbours select(std::span<std::int32_t> numbers, std::size_t k) {
  if (numbers.size() <= kMostRanked) return kernels().lane_tests.select(numbers.data(), numbers.size(), k);
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
  least_of_.resize(offset_.back());
  largest_of_.resize(top.as_set ? offset_.back() : 0);
  n_in_.resize(n_queries);
  out_below_.resize(n_queries);
  in_above_.resize(n_queries);
}

void TopRanks::test(const AliveRows& alive, const PlaceTest& test, const std::uint64_t* removed,
                    std::uint64_t* stopped) {
  const std::int32_t* sums = alive.sums + test.lane * alive.sum_apart;
  Reach reach{sums, sums, alive.row_apart};
  double limit = std::isnan(test.limit) ? kFarApart : std::clamp(test.limit, -kFarApart, kFarApart);
  if (test.spread) {
    least_.resize(round_up(alive.n, kChunk));
    largest_.resize(least_.size());
    const std::int32_t* spreads = alive.sums + *test.spread * alive.sum_apart;
    kernels().lane_tests.reach({sums, spreads, alive.row_apart, limit}, alive.n, least_.data(), largest_.data());
    reach = {least_.data(), largest_.data(), 1};
    limit = limit < kFarApart ? 0.0 : kFarApart;
  }
  gather(alive, reach, removed);
  // Sums are integers: more than the limit apart is more than the largest integer below it.
  const auto apart = static_cast<std::int64_t>(std::floor(limit));
  const auto bound = [](std::int64_t sum) { return static_cast<std::int32_t>(std::clamp<std::int64_t>(sum, kLeast, kMost)); };
  for (std::size_t q = 0; q < n_open_.size(); ++q) {
    const std::span<std::int32_t> least(least_of_.data() + offset_[q], n_in_[q]);
    if (least.size() <= n_open_[q]) {  // nobody is out
      out_below_[q] = kLeast;
      in_above_[q] = top_.as_set ? kLeast : kMost;
    } else if (n_open_[q] == 0) {  // with every place taken, nobody is good enough, unless nobody leaves
      out_below_[q] = limit < kFarApart ? kMost : kLeast;
      in_above_[q] = kMost;
    } else {
      const auto [kth, next] = select(least, n_open_[q]);
      out_below_[q] = bound(kth - apart);
      in_above_[q] = kMost;
      if (top_.as_set) {
        const std::span<std::int32_t> largest(largest_of_.data() + offset_[q], n_in_[q]);
        in_above_[q] = bound((test.spread ? select(largest, n_open_[q]).next : next) + apart);
      }
    }
  }
  is_in_.resize(alive.n / kChunk + 1);
  kernels().lane_tests.mark({query_of_.data(), out_below_.data(), in_above_.data()}, alive.ids, reach.least,
                            reach.largest, reach.apart, alive.n, stopped, is_in_.data());
  for (std::size_t word = 0; word * kChunk < alive.n; ++word) {
    stopped[word] &= ~removed[word];
    for (std::uint64_t left = stopped[word]; left != 0; left &= left - 1) {
      const auto bit = static_cast<std::size_t>(std::countr_zero(left));
      const std::uint32_t id = alive.ids[word * kChunk + bit];
      const bool is_in = (is_in_[word] >> bit & 1) != 0;
      side_[id] = is_in ? Side::kIn : Side::kOut;
      // Places are counted after all documents of a query were compared with the same ones.
      n_open_[query_of_[id]] -= is_in;
    }
  }
}

// Collects the sums of the documents of each query that are still in. Most of them stand next to each other.
void TopRanks::gather(const AliveRows& alive, const Reach& reach, const std::uint64_t* removed) {
  // Copies, because the compiler must assume that writing sums could change the originals.
  const std::uint32_t *query_of = query_of_.data(), *ids = alive.ids;
  const std::size_t* offset = offset_.data();
  std::uint32_t* n_in = n_in_.data();
  std::int32_t *least = least_of_.data(), *largest = top_.as_set ? largest_of_.data() : nullptr;
  std::size_t begin = 0, to = 0;  // of the query q
  std::fill_n(n_in, n_open_.size(), 0u);
  std::uint32_t q = 0;
  for (std::size_t at = 0; at < alive.n; ++at) {
    if (query_of[ids[at]] != q) {
      n_in[q] = static_cast<std::uint32_t>(to - begin);
      q = query_of[ids[at]];
      begin = offset[q];
      to = begin + n_in[q];
    }
    least[to] = reach.least[at * reach.apart];
    if (largest != nullptr) largest[to] = reach.largest[at * reach.apart];
    to += ((removed[at / kChunk] >> (at % kChunk)) & 1) == 0;  // one that has left is overwritten by the next
  }
  n_in[q] = static_cast<std::uint32_t>(to - begin);
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
