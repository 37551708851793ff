// Gaps of a fair draw have no memory, so that beginning anew in each block makes every row a drawn one with the same
// probability, independently of all others.
#include "runtime/draws.h"

#include <algorithm>
#include <cmath>

namespace scurry {
namespace {

constexpr std::uint64_t kGamma = 0x9E3779B97F4A7C15;  // of SplitMix64

}  // namespace

std::uint64_t mix_bits(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

const std::vector<std::int64_t>& Draws::numbers_of(std::int64_t block) {
  if (block == latest_) return numbers_;
  latest_ = -1;  // until all numbers are there
  numbers_.clear();
  const std::uint64_t key = mix_bits(seed_ + kGamma * (static_cast<std::uint64_t>(block) + 1));
  const double log_rest = std::log1p(-share_), longest = static_cast<double>(kDrawBlock);
  std::uint64_t counter = 0;
  for (std::int64_t place = -1;;) {
    std::int64_t gap = 0;
    if (share_ < 1.0) {
      const std::uint64_t bits = mix_bits(key + kGamma * ++counter) >> 11;
      const double uniform = (static_cast<double>(bits) + 0.5) * 0x1p-53;
      // No gap is longer than a block, and the logarithm of a small share would make some too long for 64 bits.
      gap = static_cast<std::int64_t>(std::min(std::log(uniform) / log_rest, longest));
    }
    place += 1 + gap;
    if (place >= kDrawBlock) break;
    numbers_.push_back(block * kDrawBlock + place);
  }
  latest_ = block;
  return numbers_;
}

std::vector<std::int64_t> Draws::between(std::int64_t start, std::int64_t stop) {
  std::vector<std::int64_t> found;
  while (start < stop) {
    const std::int64_t block = start / kDrawBlock, end = std::min(stop, (block + 1) * kDrawBlock);
    const std::vector<std::int64_t>& numbers = numbers_of(block);
    const auto first = std::ranges::lower_bound(numbers, start);
    found.insert(found.end(), first, std::lower_bound(first, numbers.end(), end));
    start = end;
  }
  return found;
}

std::int64_t Draws::none_before(std::int64_t start) {
  const std::int64_t block = start / kDrawBlock;
  const std::vector<std::int64_t>& numbers = numbers_of(block);
  const auto next = std::ranges::lower_bound(numbers, start);
  return next == numbers.end() ? (block + 1) * kDrawBlock : *next;
}

}  // namespace scurry
