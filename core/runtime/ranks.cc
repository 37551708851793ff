// Finds the thresholds of every column, and which test of ranks each question becomes.
#include "runtime/ranks.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

namespace scurry {
namespace {

constexpr std::size_t kLeastPadded = 32;  // thresholds that a kernel may read

bool is_in_set(const CategoryTest& set, std::span<const std::uint32_t> category_bits, std::uint32_t code) {
  return (category_bits[set.first_word + code / 32] >> (code % 32)) & 1u;
}

SetTest make_set_test(const CategoryTest& set, std::span<const std::uint32_t> category_bits, std::size_t column) {
  SetTest test{{}, static_cast<std::uint16_t>(column)};
  for (std::uint32_t code = 0; code < set.n_bits && code < kOtherCode; ++code) {
    if (is_in_set(set, category_bits, code)) test.bits[code / 8] |= static_cast<std::uint8_t>(1u << (code % 8));
  }
  if (set.nan_left) test.bits[kNanCode / 8] |= static_cast<std::uint8_t>(1u << (kNanCode % 8));
  return test;
}

}  // namespace

bool RankedColumns::fits_codes(const Question& asked, std::span<const std::uint32_t> category_bits) {
  for (std::uint32_t code = kOtherCode; code < asked.set.n_bits; ++code) {
    if (is_in_set(asked.set, category_bits, code)) return false;
  }
  return true;
}

std::optional<RankedColumns> RankedColumns::make(std::span<const Question> questions,
                                                 std::span<const std::uint32_t> category_bits, std::size_t max_columns,
                                                 std::vector<RankTest>& tests,
                                                 std::vector<SetTest>* set_tests) {
  struct Numbers {
    std::vector<std::uint32_t> keys;
    std::uint16_t first_column = 0;
  };
  std::map<std::tuple<std::uint32_t, bool>, Numbers> thresholds;
  std::vector<const Numbers*> numbers_asked;  // by question, so that none is searched twice
  numbers_asked.reserve(questions.size());
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, bool>, std::uint16_t> sets;
  const auto numbers_of = [](const Question& asked) { return std::tuple(asked.column, asked.missing_left); };
  const auto set_of = [](const Question& asked) {
    return std::tuple(asked.column, asked.set.first_word, asked.set.n_bits, asked.set.nan_left);
  };
  std::map<std::uint32_t, std::uint16_t> codes;
  const auto is_code = [&](const Question& asked) {
    return asked.is_set && set_tests != nullptr && fits_codes(asked, category_bits);
  };
  for (const Question& asked : questions) {
    Numbers* numbers = nullptr;
    if (is_code(asked)) {
      codes.try_emplace(asked.column, std::uint16_t{0});
    } else if (asked.is_set) {
      sets.try_emplace(set_of(asked), std::uint16_t{0});
    } else {
      numbers = &thresholds[numbers_of(asked)];
      numbers->keys.push_back(asked.key);
    }
    numbers_asked.push_back(numbers);
  }

  std::optional<RankedColumns> made(std::in_place);
  for (auto& [numbers, of_numbers] : thresholds) {
    const auto& [column, missing_left] = numbers;
    auto& keys = of_numbers.keys;
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    of_numbers.first_column = static_cast<std::uint16_t>(made->columns_.size());
    const std::size_t first = made->thresholds_.size(), n_parts = (keys.size() + kMaxThresholds - 1) / kMaxThresholds;
    if (made->columns_.size() + n_parts + sets.size() + codes.size() > max_columns) return std::nullopt;
    made->thresholds_.insert(made->thresholds_.end(), keys.begin(), keys.end());
    std::size_t end = std::bit_ceil(keys.size() + 1);  // what searches for ranks among all of them may read
    for (std::size_t part = 0; part < n_parts; ++part) {
      const std::size_t begin = part * kMaxThresholds, n = std::min<std::size_t>(kMaxThresholds, keys.size() - begin);
      made->columns_.push_back({column, static_cast<std::uint32_t>(first + begin), static_cast<std::uint32_t>(n),
                                RankKind::kThresholds, missing_left,
                                part == 0 ? static_cast<std::uint32_t>(n_parts) : 1});
      end = std::max(end, begin + std::max(std::bit_ceil(n + 1), kLeastPadded));  // and among those of a part
    }
    made->thresholds_.resize(first + end, kNanKey);  // no key exceeds it
    const std::size_t at = made->coarse_.size();
    made->coarse_.resize(made->columns_.size() * kCoarse);  // only the first part of a column has some
    kernels().ranks.spread(made->thresholds_.data() + first, static_cast<std::uint32_t>(keys.size()),
                           made->coarse_.data() + at);
  }
  for (auto& [set, at] : sets) {
    const auto& [column, first_word, n_bits, nan_left] = set;
    at = static_cast<std::uint16_t>(made->columns_.size());
    made->columns_.push_back(
        {column, static_cast<std::uint32_t>(made->category_tests_.size()), 0, RankKind::kSet, false});
    made->category_tests_.push_back({first_word, n_bits, nan_left});
  }
  for (auto& [column, at] : codes) {
    at = static_cast<std::uint16_t>(made->columns_.size());
    made->columns_.push_back({column, 0, 0, RankKind::kCodes, false});
  }
  made->has_categories_ = !sets.empty() || !codes.empty();
  if (made->columns_.size() > max_columns) return std::nullopt;
  if (!sets.empty()) made->category_bits_.assign(category_bits.begin(), category_bits.end());

  for (std::size_t i = 0; i < questions.size(); ++i) {
    const Question& asked = questions[i];
    if (is_code(asked)) {
      set_tests->push_back(make_set_test(asked.set, category_bits, codes[asked.column]));
      continue;
    }
    if (asked.is_set) {
      tests.push_back({sets[set_of(asked)], 1});
      continue;
    }
    const auto& [keys, first_column] = *numbers_asked[i];
    const auto place = static_cast<std::size_t>(std::lower_bound(keys.begin(), keys.end(), asked.key) - keys.begin());
    const std::size_t column = first_column + place / kMaxThresholds;
    tests.push_back({static_cast<std::uint16_t>(column), static_cast<std::uint8_t>(place % kMaxThresholds + 1)});
  }
  return made;
}

std::size_t RankedColumns::bytes() const {
  return columns_.size() * sizeof(RankColumn) + category_tests_.size() * sizeof(CategoryTest) +
         (thresholds_.size() + coarse_.size() + category_bits_.size()) * sizeof(std::uint32_t);
}

std::size_t RankedColumns::work() const {
  std::size_t work = 0;
  for (const RankColumn& column : columns_) work += 1 + static_cast<std::size_t>(std::bit_width(column.n_thresholds));
  return work;
}

void RankedColumns::rank(const Block& block, std::size_t key_stride, std::uint8_t* ranks, std::size_t stride) const {
  kernels().ranks.rank(ranking(), block.by_row, key_stride, block.n, ranks, stride);
}

void RankedColumns::rank_row(const std::uint32_t* keys, std::uint8_t* ranks) const {
  kernels().ranks.rank_row(ranking(), keys, ranks);
}

}  // namespace scurry
