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

// The k-th largest of some numbers, more than k, and the next. The numbers may change their places.
Neighbours select(std::span<std::int32_t> numbers, std::size_t k) {
  if (numbers.size() <= kMostRanked) return kernels().sums.select(numbers.data(), numbers.size(), k);
  const auto kth = numbers.begin() + static_cast<std::ptrdiff_t>(k) - 1;
  std::nth_element(numbers.begin(), kth, numbers.end(), std::greater<>());
  return {*kth, *std::max_element(kth + 1, numbers.end())};
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
  n_sums_.resize(n_queries);
  bounds_.resize(n_queries);
}

void TopRanks::test(const AliveRows& alive, std::size_t lane, double limit, const std::uint64_t* removed,
                    std::uint64_t* stopped) {
  // Copies, because the compiler must assume that writing sums could change the originals.
  const std::uint32_t *query_of = query_of_.data(), *ids = alive.ids;
  const std::int32_t* sums_of_lane = alive.sums + lane * alive.sum_apart;
  const std::size_t *offset = offset_.data(), row_apart = alive.row_apart, n_queries = n_open_.size();
  std::uint32_t* n_sums = n_sums_.data();
  std::int32_t* sums = sums_.data();
  const auto for_each_in = [&](const auto& work) {
    for (std::size_t first = 0; first < alive.n; first += kChunk) {
      const std::size_t n_here = std::min(kChunk, alive.n - first);
      std::uint64_t in = ~removed[first / kChunk];
      if (n_here < kChunk) in &= (std::uint64_t{1} << n_here) - 1;
      for (; in != 0; in &= in - 1) {
        const std::size_t at = first + static_cast<std::size_t>(std::countr_zero(in));
        work(at, query_of[ids[at]], sums_of_lane[at * row_apart]);
      }
    }
  };
  std::fill_n(n_sums, n_queries, 0u);
  for_each_in([=](std::size_t, std::uint32_t q, std::int32_t sum) { sums[offset[q] + n_sums[q]++] = sum; });
  // Sums are integers: more than the limit apart is more than the largest integer below it.
  constexpr double kFarApart = 0x1p40;
  const auto apart = static_cast<std::int64_t>(
      std::isnan(limit) ? kFarApart : std::floor(std::clamp(limit, -kFarApart, kFarApart)));
  constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  for (std::size_t q = 0; q < n_queries; ++q) {
    const std::span<std::int32_t> of_query(sums + offset[q], n_sums[q]);
    Bounds& bounds = bounds_[q];
    if (of_query.size() <= n_open_[q]) {
      bounds = {kAll, top_.as_set ? kAll : kNone};  // nobody is out
    } else if (n_open_[q] == 0) {
      // With every place taken, nobody is good enough, unless nobody leaves.
      bounds = {limit < kFarApart ? kNone : kAll, kNone};
    } else {
      const auto [kth, next] = select(of_query, n_open_[q]);
      bounds = {std::int64_t{kth} - apart, top_.as_set ? std::int64_t{next} + apart : kNone};
    }
  }
  std::fill_n(stopped, alive.n / kChunk + 1, 0u);
  const Bounds* bounds = bounds_.data();
  for_each_in([=, this](std::size_t at, std::uint32_t q, std::int32_t sum) {
    const bool is_out = sum < bounds[q].out_below;
    if (!is_out && sum <= bounds[q].in_above) return;
    side_[ids[at]] = is_out ? Side::kOut : Side::kIn;
    stopped[at / kChunk] |= std::uint64_t{1} << (at % kChunk);
  });
  // Places are counted after all documents of a query were compared with the same ones.
  for (std::size_t at = 0; top_.as_set && at < alive.n; ++at) {
    const std::uint32_t id = ids[at];
    const bool has_left = ((stopped[at / kChunk] >> (at % kChunk)) & 1) != 0;
    if (has_left && side_[id] == Side::kIn) --n_open_[query_of[id]];
  }
}

void TopRanks::settle(double* scores) const {
  std::vector<std::size_t> stayed;
  for (std::size_t q = 0; q < n_open_.size(); ++q) {
    stayed.clear();
    double worst = std::numeric_limits<double>::infinity();
    for (std::size_t row = offset_[q]; row < offset_[q + 1]; ++row) {
      if (side_[row] == Side::kIn) worst = std::min(worst, scores[row]);
      if (side_[row] == Side::kStayed) stayed.push_back(row);
    }
    // Of equal scores the first document's counts more, as in a stable sort.
    const auto is_better = [&](std::size_t a, std::size_t b) {
      return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
    };
    const std::size_t n_best = std::min(n_open_[q], stayed.size());
    if (n_best > 0 && n_best < stayed.size()) {
      const auto last = stayed.begin() + static_cast<std::ptrdiff_t>(n_best);
      std::nth_element(stayed.begin(), last, stayed.end(), is_better);
    }
    for (std::size_t i = 0; i < n_best; ++i) worst = std::min(worst, scores[stayed[i]]);
    const double below = std::nextafter(worst, -std::numeric_limits<double>::infinity());
    for (std::size_t row = offset_[q]; row < offset_[q + 1]; ++row) {
      if (side_[row] == Side::kOut) scores[row] = std::min(scores[row], below);
    }
    // In an order, those that stayed are ranked by their own scores already, also where two are equal.
    for (std::size_t i = n_best; top_.as_set && i < stayed.size(); ++i) {
      scores[stayed[i]] = std::min(scores[stayed[i]], below);
    }
  }
}

}  // namespace scurry
