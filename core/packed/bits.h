// Numbers of a few bits each, one after another and the lowest bit first, as packed files hold them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

namespace scurry {

static_assert(std::endian::native == std::endian::little, "packed files are read as they lie");

// How many bits a number of one of n entries takes: at least one, so that the size of a file bounds its nodes.
inline unsigned bits_for(std::size_t n) { return n < 2 ? 1u : static_cast<unsigned>(std::bit_width(n - 1)); }

inline std::size_t bytes_for(std::size_t n, std::size_t width) { return (n * width + 7) / 8; }

// The 64 bits from a bit on, of which the last few may be lost; beyond the end they are 0.
inline std::uint64_t word_at(std::span<const std::uint8_t> bytes, std::size_t bit) {
  const std::size_t byte = bit / 8;
  std::uint64_t word = 0;
  if (byte + 8 <= bytes.size()) {
    std::memcpy(&word, bytes.data() + byte, 8);
  } else if (byte < bytes.size()) {
    std::memcpy(&word, bytes.data() + byte, bytes.size() - byte);
  }
  return word >> (bit % 8);
}

// The same of 57 bits or more, if all 8 bytes that are read are there.
inline std::uint64_t short_word_at(std::span<const std::uint8_t> bytes, std::size_t bit) {
  std::uint64_t word;
  std::memcpy(&word, bytes.data() + bit / 8, 8);
  return word >> (bit % 8);
}

// A number of up to 64 bits.
inline std::uint64_t number_at(std::span<const std::uint8_t> bytes, std::size_t bit, unsigned width) {
  if (width == 0) return 0;
  std::uint64_t word = word_at(bytes, bit);
  if (width > 32) word = (word & 0xFFFFFFFFu) | word_at(bytes, bit + 32) << 32;
  return width == 64 ? word : word & ((std::uint64_t{1} << width) - 1);
}

class Bits {
 public:
  Bits() = default;
  Bits(const char* name, std::span<const std::uint8_t> bytes, std::size_t n, unsigned width)
      : bytes_(bytes), n_(n), width_(width) {
    const std::size_t n_bits = n * width;
    if (width < 1 || width > 32 || bytes.size() != bytes_for(n, width)) {
      throw std::invalid_argument(std::string(name) + " has " + std::to_string(bytes.size()) + " bytes, not those of " +
                                  std::to_string(n) + " numbers");
    }
    if (n_bits % 8 != 0 && bytes.back() >> (n_bits % 8) != 0) {
      throw std::invalid_argument(std::string(name) + " has bits after its last number");
    }
    mask_ = 0xFFFFFFFFu >> (32 - width);
  }

  std::uint32_t operator[](std::size_t i) const { return at<false>(i); }
  // Whether at<true>() may be called for a number and all before it: the 8 bytes that it reads are there.
  bool is_within(std::size_t i) const { return i * width_ / 8 + 8 <= bytes_.size(); }
  template <bool kIsWithin>
  std::uint32_t at(std::size_t i) const {
    const std::size_t bit = i * width_;
    return static_cast<std::uint32_t>(kIsWithin ? short_word_at(bytes_, bit) : word_at(bytes_, bit)) & mask_;
  }
  // Whether all numbers are below a limit.
  bool are_below(std::uint64_t limit) const {
    if (limit > mask_) return true;
    std::uint32_t largest = 0;
    std::size_t i = 0;
    for (; i < n_ && is_within(i); ++i) largest = std::max(largest, at<true>(i));
    for (; i < n_; ++i) largest = std::max(largest, at<false>(i));
    return n_ == 0 || largest < limit;
  }

  // Of numbers of one bit: those from one on, as many as kBitsAtOnce at least, and how many are 1.
  static constexpr std::uint32_t kBitsAtOnce = 57;
  std::uint64_t bits_from(std::size_t i) const { return word_at(bytes_, i); }
  std::size_t count(std::size_t begin, std::size_t end) const {
    std::size_t n = 0;
    for (; begin < end; begin += kBitsAtOnce) {
      const std::size_t n_read = std::min<std::size_t>(kBitsAtOnce, end - begin);
      n += count_ones(bits_from(begin) << (64 - n_read));
    }
    return n;
  }

 private:
  // std::popcount is a call where the compiler may not use the instruction, as not every x86-64 has it.
  static std::size_t count_ones(std::uint64_t word) {
    word -= word >> 1 & 0x5555555555555555u;
    word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
    return ((word + (word >> 4)) & 0x0F0F0F0F0F0F0F0Fu) * 0x0101010101010101u >> 56;
  }

  std::span<const std::uint8_t> bytes_;
  std::size_t n_ = 0;
  std::uint32_t width_ = 1, mask_ = 1;
};

// Writes numbers of `width` bits; all of them must fit.
inline std::vector<std::uint8_t> pack_bits(std::span<const std::uint32_t> numbers, unsigned width) {
  std::vector<std::uint8_t> out(bytes_for(numbers.size(), width));
  std::uint64_t word = 0;
  unsigned n_bits = 0;
  std::size_t at = 0;
  for (const std::uint32_t number : numbers) {
    word |= std::uint64_t{number} << n_bits;
    for (n_bits += width; n_bits >= 8; n_bits -= 8, word >>= 8) out[at++] = static_cast<std::uint8_t>(word);
  }
  if (n_bits > 0) out[at] = static_cast<std::uint8_t>(word);
  return out;
}

}  // namespace scurry
