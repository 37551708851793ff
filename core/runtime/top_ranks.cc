// Partial selection within queries.
#include "runtime/top_ranks.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace scurry {

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
  worst_.resize(n_queries);
  next_.resize(n_queries);
}

void TopRanks::test(const AliveRows& alive, std::size_t lane, double limit, const std::uint64_t* removed,
                    std::uint64_t* stopped) {
  const auto is_in = [&](std::size_t at) { return ((removed[at / kChunk] >> (at % kChunk)) & 1) == 0; };
  const std::size_t n_queries = n_open_.size();
  std::fill(n_sums_.begin(), n_sums_.end(), 0u);
  for (std::size_t at = 0; at < alive.n; ++at) {
    if (!is_in(at)) continue;
    const std::uint32_t q = query_of_[alive.ids[at]];
    sums_[offset_[q] + n_sums_[q]++] = alive.sum(at, lane);
  }
  for (std::size_t q = 0; q < n_queries; ++q) {
    if (n_sums_[q] <= n_open_[q]) continue;
    std::int32_t *const begin = sums_.data() + offset_[q], *const end = begin + n_sums_[q];
    // With every place taken, nobody is good enough.
    worst_[q] = std::numeric_limits<std::int64_t>::max() / 2;
    std::int32_t* const next = begin + n_open_[q];
    if (next > begin) {
      std::nth_element(begin, next - 1, end, std::greater<>());
      worst_[q] = *(next - 1);
    }
    if (top_.as_set) next_[q] = *std::max_element(next, end);
  }
  std::fill_n(stopped, alive.n / kChunk + 1, 0u);
  for (std::size_t at = 0; at < alive.n; ++at) {
    if (!is_in(at)) continue;
    const std::uint32_t id = alive.ids[at], q = query_of_[id];
    const std::int64_t sum = alive.sum(at, lane);
    Side side = Side::kStayed;
    if (n_sums_[q] <= n_open_[q]) {
      if (top_.as_set) side = Side::kIn;
    } else if (static_cast<double>(worst_[q] - sum) > limit) {
      side = Side::kOut;
    } else if (top_.as_set && static_cast<double>(sum - next_[q]) > limit) {
      side = Side::kIn;
    }
    if (side == Side::kStayed) continue;
    side_[id] = side;
    stopped[at / kChunk] |= std::uint64_t{1} << (at % kChunk);
  }
  // Places are counted after all documents of a query were compared with the same ones.
  for (std::size_t at = 0; top_.as_set && at < alive.n; ++at) {
    const std::uint32_t id = alive.ids[at];
    const bool has_left = ((stopped[at / kChunk] >> (at % kChunk)) & 1) != 0;
    if (has_left && side_[id] == Side::kIn) --n_open_[query_of_[id]];
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
