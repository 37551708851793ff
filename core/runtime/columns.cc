// Chooses the columns of a forest.
#include "runtime/columns.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <tuple>

#include "runtime/float_keys.h"

namespace scurry {
namespace {

constexpr std::uint32_t kLanesOfKeys = 16;
constexpr std::uint32_t kFilterBits = 32;  // at least, for each threshold
constexpr std::uint32_t kMostColumnsWithSets = 128;
constexpr std::uint32_t kNotRead = 0xFFFFFFFFu;

Missing missing_of(const Split& split) {
  if (split.category_set >= 0) return Missing::kCategory;
  switch (split.missing) {
    case MissingKind::kNothing: return Missing::kAsZero;
    case MissingKind::kNanAndZero: return Missing::kZero;
    case MissingKind::kNan: break;
  }
  return Missing::kNan;
}

// The next float below one that is not -inf. (nextafterf is a call, and every threshold is rounded.)
float float_below(float x) {
  if (x == 0.0f) return -std::numeric_limits<float>::denorm_min();
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>(x > 0.0f ? bits - 1 : bits + 1);
}

float round_down(double x) {
  const float nearest = static_cast<float>(x);
  return static_cast<double>(nearest) > x ? float_below(nearest) : nearest;
}

// The key of a threshold where the source compares floats.
std::uint32_t key_of_float_threshold(double threshold, bool is_strict) {
  const std::uint32_t is_float = static_cast<double>(static_cast<float>(threshold)) == threshold ? 1 : 0;
  return key_below(threshold) - (is_float & std::uint32_t{is_strict});
}

// Rounded up to strides that the kernels know at compile time: they then address all rows from one base register.
std::uint32_t stride_for(std::uint32_t n_columns) {
  for (std::uint32_t stride : {16u, 32u, 48u, 64u, 128u}) {
    if (n_columns <= stride) return stride;
  }
  return (n_columns + kLanesOfKeys - 1) / kLanesOfKeys * kLanesOfKeys;
}

// Whether all numbers go one way and missing values the other, as an imputer's indicator makes it. In a column of its
// own this takes no marks (place_missing): beside thresholds that send missing values somewhere, it would.
bool asks_only_missing(const ForestView& forest, const Split& split) {
  return std::isinf(split.threshold) && (split.threshold < 0) == split.default_left && !forest.strict_comparison;
}

}  // namespace

double last_left(const ForestView& forest, double threshold) {
  const double last =
      forest.strict_comparison ? std::nextafter(threshold, -std::numeric_limits<double>::infinity()) : threshold;
  return forest.float32_input ? static_cast<double>(round_down(last)) : last;
}

bool sends_left(const ForestView& forest, double threshold) {
  return !forest.strict_comparison || threshold > -std::numeric_limits<double>::infinity();
}

Columns::Columns(const ForestView& forest, Sets sets)
    : float32_(forest.float32_input), truncate_categories_(forest.truncate_categories) {
  collect(forest, sets);
  tabulate_sets(forest);
  if (!float32_) sort_thresholds(forest);
  place_missing();
  describe_floats();
  describe_bytes(forest);
}

std::size_t Columns::bytes() const {
  return columns_.size() * sizeof(Column) + thresholds_.size() * sizeof(double) +
         filters_.size() * sizeof(std::uint64_t) + sets_.size() * sizeof(SetColumns) +
         (set_keys_.size() + key_of_byte_.size() + floats_.nan_keys.size() + floats_.feature.size() +
          tiled_.nan_keys.size()) *
             sizeof(std::uint32_t);
}

// Makes one column per feature and meaning of NaN in use (and one for its indicator), or per set and way of missing values. Numeric columns come
// first, and each kind is ordered by feature.
void Columns::collect(const ForestView& forest, Sets sets) {
  enum Kind : std::uint8_t { kNumbers, kSet, kCodes };
  using Entry = std::tuple<Kind, std::uint32_t, Missing, std::int32_t, bool>;
  std::map<Entry, std::uint32_t> index;  // columns are numbered as they are met, at first
  const auto entry_of = [&](const Split& split) {
    const Missing missing = missing_of(split);
    if (missing != Missing::kCategory) return Entry(kNumbers, split.feature, missing, -1, asks_only_missing(forest, split));
    if (sets == Sets::kCodes) return Entry(kCodes, split.feature, missing, -1, false);
    return Entry(kSet, split.feature, missing, split.category_set, split.default_left);
  };
  tests_.resize(forest.n_entries());
  for_each_leaf(forest, [&](std::size_t entry) { tests_[entry] = {0, 0}; });
  const std::size_t first_split = forest.packed == nullptr ? 0 : forest.packed->n_leaves();
  category_tests_.clear();
  // Splits of one column follow each other in a packed forest, and often in others: the tree is not searched for them.
  std::uint32_t column = 0;
  std::uint64_t last_feature = kNotRead;  // none, if the last split was of a set or asked for missing values
  MissingKind last_missing{};
  const bool is_strict = forest.strict_comparison;
  // Of a set, returns whether it may be a column: too many sets, or sets of too many codes, would take more time and space
  // than looking codes up.
  const auto add_set = [&](std::size_t entry, const Split& split) {
    const std::int64_t* words = &forest.category_offset[static_cast<std::size_t>(split.category_set)];
    const std::int64_t n_codes = 32 * (words[1] - words[0]);
    tests_[entry].key = 0;
    if (sets == Sets::kColumns) return index.size() < kMostColumnsWithSets && n_codes <= kMostCodesOfSet;
    tests_[entry].key = static_cast<std::uint32_t>(category_tests_.size());
    category_tests_.push_back(
        {static_cast<std::uint32_t>(words[0]), static_cast<std::uint32_t>(n_codes), split.default_left});
    return true;
  };
  bool fits = true;
  NodeTest* const tests = tests_.data();
  const auto find_column = [&](const Split& split, bool is_plain) __attribute__((always_inline)) {
    if (is_plain && split.feature == last_feature && split.missing == last_missing) return;
    column = index.try_emplace(entry_of(split), static_cast<std::uint32_t>(index.size())).first->second;
    last_feature = is_plain ? split.feature : std::uint64_t{kNotRead};
    last_missing = split.missing;
  };
  const auto set_test = [=](NodeTest& test, double threshold, std::uint32_t column_of, bool is_left)
                            __attribute__((always_inline)) {
    // Keys of doubles are found later, when all of a column are known.
    test = {key_of_float_threshold(threshold, is_strict), column_of | std::uint32_t{is_left} << 31};
  };
  const auto add = [&](std::size_t entry, const Split& split) __attribute__((always_inline)) {
    find_column(split, split.category_set < 0 && std::fabs(split.threshold) < std::numeric_limits<double>::infinity());
    set_test(tests[entry], split.threshold, column, split.default_left);
    if (split.category_set >= 0) fits = add_set(entry, split);
    return fits;
  };
  // Runs of numbers in one column, as nearly all splits of a packed forest are, need no look at each.
  const auto add_run = [&](std::size_t entry, const Split& first, std::span<const double> thresholds,
                           const std::uint8_t* is_left, std::size_t step) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();  // they rise
    if (first.category_set >= 0 || !(thresholds.front() > -kInfinity && thresholds.back() < kInfinity)) return false;
    find_column(first, true);
    const std::uint32_t column_of = column;
    for (std::size_t i = 0; i < thresholds.size(); ++i) {
      set_test(tests[entry + i], thresholds[i], column_of, is_left[i * step] != 0);
    }
    return true;
  };
  for_each_split(forest, add, add_run);
  if (!fits) return collect(forest, Sets::kCodes);
  // Features that no node reads get a column too if rows become no longer by it: rows can then be encoded as they lie.
  std::vector<std::uint32_t> unread;
  for (std::uint32_t feature = 0; feature < forest.n_features; ++feature) {
    const auto at = index.lower_bound(Entry(kNumbers, feature, Missing::kNan, -1, false));
    if (at == index.end() || std::get<0>(at->first) != kNumbers || std::get<1>(at->first) != feature) {
      unread.push_back(feature);
    }
  }
  const auto n_read = static_cast<std::uint32_t>(index.size());
  if (n_read + 1 + unread.size() <= stride_for(n_read + 1)) {
    for (const std::uint32_t feature : unread) {
      index.emplace(Entry(kNumbers, feature, Missing::kNan, -1, false), kNotRead);
    }
  }
  const auto count = [&](Kind kind) {
    return static_cast<std::uint32_t>(
        std::count_if(index.begin(), index.end(), [&](auto& entry) { return std::get<0>(entry.first) == kind; }));
  };
  n_numeric_ = count(kNumbers);
  pad_ = n_numeric_ + count(kSet);
  std::vector<std::uint32_t> place(index.size());  // of a column, by its number
  for (const auto& [key, number] : index) {
    if (size() == pad_) columns_.push_back({0, Missing::kNan});
    if (number != kNotRead) place[number] = size();
    columns_.push_back({std::get<1>(key), std::get<2>(key)});
    columns_.back().is_read = number != kNotRead;
  }
  if (size() == pad_) columns_.push_back({0, Missing::kNan});
  for (std::size_t entry = first_split; entry < tests_.size() && !place.empty(); ++entry) {
    const std::uint32_t number = tests_[entry].column();
    tests_[entry].marked_column += place[number] - number;
  }
  for_each_leaf(forest, [&](std::size_t entry) { tests_[entry] = {0, pad_}; });
}

// Writes down the keys of every code in every set that is a column.
void Columns::tabulate_sets(const ForestView& forest) {
  struct Set {
    std::span<const std::uint32_t> words;
    bool missing_left = false;
  };
  if (pad_ == n_numeric_) return;
  std::vector<Set> set_of(pad_ - n_numeric_);
  for_each_split(forest, [&](std::size_t entry, const Split& split) {
    const std::uint32_t c = tests_[entry].column();
    if (c < n_numeric_ || c >= pad_) return true;
    const std::int64_t* words = &forest.category_offset[static_cast<std::size_t>(split.category_set)];
    set_of[c - n_numeric_] = {
        {forest.category_bits.data() + words[0], static_cast<std::size_t>(words[1] - words[0])}, split.default_left};
    return true;
  });
  for (std::uint32_t first = n_numeric_, end = first; first < pad_; first = end) {
    std::size_t n_words = 0;
    for (; end < pad_ && columns_[end].feature == columns_[first].feature; ++end) {
      n_words = std::max(n_words, set_of[end - n_numeric_].words.size());
    }
    const auto n_codes = static_cast<std::uint32_t>(32 * n_words);
    sets_.push_back({columns_[first].feature, first, end - first, n_codes, set_keys_.size()});
    for (std::uint32_t code = 0; code <= n_codes + 1; ++code) {
      for (std::uint32_t c = first; c < end; ++c) {
        const Set& set = set_of[c - n_numeric_];
        const bool is_member = code / 32 < set.words.size() && ((set.words[code / 32] >> (code % 32)) & 1u) != 0;
        set_keys_.push_back((code == n_codes + 1 ? set.missing_left : code < n_codes && is_member) ? 0 : 1);
      }
    }
  }
}

// Finds the key of missing values, and the nodes that are marked. A node sends a key left iff it is at most its own.
void Columns::place_missing() {
  std::vector<std::uint32_t> above(columns_.size(), 0), upto(columns_.size(), kNanKey);
  std::vector<unsigned> directions(columns_.size());  // bits: right, left
  for (std::size_t entry = 0; entry < tests_.size();) {
    // The tests of a column that follow each other, without going through memory.
    const std::uint32_t c = tests_[entry].column();
    std::uint32_t most = above[c], least = upto[c], sides = directions[c];
    for (; entry < tests_.size() && tests_[entry].column() == c; ++entry) {
      const std::uint32_t key = tests_[entry].key, is_left = tests_[entry].marked_column >> 31, left = 0u - is_left;
      least = std::min(least, key | ~left);
      most = std::max(most, (key + 1) & ~left);
      sides |= 1u << is_left;
    }
    above[c] = most;
    upto[c] = least;
    directions[c] = sides;
  }
  for (std::uint32_t c = 0; c < n_numeric_; ++c) {
    Column& column = columns_[c];
    if (column.missing == Missing::kAsZero) continue;
    column.mixed = directions[c] == 3 && above[c] > upto[c];
    column.missing_key = directions[c] == 2 ? 0 : directions[c] == 3 && !column.mixed ? above[c] : kNanKey;
    has_mixed_ |= column.mixed;
  }
  for (NodeTest& test : tests_) {
    const std::uint32_t keep = has_mixed_ && columns_[test.column()].mixed ? ~0u : ~NodeTest::kMark;
    test.marked_column &= keep;
  }
}

void Columns::sort_thresholds(const ForestView& forest) {
  std::vector<std::vector<double>> of_column(columns_.size());
  for_each_split(forest, [&](std::size_t entry, const Split& split) {
    of_column[tests_[entry].column()].push_back(last_left(forest, split.threshold));
    return true;
  });
  for (std::size_t c = 0; c < n_numeric_; ++c) {
    auto& sorted = of_column[c];
    std::sort(sorted.begin(), sorted.end());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    const auto same_key = [](double a, double b) { return key_below(a) == key_below(b); };
    columns_[c].ranked = std::adjacent_find(sorted.begin(), sorted.end(), same_key) != sorted.end();
    columns_[c].first_threshold = static_cast<std::uint32_t>(thresholds_.size());
    columns_[c].n_thresholds = static_cast<std::uint32_t>(std::bit_ceil(sorted.size() + 1));
    thresholds_.insert(thresholds_.end(), sorted.begin(), sorted.end());
    thresholds_.resize(columns_[c].first_threshold + columns_[c].n_thresholds, std::numeric_limits<double>::infinity());
    if (columns_[c].ranked) continue;
    const std::size_t n_words = std::bit_ceil(std::max<std::size_t>(2, kFilterBits * sorted.size() / 32));
    columns_[c].first_filter = static_cast<std::uint32_t>(filters_.size());
    columns_[c].filter_shift = 32u - static_cast<std::uint32_t>(std::countr_zero(n_words));
    filters_.resize(filters_.size() + n_words);
    for (const double threshold : sorted) {
      const std::uint32_t key = key_below(threshold);
      filters_[columns_[c].first_filter + filter_word(key, columns_[c].filter_shift)] |= filter_bits(key);
    }
  }
  for_each_split(forest, [&](std::size_t entry, const Split& split) {
    const std::uint32_t c = tests_[entry].column();
    if (c < n_numeric_) tests_[entry].key = key_of_threshold(forest, columns_[c], split.threshold);
    return true;
  });
}

void Columns::describe_floats() {
  floats_.n = n_numeric_;
  floats_.stride = stride_for(size());
  floats_.nan_keys.assign(floats_.stride, 0);
  floats_.first_filter.assign(floats_.stride, 0);
  floats_.filter_shift.assign(floats_.stride, 32);
  all_floats_ = true;
  bool in_order = true;
  for (std::uint32_t c = 0; c < n_numeric_; ++c) {
    const Column& column = columns_[c];
    all_floats_ = all_floats_ && !column.ranked && column.missing != Missing::kZero;
    in_order = in_order && column.feature == c;
    n_read_ = std::max<std::size_t>(n_read_, column.feature + 1);
    floats_.nan_keys[c] = !column.is_read                      ? 0
                          : column.missing == Missing::kAsZero ? ordered_key(0.0f)
                                                               : column.missing_key;
    if (!column.is_read || float32_) continue;
    floats_.first_filter[c] = column.first_filter;
    floats_.filter_shift[c] = column.filter_shift;
  }
  tiled_ = floats_;
  if (in_order) return;
  for (std::uint32_t c = 0; c < n_numeric_; ++c) floats_.feature.push_back(columns_[c].feature);
}

// The key of a threshold where the source compares doubles.
std::uint32_t Columns::key_of_threshold(const ForestView& forest, const Column& column, double threshold) const {
  const double last = last_left(forest, threshold);
  const std::uint32_t none = sends_left(forest, threshold) ? 0 : 1;  // then the key is below that of -inf
  if (!column.ranked) return key_below(last) - none;
  const auto first = thresholds_.begin() + column.first_threshold;
  return static_cast<std::uint32_t>(std::lower_bound(first, first + column.n_thresholds, last) - first) + 1 - none;
}

}  // namespace scurry
