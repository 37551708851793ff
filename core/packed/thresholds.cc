// Packs and unpacks the thresholds of distinct splits.
#include "packed/thresholds.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>

#include "packed/bits.h"

namespace scurry {

using thresholds::key_of;

namespace {

std::size_t total_of(std::span<const std::uint32_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

std::size_t blocks_of(std::size_t n) { return (n + kThresholdBlock - 1) / kThresholdBlock; }

}  // namespace

ThresholdBlocks pack_thresholds(std::span<const double> thresholds, std::span<const std::uint32_t> feature_splits) {
  const std::size_t n = thresholds.size();
  if (total_of(feature_splits) != n) throw std::invalid_argument("as many thresholds as splits are needed");
  std::vector<std::uint64_t> key(n), before(n);
  std::transform(thresholds.begin(), thresholds.end(), key.begin(), key_of);
  std::size_t at = 0;
  for (const std::uint32_t count : feature_splits) {
    for (std::size_t i = 0; i < count; ++i, ++at) before[at] = i == 0 ? key[at] : key[at - 1];
  }
  ThresholdBlocks out;
  std::size_t n_bits = 0;
  const auto delta_of = [&](std::size_t i, unsigned shift) { return (key[i] >> shift) - (before[i] >> shift); };
  for (std::size_t first = 0; first < n; first += kThresholdBlock) {
    const std::size_t end = std::min(n, first + kThresholdBlock);
    const std::uint64_t all =
        std::accumulate(key.begin() + static_cast<std::ptrdiff_t>(first), key.begin() + static_cast<std::ptrdiff_t>(end),
                        std::uint64_t{0}, std::bit_or<std::uint64_t>());
    const auto shift = static_cast<unsigned>(std::min(63, std::countr_zero(all)));
    int width = 0;
    for (std::size_t i = first; i < end; ++i) width = std::max(width, static_cast<int>(std::bit_width(delta_of(i, shift))));
    out.shift.push_back(static_cast<std::uint8_t>(shift));
    out.width.push_back(static_cast<std::uint8_t>(width));
    out.delta.resize((n_bits + (end - first) * static_cast<std::size_t>(width) + 7) / 8);
    for (std::size_t i = first; i < end; ++i, n_bits += static_cast<std::size_t>(width)) {
      const std::uint64_t delta = delta_of(i, shift);
      for (std::size_t b = 0; b < static_cast<std::size_t>(width); ++b) {
        if (delta >> b & 1) out.delta[(n_bits + b) / 8] |= static_cast<std::uint8_t>(1u << ((n_bits + b) % 8));
      }
    }
  }
  return out;
}

namespace {

// Throws if the parts have other sizes than so many thresholds.
void check_sizes(const PackedThresholds& packed, std::size_t n) {
  const auto& [first_threshold, feature_splits, shift, width, delta] = packed;
  std::size_t n_bits = 0;
  // Sizes first: one byte of the file may stand for 32 splits, so that memory stays in proportion to the file.
  if (first_threshold.size() != feature_splits.size() || shift.size() != blocks_of(n) || width.size() != blocks_of(n)) {
    throw std::invalid_argument("thresholds have other sizes than splits");
  }
  for (std::size_t block = 0; block < width.size(); ++block) {
    if (width[block] > 64 || shift[block] > 63) throw std::invalid_argument("a threshold has more than 64 bits");
    n_bits += width[block] * std::min(kThresholdBlock, n - block * kThresholdBlock);
  }
  if (delta.size() != (n_bits + 7) / 8) throw std::invalid_argument("threshold_delta has another size than its widths");
  if (n_bits % 8 != 0 && delta.back() >> (n_bits % 8) != 0) {
    throw std::invalid_argument("threshold_delta has bits after its last number");
  }
}

}  // namespace

void thresholds::refuse(const char* why) { throw std::invalid_argument(why); }

std::size_t check_sizes(const PackedThresholds& packed) {
  const std::size_t n = total_of(packed.feature_splits);
  check_sizes(packed, n);
  return n;
}

std::vector<double> unpack_thresholds(const PackedThresholds& packed) {
  std::vector<double> out(check_sizes(packed));
  for_each_threshold(packed, [&](std::size_t at, std::size_t, double threshold) {
    out[at] = threshold;
    return true;
  });
  return out;
}

void check_thresholds(const PackedThresholds& packed) {
  check_sizes(packed);
  for_each_run(packed, [](std::size_t, std::size_t, std::span<const double>) { return true; });
}

}  // namespace scurry
