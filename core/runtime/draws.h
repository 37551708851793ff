// Draws: which rows of an endless stream are drawn, by a key and the numbers of the rows alone.
//
// Each block of numbers draws the gaps between its rows from a counter under the key, so that any block can be drawn
// without those before it.
#pragma once

#include <cstdint>
#include <vector>

namespace scurry {

constexpr std::int64_t kDrawBlock = std::int64_t{1} << 18;

// Returns a number that looks random, one for each value: the mixer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
std::uint64_t mix_bits(std::uint64_t value);

class Draws {
 public:
  // `share` is in (0, 1]: the probability with which a row is drawn.
  Draws(double share, std::uint64_t seed) : share_(share), seed_(seed) {}

  // Returns the numbers that are drawn from `start` to before `stop`, ascending.
  std::vector<std::int64_t> between(std::int64_t start, std::int64_t stop);
  // Returns a number up to which no row from `start` on is drawn: that of the next one, or the end of a block.
  std::int64_t none_before(std::int64_t start);

 private:
  const std::vector<std::int64_t>& numbers_of(std::int64_t block);

  double share_;
  std::uint64_t seed_;
  std::int64_t latest_ = -1;           // the block that was drawn last ...
  std::vector<std::int64_t> numbers_;  // ... and its numbers
};

}  // namespace scurry
