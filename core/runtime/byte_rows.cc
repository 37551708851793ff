// Finds the thresholds of every feature, and ranks values among them.
#include "runtime/byte_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <type_traits>

#include "kernels/kernels.h"
#include "runtime/columns.h"

namespace scurry {
namespace {

constexpr std::size_t kMostThresholds = 254, kMostFeatures = 1024;
static_assert(kMissingByte == kNanCode);  // what kernels make of NaN
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What nodes ask of a feature.
struct Asked {
  std::vector<double> thresholds;
  bool numbers = false, categories = false;

  bool add(double threshold) {
    const auto at = std::lower_bound(thresholds.begin(), thresholds.end(), threshold);
    if (at == thresholds.end() || *at != threshold) thresholds.insert(at, threshold);
    return thresholds.size() <= kMostThresholds;
  }
};

// Whether a set holds codes that are no bytes.
bool has_large_codes(const ForestView& forest, std::int32_t set) {
  const auto first = static_cast<std::size_t>(forest.category_offset[static_cast<std::size_t>(set)]);
  const auto last = static_cast<std::size_t>(forest.category_offset[static_cast<std::size_t>(set) + 1]);
  const std::span<const std::uint32_t> words = forest.category_bits.subspan(first, last - first);
  constexpr std::size_t kLastWord = kOtherByte / 32;
  if (words.size() <= kLastWord) return false;
  return (words[kLastWord] >> (kOtherByte % 32)) != 0 ||
         std::any_of(words.begin() + kLastWord + 1, words.end(), [](std::uint32_t word) { return word != 0; });
}

bool collect(const ForestView& forest, std::vector<Asked>& asked) {
  // The number before those that count as zero, which are missing at some nodes.
  const double before_zero = forest.float32_input
                                 ? static_cast<double>(std::nextafterf(-1e-35f, -std::numeric_limits<float>::infinity()))
                                 : std::nextafter(-kZeroThreshold, -kInfinity);
  bool fits = true;
  for_each_split(forest, [&](std::size_t, const Split& split) {
    Asked& of_feature = asked[split.feature];
    if (split.category_set >= 0) {
      of_feature.categories = true;
      fits = !has_large_codes(forest, split.category_set);
    } else {
      of_feature.numbers = true;
      fits = of_feature.add(last_left(forest, split.threshold)) &&
             (split.missing != MissingKind::kNanAndZero ||
              (of_feature.add(before_zero) && of_feature.add(kZeroThreshold)));
    }
    fits = fits && !(of_feature.numbers && of_feature.categories);
    return fits;
  });
  return fits;
}

}  // namespace

ByteRanks::ByteRanks(const ForestView& forest)
    : n_features_(forest.n_features),
      float32_(forest.float32_input),
      truncate_categories_(forest.truncate_categories) {
  if (n_features_ > kMostFeatures) return;
  std::vector<Asked> asked(n_features_);
  if (!collect(forest, asked)) return;
  for (const auto& [thresholds, numbers, categories] : asked) {
    Feature feature{static_cast<std::uint32_t>(thresholds_.size()), static_cast<std::uint32_t>(thresholds.size()),
                    static_cast<std::uint32_t>(std::bit_ceil(thresholds.size() + 1)), categories};
    thresholds_.insert(thresholds_.end(), thresholds.begin(), thresholds.end());
    thresholds_.resize(feature.first + feature.n_padded, kInfinity);
    features_.push_back(feature);
  }
}

double ByteRanks::value_of(std::size_t feature, std::uint8_t byte) const {
  const Feature& of = features_[feature];
  if (byte == kMissingByte) return std::numeric_limits<double>::quiet_NaN();
  if (of.is_category) return byte == kOtherByte ? -1.0 : byte;
  return byte < of.n ? thresholds_[of.first + byte] : kInfinity;
}

template <class T>
void ByteRanks::rank(std::size_t feature, const T* x, std::size_t n, std::uint8_t* ranks) const {
  const Feature& of = features_[feature];
  if (of.is_category) {
    // Codes are rounded down, or towards 0: then numbers above -1 are code 0.
    const double below = truncate_categories_ ? -1.0 : -std::numeric_limits<double>::denorm_min();
    for (std::size_t row = 0; row < n; ++row) {
      const double given = static_cast<double>(x[row]);
      const bool is_byte = given > below && given < kOtherByte;
      const auto code = static_cast<std::uint8_t>(is_byte ? static_cast<int>(given) : kOtherByte);
      ranks[row] = given != given ? kMissingByte : code;
    }
    return;
  }
  const double* thresholds = thresholds_.data() + of.first;
  if constexpr (std::is_same_v<T, float>) {
    kernels().ranks.rank_floats(thresholds, of.n_padded, x, n, ranks);
  } else {
    kernels().ranks.rank_doubles(thresholds, of.n_padded, x, n, ranks);
  }
}

template void ByteRanks::rank(std::size_t, const float*, std::size_t, std::uint8_t*) const;
template void ByteRanks::rank(std::size_t, const double*, std::size_t, std::uint8_t*) const;

}  // namespace scurry
