// Thresholds of distinct splits as differences: they rise within a feature, and most have few bits that are not 0.
//
// A threshold is its bits in an order-preserving form, a key. In a block of 32 splits, the last `shift` bits of all keys
// are 0; what is stored is by how much key >> shift exceeds that of the split before, in `width` bits. The first key of a
// feature is stored by itself, and its difference is 0.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "packed/bits.h"

namespace scurry {

constexpr std::size_t kThresholdBlock = 32;

struct ThresholdBlocks {
  std::vector<std::uint8_t> shift, width, delta;
};

// `first` is the place of each feature's first split.
ThresholdBlocks pack_thresholds(std::span<const double> thresholds, std::span<const std::uint32_t> feature_splits);

// The packed thresholds of a file.
struct PackedThresholds {
  std::span<const double> first_threshold;
  std::span<const std::uint32_t> feature_splits;
  std::span<const std::uint8_t> shift, width, delta;
};

// Calls visit(place of the first, feature, thresholds) for runs of up to kThresholdBlock of them, in order, until it returns
// false; a feature is its place among those that have splits, and a run is of one. Sizes must have been checked. Throws if
// thresholds of a feature do not rise, or if one is NaN.
template <class Visit>
void for_each_run(const PackedThresholds& packed, Visit visit);
// Calls visit(place, feature, threshold) for each.
template <class Visit>
void for_each_threshold(const PackedThresholds& packed, Visit visit);

// The inverse. Throws if sizes do not match, if thresholds of a feature do not rise, or if one is NaN.
std::vector<double> unpack_thresholds(const PackedThresholds& packed);
// Throws where unpack_thresholds() does, without the memory that it takes.
void check_thresholds(const PackedThresholds& packed);
// Throws if parts have other sizes than there are splits, whose number is returned.
std::size_t check_sizes(const PackedThresholds& packed);

namespace thresholds {

constexpr std::uint64_t kSign = std::uint64_t{1} << 63;

// The bits of a double as an unsigned integer of the same order; -0.0 is just below 0.0, so that nothing is lost.
inline std::uint64_t key_of(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  return bits & kSign ? ~bits : bits | kSign;
}

inline double double_of(std::uint64_t key) {  // without a branch: signs of thresholds cannot be predicted
  const std::uint64_t is_positive = key >> 63;
  return std::bit_cast<double>(key ^ ((is_positive - 1) | kSign));
}

[[noreturn]] void refuse(const char* why);

}  // namespace thresholds

template <class Visit>
void for_each_run(const PackedThresholds& packed, Visit visit) {
  using namespace thresholds;
  const auto& [first_threshold, feature_splits, shifts, widths, delta] = packed;
  const std::uint64_t least = key_of(-std::numeric_limits<double>::infinity());
  const std::uint64_t most = key_of(std::numeric_limits<double>::infinity());
  std::size_t at = 0, bit = 0;
  for (std::size_t f = 0; f < feature_splits.size(); ++f) {
    std::uint64_t before = key_of(first_threshold[f]);
    const std::size_t end = at + feature_splits[f];
    if (at < end && number_at(delta, bit, widths[at / kThresholdBlock]) != 0) refuse("thresholds do not rise");
    while (at < end) {
      const unsigned shift = shifts[at / kThresholdBlock], width = widths[at / kThresholdBlock];
      const std::size_t stop = std::min(end, (at / kThresholdBlock + 1) * kThresholdBlock);
      const std::uint64_t room = ~std::uint64_t{0} >> shift;
      // Nearly always, each difference lies within 8 bytes.
      const bool is_short = width <= 57 && (bit + kThresholdBlock * width) / 8 + 8 <= delta.size();
      const std::uint64_t mask = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
      double run[kThresholdBlock];  // first read, then visited: each loop for itself stays in registers
      const std::size_t n = stop - at;
      for (std::size_t i = 0; i < n; ++i, bit += width) {
        const std::uint64_t more = is_short ? short_word_at(delta, bit) & mask : number_at(delta, bit, width);
        const std::uint64_t start = before >> shift, key = (start + more) << shift;
        if ((more > room - start) | (key < before)) refuse("thresholds do not rise");
        if ((key < least) | (key > most)) refuse("a threshold is NaN");
        before = key;
        run[i] = double_of(key);
      }
      if (!visit(at, f, std::span<const double>(run, n))) return;
      at = stop;
    }
  }
}

template <class Visit>
void for_each_threshold(const PackedThresholds& packed, Visit visit) {
  for_each_run(packed, [&](std::size_t at, std::size_t feature, std::span<const double> run) __attribute__((always_inline)) {
    for (const double threshold : run) {
      if (!visit(at++, feature, threshold)) return false;
    }
    return true;
  });
}

}  // namespace scurry
