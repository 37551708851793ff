// The hot loops, compiled once per instruction set and chosen at run time. Every variant gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trees.h"

namespace scurry {

constexpr std::size_t kLanes = 8;   // rows walked together
constexpr std::size_t kIntLanes = 16;
constexpr std::size_t kChunk = 64;  // rows whose top levels are tested together; blocks are padded to a multiple of it

// A block of encoded rows: by row for the walk, by column for the top levels.
struct Block {
  const std::uint32_t* by_row;     // [n][stride]
  const std::uint32_t* by_column;  // [column][column_stride], 64-byte aligned, null if rows are too few to be worth it
  std::size_t column_stride;
  std::size_t n;                   // a multiple of kChunk
};

// Everything a walk over one tree needs, for a block of rows or a single one.
template <class Node>
struct Walk {
  const Node* nodes;  // of all trees
  const CategoryTest* category_tests;
  const std::uint32_t* category_bits;
  std::uint32_t pad;  // columns above it are categorical
  std::uint32_t stride;
  bool has_categories;
};

struct Kernels {
  // payload[row] of the leaf each row reaches; scratch holds n words.
  void (*walk_narrow)(const Walk<NarrowNode>&, const Tree&, const Block&, std::uint32_t* payload, std::uint32_t* scratch);
  void (*walk_wide)(const Walk<WideNode>&, const Tree&, const Block&, std::uint32_t* payload, std::uint32_t* scratch);
  // payload[tree] for one row over n trees.
  void (*row_narrow)(const Walk<NarrowNode>&, const Tree*, std::size_t n, const std::uint32_t* keys, std::uint32_t* payload);
  void (*row_wide)(const Walk<WideNode>&, const Tree*, std::size_t n, const std::uint32_t* keys, std::uint32_t* payload);

  // at[row], inside the tree, of the node each row reaches after `levels` levels; a leaf is not left.
  void (*descend_narrow)(const Walk<NarrowNode>&, const Tree&, const Block&, std::uint32_t levels, std::uint32_t* at);
  void (*descend_wide)(const Walk<WideNode>&, const Tree&, const Block&, std::uint32_t levels, std::uint32_t* at);
  // One row's steps in trees[0], trees[1], …; at[tree] is its place in the array of all nodes.
  void (*steps_narrow)(const Walk<NarrowNode>&, const std::uint32_t* trees, std::size_t n, const std::uint32_t* keys,
                       std::uint32_t* at);
  void (*steps_wide)(const Walk<WideNode>&, const std::uint32_t* trees, std::size_t n, const std::uint32_t* keys,
                     std::uint32_t* at);

  // scores[row] += table[payload[row]]
  void (*add_doubles)(const double* table, const std::uint32_t* payload, std::size_t n, double* scores);
  // scores[row] += the float whose bits are payload[row]
  void (*add_floats)(const std::uint32_t* payload, std::size_t n, float* scores);
  // scores[row][0..width) += table[payload[row]][0..width), both 64-byte aligned; width is 2 or a multiple of 8
  void (*add_vectors)(const double* table, std::size_t width, const std::uint32_t* payload, std::size_t n, double* scores);
  // sums[0..width) += table[payload[0]][0..width), then table[payload[1]][0..width), …, aligned as above
  void (*sum_vectors)(const double* table, std::size_t width, const std::uint32_t* payload, std::size_t n, double* sums);

  // sums[row] += the signed payload[row]; exits receives the rows with sums <= lower or >= upper, ascending, and their
  // number is returned. payload, sums and exits have room for n rounded up to a multiple of kChunk.
  std::size_t (*add_and_test)(const std::uint32_t* payload, std::size_t n, std::int32_t* sums, std::int32_t lower,
                              std::int32_t upper, std::uint32_t* exits);

  // sums[row][0..width) += table[payload[row]][0..width), both 64-byte aligned; width is a multiple of kIntLanes.
  void (*add_int_vectors)(const std::int32_t* table, std::size_t width, const std::uint32_t* payload, std::size_t n,
                          std::int32_t* sums);
  // The largest and the second largest of sums[row][0..width).
  void (*top_two)(const std::int32_t* sums, std::size_t width, std::size_t n, std::int32_t* first, std::int32_t* second);

  const char* name;
};

// The fastest set this processor runs.
const Kernels& kernels();

}  // namespace scurry
