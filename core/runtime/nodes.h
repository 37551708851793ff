// What kernels read of a lowered forest: nodes, trees, tests of categories, columns of numbers.
#pragma once

#include <cstdint>

#include "runtime/aligned.h"

namespace scurry {

constexpr std::uint32_t kNanKey = 0xFFFFFFFFu;      // above every number
constexpr std::uint32_t kNoCategory = 0xFFFFFFFEu;  // in no set

// A node test is `at += left + (keys[column] > key)`, `left` being the distance to the left child. A leaf has left = 0
// and the pad as its column, whose key 0 exceeds nothing: testing a leaf again is harmless, so that rows which arrive
// early need no branch, and its `key` is free to hold what the leaf is worth (a payload).
struct NarrowNode {
  std::uint32_t key;
  std::uint16_t column;
  std::uint16_t left;
};
// For trees too large for 16 bits.
struct WideNode {
  std::uint32_t key;
  std::uint32_t column;
  std::uint32_t left;
};

struct CategoryTest {
  std::uint32_t first_word;
  std::uint32_t n_bits;
  bool nan_left;
};

struct Tree {
  std::uint32_t first;  // its root in the node array
  std::uint32_t depth;
  std::uint32_t top;          // levels laid out as a complete binary heap, without leaves or categories
  std::uint32_t first_phase;  // levels that every row walks before the rows that are not at a leaf are gathered
  std::int32_t output;        // the score it adds to, -1: all
  std::uint32_t index;        // its place in the forest
};

// What the encoding kernels need: arrays over the numeric columns and the pad, with space for whole vectors of 16.
struct FloatColumns {
  AlignedVector<std::uint32_t> nan_keys;
  AlignedVector<std::uint32_t> feature;  // empty: column j is feature j
  std::uint32_t n = 0;                   // numeric columns
  std::uint32_t stride = 0;
  // float64, with space for whole vectors of 16: the filter of each column begins at word `first_filter` of all, see
  // filter_word(). A shift of 32 is no filter: no key of the column is looked for.
  AlignedVector<std::uint32_t> first_filter, filter_shift;
};

// Three bits of one word of a filter stand for each key that it holds: others hardly ever meet all by chance.
constexpr std::uint32_t kFilterWordFactor = 0x9E3779B1u, kFilterBitsFactor = 0x85EBCA6Bu;
constexpr std::uint32_t kFilterShifts[3] = {27, 22, 17};  // the five bits from there on are the number of a bit

}  // namespace scurry
