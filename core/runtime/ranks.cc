// Finds the thresholds of every column, and which test of ranks each question becomes.
#include "runtime/ranks.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

namespace scurry {
namespace {

constexpr std::size_t kLeastPadded = 32;  // thresholds that a kernel may read

}  // namespace

std::optional<RankedColumns> RankedColumns::make(std::span<const Question> questions,
                                                 std::span<const std::uint32_t> category_bits, std::size_t max_columns,
                                                 std::vector<RankTest>& tests) {
  std::map<std::tuple<std::uint32_t, bool>, std::vector<std::uint32_t>> thresholds;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, bool>, std::uint16_t> sets;
  const auto numbers_of = [](const Question& asked) { return std::tuple(asked.column, asked.missing_left); };
  const auto set_of = [](const Question& asked) {
    return std::tuple(asked.column, asked.set.first_word, asked.set.n_bits, asked.set.nan_left);
  };
  for (const Question& asked : questions) {
    if (asked.is_set) {
      sets.try_emplace(set_of(asked), std::uint16_t{0});
    } else {
      thresholds[numbers_of(asked)].push_back(asked.key);
    }
  }

  std::optional<RankedColumns> made(std::in_place);
  std::map<std::tuple<std::uint32_t, bool>, std::uint16_t> first_columns;
  for (auto& [numbers, keys] : thresholds) {
    const auto& [column, missing_left] = numbers;
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    first_columns[numbers] = static_cast<std::uint16_t>(made->columns_.size());
    for (std::size_t at = 0; at < keys.size(); at += kMaxThresholds) {
      const std::size_t n = std::min(kMaxThresholds, keys.size() - at), first = made->thresholds_.size();
      made->columns_.push_back(
          {column, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(n), missing_left});
      const auto from = keys.begin() + static_cast<std::ptrdiff_t>(at);
      made->thresholds_.insert(made->thresholds_.end(), from, from + static_cast<std::ptrdiff_t>(n));
      made->thresholds_.resize(first + std::max(std::bit_ceil(n + 1), kLeastPadded), kNanKey);  // no key exceeds it
    }
    if (made->columns_.size() + sets.size() > max_columns) return std::nullopt;
  }
  for (auto& [set, at] : sets) {
    const auto& [column, first_word, n_bits, nan_left] = set;
    at = static_cast<std::uint16_t>(made->columns_.size());
    made->columns_.push_back({column, static_cast<std::uint32_t>(made->category_tests_.size()), 0, false});
    made->category_tests_.push_back({first_word, n_bits, nan_left});
  }
  if (made->columns_.size() > max_columns) return std::nullopt;
  if (!sets.empty()) made->category_bits_.assign(category_bits.begin(), category_bits.end());

  for (const Question& asked : questions) {
    if (asked.is_set) {
      tests.push_back({sets[set_of(asked)], 1});
      continue;
    }
    const auto& keys = thresholds[numbers_of(asked)];
    const auto place = static_cast<std::size_t>(std::lower_bound(keys.begin(), keys.end(), asked.key) - keys.begin());
    const std::size_t column = first_columns[numbers_of(asked)] + place / kMaxThresholds;
    tests.push_back({static_cast<std::uint16_t>(column), static_cast<std::uint8_t>(place % kMaxThresholds + 1)});
  }
  return made;
}

std::size_t RankedColumns::bytes() const {
  return columns_.size() * sizeof(RankColumn) + category_tests_.size() * sizeof(CategoryTest) +
         (thresholds_.size() + category_bits_.size()) * sizeof(std::uint32_t);
}

void RankedColumns::rank(const Block& block, std::size_t key_stride, std::uint8_t* ranks, std::size_t stride) const {
  kernels().ranks.rank(ranking(), block.by_row, key_stride, block.n, ranks, stride);
}

void RankedColumns::rank_row(const std::uint32_t* keys, std::uint8_t* ranks) const {
  kernels().ranks.rank_row(ranking(), keys, ranks);
}

}  // namespace scurry
