// Finds the thresholds of every column, and which test of ranks each question becomes.
#include "runtime/ranks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <numeric>
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

// Questions about numbers, in groups of those that one column of ranks can answer: of one column, with missing values on
// the same side. Groups are in the order of columns.
class NumbersAsked {
 public:
  struct Asked {
    std::uint32_t key, question;
  };

  explicit NumbersAsked(std::span<const Question> questions) {
    for (const Question& asked : questions) {
      if (asked.is_set) continue;
      if (group_of(asked) + 2 > first_.size()) first_.resize(group_of(asked) + 2);
      ++first_[group_of(asked) + 1];
    }
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    if (first_.empty()) return;
    asked_.resize(first_.back());
    std::vector<std::size_t> next(first_);
    for (std::size_t i = 0; i < questions.size(); ++i) {
      if (!questions[i].is_set) {
        asked_[next[group_of(questions[i])]++] = {questions[i].key, static_cast<std::uint32_t>(i)};
      }
    }
  }

  std::size_t n_groups() const { return first_.empty() ? 0 : first_.size() - 1; }
  std::uint32_t column(std::size_t group) const { return static_cast<std::uint32_t>(group / 2); }
  bool is_missing_left(std::size_t group) const { return group % 2 != 0; }

  // The questions of a group by rising keys.
  std::span<const Asked> sort(std::size_t group) {
    const std::span<Asked> of_group = std::span(asked_).subspan(first_[group], first_[group + 1] - first_[group]);
    if (of_group.size() >= kManyKeys) {
      sort_by_digits(of_group);
    } else {
      std::ranges::sort(of_group, {}, &Asked::key);
    }
    return of_group;
  }

 private:
  static constexpr std::size_t kManyKeys = 256, kDigitBits = 8, kDigits = 32 / kDigitBits;

  static std::size_t group_of(const Question& asked) { return 2 * std::size_t{asked.column} + asked.missing_left; }

  // From the last digit to the first, skipping those that all keys share.
  void sort_by_digits(std::span<Asked> of_group) {
    constexpr std::size_t kValues = std::size_t{1} << kDigitBits;
    std::array<std::array<std::uint32_t, kValues>, kDigits> count{};
    const auto digit_of = [](std::uint32_t key, std::size_t digit) { return key >> (digit * kDigitBits) & (kValues - 1); };
    for (const Asked& asked : of_group) {
      for (std::size_t digit = 0; digit < kDigits; ++digit) ++count[digit][digit_of(asked.key, digit)];
    }
    other_.resize(of_group.size());
    std::span<Asked> from = of_group, to = other_;
    for (std::size_t digit = 0; digit < kDigits; ++digit) {
      if (count[digit][digit_of(from[0].key, digit)] == from.size()) continue;
      std::exclusive_scan(count[digit].begin(), count[digit].end(), count[digit].begin(), 0u);
      for (const Asked& asked : from) to[count[digit][digit_of(asked.key, digit)]++] = asked;
      std::swap(from, to);
    }
    if (from.data() != of_group.data()) std::ranges::copy(from, of_group.begin());
  }

  std::vector<std::size_t> first_;  // question of each group
  std::vector<Asked> asked_, other_;
};

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
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, bool>, std::uint16_t> sets;
  const auto set_of = [](const Question& asked) {
    return std::tuple(asked.column, asked.set.first_word, asked.set.n_bits, asked.set.nan_left);
  };
  std::map<std::uint32_t, std::uint16_t> codes;
  const auto is_code = [&](const Question& asked) {
    return asked.is_set && set_tests != nullptr && fits_codes(asked, category_bits);
  };
  NumbersAsked numbers(questions);
  for (const Question& asked : questions) {
    if (!asked.is_set) continue;
    if (is_code(asked)) {
      codes.try_emplace(asked.column, std::uint16_t{0});
    } else {
      sets.try_emplace(set_of(asked), std::uint16_t{0});
    }
  }

  std::optional<RankedColumns> made(std::in_place);
  std::vector<RankTest> test_of(questions.size());
  for (std::size_t group = 0; group < numbers.n_groups(); ++group) {
    const std::span<const NumbersAsked::Asked> sorted = numbers.sort(group);
    if (sorted.empty()) continue;
    const std::size_t first = made->thresholds_.size(), first_column = made->columns_.size();
    std::size_t place = 0;  // of a threshold
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      if (i == 0 || sorted[i].key != sorted[i - 1].key) {
        place = made->thresholds_.size() - first;
        made->thresholds_.push_back(sorted[i].key);
      }
      test_of[sorted[i].question] = {static_cast<std::uint16_t>(first_column + place / kMaxThresholds),
                                     static_cast<std::uint8_t>(place % kMaxThresholds + 1)};
    }
    const std::size_t n_keys = place + 1, n_parts = (n_keys + kMaxThresholds - 1) / kMaxThresholds;
    if (first_column + n_parts + sets.size() + codes.size() > max_columns) return std::nullopt;
    std::size_t end = std::bit_ceil(n_keys + 1);  // what searches for ranks among all of them may read
    for (std::size_t part = 0; part < n_parts; ++part) {
      const std::size_t begin = part * kMaxThresholds, n = std::min<std::size_t>(kMaxThresholds, n_keys - begin);
      made->columns_.push_back({numbers.column(group), static_cast<std::uint32_t>(first + begin),
                                static_cast<std::uint32_t>(n), RankKind::kThresholds, numbers.is_missing_left(group),
                                part == 0 ? static_cast<std::uint32_t>(n_parts) : 1});
      end = std::max(end, begin + std::max(std::bit_ceil(n + 1), kLeastPadded));  // and among those of a part
    }
    made->thresholds_.resize(first + end, kNanKey);  // no key exceeds it
    const std::size_t at = made->tables_.size();
    made->columns_[first_column].table = static_cast<std::uint32_t>(at);
    made->tables_.resize(at + kernels().ranks.table_size(static_cast<std::uint32_t>(n_keys)));  // whole registers
    kernels().ranks.arrange(made->thresholds_.data() + first, static_cast<std::uint32_t>(n_keys),
                            made->tables_.data() + at);
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

  tests.reserve(tests.size() + questions.size());
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const Question& asked = questions[i];
    if (is_code(asked)) {
      set_tests->push_back(make_set_test(asked.set, category_bits, codes[asked.column]));
    } else if (asked.is_set) {
      tests.push_back({sets[set_of(asked)], 1});
    } else {
      tests.push_back(test_of[i]);
    }
  }
  return made;
}

std::size_t RankedColumns::bytes() const {
  return columns_.size() * sizeof(RankColumn) + category_tests_.size() * sizeof(CategoryTest) +
         (thresholds_.size() + tables_.size() + category_bits_.size()) * sizeof(std::uint32_t);
}

std::size_t RankedColumns::work() const {
  std::size_t work = 0;
  for (const RankColumn& column : columns_) work += 1 + static_cast<std::size_t>(std::bit_width(column.n_thresholds));
  return work;
}

void RankedColumns::rank(const Block& block, std::size_t key_stride, std::uint8_t* ranks, std::size_t stride) const {
  kernels().ranks.rank(ranking(), block.by_row, key_stride, block.n, ranks, stride);
}

bool RankedColumns::rank_floats(const FloatColumns& floats, const RowsView& rows, std::size_t first, std::size_t n,
                                std::uint8_t* ranks, std::size_t stride) const {
  const float* x = static_cast<const float*>(rows.data) + static_cast<std::ptrdiff_t>(first) * rows.row_stride;
  return kernels().ranks.rank_float_rows(ranking(), floats, x, rows.row_stride, n, ranks, stride);
}

void RankedColumns::rank_row(const std::uint32_t* keys, std::uint8_t* ranks) const {
  kernels().ranks.rank_row(ranking(), keys, ranks);
}

}  // namespace scurry
