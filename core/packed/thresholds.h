// Thresholds of distinct splits as differences: they rise within a feature, and most have few bits that are not 0.
//
// A threshold is its bits in an order-preserving form, a key. In a block of 32 splits, the last `shift` bits of all keys
// are 0; what is stored is by how much key >> shift exceeds that of the split before, in `width` bits. The first key of a
// feature is stored by itself, and its difference is 0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

// The inverse. Throws if sizes do not match, if thresholds of a feature do not rise, or if one is NaN.
std::vector<double> unpack_thresholds(const PackedThresholds& packed);
// Throws where unpack_thresholds() does, without the memory that it takes.
void check_thresholds(const PackedThresholds& packed);

}  // namespace scurry
