// The hot loops, compiled once per instruction set and chosen at run time. Every variant gives the same bits.
//
// CMakeLists.txt compiles each file of kernels/ (but dispatch.cc) once per instruction set, with SCURRY_ISA as the
// namespace; each file fills a table of function pointers (EncodeKernels, WalkKernels, …). kernels() returns the tables
// of the best set that this processor has. This is the only dispatch: a loop that gains from wide vectors becomes an
// entry of a table. What is compiled per instruction set takes plain arrays and must not define functions outside its
// namespace: the linker would keep one copy of an inline function for all sets, and older processors could not run it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/order_kernels.h"
#include "runtime/nodes.h"

namespace scurry {

constexpr std::size_t kLanes = 8;  // rows walked together
constexpr std::size_t kIntLanes = 16, kHalfIntLanes = 8;
constexpr std::size_t kChunk = 64;  // rows whose top levels are tested together; blocks have space for a multiple of it

// A key whose signed order is the unsigned order of `key`. AVX2 and SSE2 compare signed numbers only.
constexpr std::int32_t signed_key(std::uint32_t key) { return static_cast<std::int32_t>(key ^ 0x80000000u); }

// The ranks of rows among the thresholds of some columns (runtime/ranks.h), [column][stride], 64-byte aligned.
struct Ranks {
  const std::uint8_t* of_rows = nullptr;
  std::size_t stride = 0, n_columns = 0;
};

// A block of encoded rows: by row for the walk, by column for the top levels, as ranks for symmetric and sliced trees.
struct Block {
  const std::uint32_t* by_row;    // [n][stride]; null if there are ranks and nothing else is needed
  const std::int32_t* by_column;  // [column][column_stride] of signed_key, 64-byte aligned; null if it does not pay
  std::size_t column_stride;
  std::size_t n;     // a multiple of kChunk with columns, else of kLanes; there is space for whole chunks
  bool has_missing;  // some row needs the nodes' marks
  Ranks ranks{};     // null if it does not pay
  std::uint32_t n_walked = 0;  // levels that are walked already: the nodes reached are where the payloads will be

  bool has_columns() const { return by_column != nullptr || ranks.of_rows != nullptr; }
  void drop_columns() {
    by_column = nullptr;
    ranks = {};
  }
};

constexpr std::size_t kTopsTogether = 8;  // trees whose top levels are tested together
constexpr std::uint32_t kTopsLevels = 4;  // at most

// What a walk needs, whether of a block of rows or of a single one.
template <class Node>
struct Walk {
  const Node* nodes;  // of all trees
  const CategoryTest* category_tests;
  const std::uint32_t* category_bits;
  const std::uint32_t* marks;  // a bit per node: missing values go left; null if no walk needs them
  std::uint32_t pad;           // columns above it are categorical
  std::uint32_t stride;
  bool has_categories;
};

template <class Node>
struct WalkKernels {
  // payload[row] of the leaf each row reaches; scratch holds n words.
  void (*tree)(const Walk<Node>&, const Tree&, const Block&, std::uint32_t* payload, std::uint32_t* scratch);
  // at[row], inside the tree, of the node each row reaches after `levels` levels; a leaf is not left.
  void (*descend)(const Walk<Node>&, const Tree&, const Block&, std::uint32_t levels, std::uint32_t* at);
  // payload[tree] for one row over n trees.
  void (*row)(const Walk<Node>&, const Tree*, std::size_t n, const std::uint32_t* keys, std::uint32_t* payload);
  // Takes one row a tree step in trees[0], in trees[1], and so on; at[tree] is its node in the array of all nodes.
  void (*steps)(const Walk<Node>&, const std::uint32_t* trees, std::size_t n, const std::uint32_t* keys,
                std::uint32_t* at);
  // at[tree * spacing + row], inside the tree, of the node each row reaches in the top kTopsLevels levels of up to
  // kTopsTogether trees, or in as many as Tree::top says. Only of rows of tops_stride keys.
  void (*tops)(const Walk<Node>&, const Tree* trees, std::size_t n, const Block&, std::uint32_t* at,
               std::size_t spacing);
};

// What was found among the rows encoded.
struct Encoded {
  bool any_missing;  // NaN in a column where NaN has the key kNanKey
  bool any_inexact;  // a number that is not a float
};

// Where a row is moved from, and where to.
struct Move {
  std::uint32_t from, to;
};

struct EncodeKernels {
  // keys[row][column] of rows whose values lie next to each other; the keys of inexact numbers are left to the caller.
  // The rows `ahead` of these are prefetched (0: none).
  Encoded (*floats)(const FloatColumns&, const float* x, std::ptrdiff_t row_stride, std::size_t n, std::size_t ahead,
                    std::uint32_t* keys);
  Encoded (*doubles)(const FloatColumns&, const double* x, std::ptrdiff_t row_stride, std::size_t n, std::size_t ahead,
                     std::uint32_t* keys);
  // Makes the keys of inexact numbers, which are those of the nearest floats, those of the floats below. Writes the places
  // in keys of those that a filter holds, and returns how many there are.
  std::size_t (*lower_inexact)(const FloatColumns&, const std::uint32_t* filters, const double* x,
                               std::ptrdiff_t row_stride, std::size_t n, std::uint32_t* keys, std::uint32_t* places);
  // by_column[column * spacing + row] = signed_key(keys[row * stride + column]) of n rows and the first n_columns columns.
  // n and spacing are multiples of 16; so is stride, and columns up to the next multiple are read.
  void (*transpose)(const std::uint32_t* keys, std::size_t stride, std::size_t n, std::size_t n_columns,
                    std::int32_t* by_column, std::size_t spacing);
  // Moves the keys of n rows. The stride is a multiple of 16.
  void (*move)(std::uint32_t* keys, std::size_t stride, const Move* moves, std::size_t n);
};

// What the leaves of some trees add to a row's sums: the first `width` of them, 1, 2, 4, 8 or a multiple of kIntLanes.
struct LaneTable {
  const std::int32_t* lanes;  // [payload][width], aligned like vectors of that many lanes, up to 64 bytes
  std::size_t width;
};

// Whether sums stop a row, see Sentinel (runtime/sentinel_exit.h).
struct LaneTest {
  std::size_t lane, spread;
  bool has_spread;
  double square;
  const std::int32_t* edges;
  std::size_t n_edges;
  const double* limits;
  const std::int32_t* whole_limits;  // what spreads, which are whole numbers, must not exceed if square is 0; or null
};

constexpr std::size_t kMostRanked = 64;

struct Neighbours {
  std::int32_t kth, next;
};

struct SumKernels {
  // scores[row] += table[payload[row]]
  void (*add_doubles)(const double* table, const std::uint32_t* payload, std::size_t n, double* scores);
  // scores[row] += the float whose bits are payload[row]
  void (*add_floats)(const std::uint32_t* payload, std::size_t n, float* scores);
  // scores[row][0..width) += table[payload[row]][0..width), both 64-byte aligned; width is 2 or a multiple of 8
  void (*add_vectors)(const double* table, std::size_t width, const std::uint32_t* payload, std::size_t n,
                      double* scores);
  // sums[0..width) += table[payload[0]][0..width), then table[payload[1]][0..width), …, aligned as above
  void (*sum_vectors)(const double* table, std::size_t width, const std::uint32_t* payload, std::size_t n,
                      double* sums);

  // sums[row] += the signed high half of payload[row]
  void (*add_high_halves)(const std::uint32_t* payload, std::size_t n, std::int32_t* sums);
  // sums[row][0..width) += table[payload[row]][0..width), both 64-byte aligned; width is 8, 16 or a multiple of 32.
  void (*add_words)(const std::uint16_t* table, std::size_t width, const std::uint32_t* payload, std::size_t n,
                    std::uint16_t* sums);

  // payload[row] = table[payload[row] & mask]
  void (*look_up)(const std::uint32_t* table, std::uint32_t mask, std::size_t n, std::uint32_t* payload);
  // sums[row] += the signed payload[row]. The bit of each row in exits (kChunk bits per word) says whether its sum is
  // <= lower or >= upper. Arrays over rows have space for n rounded up to a multiple of kChunk.
  void (*add_and_test)(const std::uint32_t* payload, std::size_t n, std::int32_t* sums, std::int32_t lower,
                       std::int32_t upper, std::uint64_t* exits);

  // sums[row][0..width) += table[payload[row]][0..width), both aligned like vectors of that many numbers, up to 64
  // bytes; width is kHalfIntLanes or a multiple of kIntLanes.
  void (*add_int_vectors)(const std::int32_t* table, std::size_t width, const std::uint32_t* payload, std::size_t n,
                          std::int32_t* sums);
  // The largest and the second largest of sums[row][0..width).
  void (*top_two)(const std::int32_t* sums, std::size_t width, std::size_t n, std::int32_t* first,
                  std::int32_t* second);
  // The bit of each row in exits (kChunk bits per word) says whether the largest sum is `lead` or more above the second
  // largest. Arrays over rows have space for n rounded up to a multiple of kChunk.
  void (*test_leads)(const std::int32_t* sums, std::size_t width, std::size_t n, std::int32_t lead,
                     std::uint64_t* exits);
  // The same for sums[0..width)[row], `spacing` apart.
  void (*test_leads_of)(const std::int32_t* sums, std::size_t width, std::size_t spacing, std::size_t n,
                        std::int32_t lead, std::uint64_t* exits);

  // sums[row][0..table.width) += what the leaf payload[tree * spacing + row] adds, for each of n_trees trees. A row has
  // `width` sums, aligned like the table.
  void (*add_lanes)(const LaneTable& table, const std::uint32_t* payload, std::size_t spacing, std::size_t n_trees,
                    std::size_t n, std::int32_t* sums, std::size_t width);
};

// Which sums leave the documents of a query out, and which make them one of the best.
struct QueryBounds {
  const std::uint32_t* query_of;  // by document
  const std::int32_t *out_below, *in_above;
};

// How far sums may be off: by `limit` times a spread, which is 0 or more. Numbers of rows are `apart`.
struct Reaches {
  const std::int32_t *sums, *spreads;
  std::size_t apart;
  double limit;
};

struct LaneTestKernels {
  // The bit of each row in exits (kChunk bits per word) says whether its sums stop it. Arrays over rows have space for n
  // rounded up to a multiple of kChunk.
  void (*test)(const LaneTest& test, const std::int32_t* sums, std::size_t width, std::size_t n,
               std::uint64_t* exits);
  // The k-th largest of n numbers, more than k and no more than kMostRanked, and the next.
  Neighbours (*select)(const std::int32_t* numbers, std::size_t n, std::size_t k);
  // The least and the largest sums of n rows, next to each other. They are neither the least nor the largest integer.
  void (*reach)(const Reaches&, std::size_t n, std::int32_t* least, std::int32_t* largest);
  // The bits of each row in `leaving` and `is_in` (kChunk bits per word) say whether its largest sum is below the bounds of
  // its query or its least sum above them, and whether it is above. Sums of rows are `apart`; arrays over rows have space
  // for whole chunks.
  void (*mark)(const QueryBounds&, const std::uint32_t* documents, const std::int32_t* least,
               const std::int32_t* largest, std::size_t apart, std::size_t n, std::uint64_t* leaving,
               std::uint64_t* is_in);
};

// Whether a row's rank in a column is at least this.
struct RankTest {
  std::uint16_t column;
  std::uint8_t least;
};

// How the keys of a column become ranks.
enum class RankKind : std::uint8_t {
  kThresholds,  // the number of thresholds below a key
  kSet,         // whether a category is not in a set
  kCodes,       // categories themselves, see kOtherCode and kNanCode
};
constexpr std::uint8_t kOtherCode = 254, kNanCode = 255;  // categories from 254 on, and missing ones

struct RankColumn {
  std::uint32_t column;
  std::uint32_t first;         // threshold, or category test
  std::uint32_t n_thresholds;  // sorted and padded to a power of two by keys above all
  RankKind kind;
  bool missing_left;  // kNanKey has rank 0
  // The thresholds of one column of keys may become several columns of ranks, of which this is the first: their thresholds
  // follow each other, kMaxThresholds in each but the last.
  std::uint32_t n_parts = 1;
  std::uint32_t table = 0;  // the first entry of its table
};

constexpr std::uint32_t kMaxThresholds = 255;  // so that a rank is a byte

struct Ranking {
  std::span<const RankColumn> columns;
  const std::uint32_t* thresholds;
  const std::uint32_t* tables;  // what RankKernels::arrange() writes, a table for each column of keys, 64-byte aligned
  const CategoryTest* category_tests;
  const std::uint32_t* category_bits;
};

constexpr std::size_t kRankedFloats = 8;

struct RankKernels {
  // Writes those of n thresholds between which rank() searches in registers, in the order in which it wants them; how many
  // entries this takes.
  std::size_t (*table_size)(std::uint32_t n);
  void (*arrange)(const std::uint32_t* thresholds, std::uint32_t n, std::uint32_t* table);
  // ranks[column][row] of n rows, a multiple of kChunk, whose keys are [row][key_stride].
  void (*rank)(const Ranking&, const std::uint32_t* keys, std::size_t key_stride, std::size_t n, std::uint8_t* ranks,
               std::size_t stride);
  // The same of rows of floats that lie one after the other, n a multiple of kChunk, whose columns are all numeric: their
  // keys are not kept. Returns whether a value is missing. Rows have at least kRankedFloats values.
  bool (*rank_float_rows)(const Ranking&, const FloatColumns&, const float* x, std::ptrdiff_t row_stride, std::size_t n,
                          std::uint8_t* ranks, std::size_t stride);
  // ranks[column] of one row, without columns of codes.
  void (*rank_row)(const Ranking&, const std::uint32_t* keys, std::uint8_t* ranks);
  // ranks[i]: how many thresholds are below x[i], kNanCode if it is NaN. They are sorted and padded by infinity to
  // `n_padded`, a power of two of at most 256.
  void (*rank_floats)(const double* thresholds, std::uint32_t n_padded, const float* x, std::size_t n,
                      std::uint8_t* ranks);
  void (*rank_doubles)(const double* thresholds, std::uint32_t n_padded, const double* x, std::size_t n,
                       std::uint8_t* ranks);
};

struct SymmetricTree {
  std::uint32_t first_test, depth;
  std::uint32_t first_leaf;  // of all trees; bit i of a leaf's number is the answer of test i
};

constexpr std::size_t kRowTests = 64;     // of a single row, made together
constexpr std::size_t kMaxRowRanks = 64;  // columns whose ranks registers hold

// Tests of a single row.
struct RowTests {
  alignas(64) std::uint8_t column[kRowTests], least[kRowTests];
};

constexpr std::size_t kLeafBits = 8;                          // of symmetric trees
constexpr std::size_t kTestedTrees = kRowTests / kLeafBits;   // whose leaves are found together, for a single row
constexpr std::size_t kRowTrees = 16;                         // in which a single row is tested together

// A level of kRowTrees trees, for a single row.
struct RowTest {
  std::uint32_t column[kRowTrees], key[kRowTrees];
};

struct SymmetricKernels {
  // payload[row] of the leaf each row reaches.
  void (*walk)(const SymmetricTree&, const RankTest* tests, const Ranks&, std::size_t n,
               const std::uint32_t* payload_of_leaf, std::uint32_t* payload);
  // payload[tree] for one row over all trees; tests are [group of kRowTrees trees][level below depth].
  void (*walk_row)(const RowTest* tests, std::uint32_t depth, std::span<const SymmetricTree> trees,
                   const std::uint32_t* keys, const std::uint32_t* payload_of_leaf, std::uint32_t* payload);
  // leaf[tree] for one row over groups of kTestedTrees trees, given its ranks in kMaxRowRanks columns. The tests of a tree
  // are next to each other; those whose bits in `asked` are 0 count as no.
  void (*leaves_of_row)(std::span<const RowTests> groups, const std::uint64_t* asked, const std::uint8_t* ranks,
                        std::size_t n_columns, std::uint8_t* leaf);
  // sums[row] += the value of the leaf the row reaches in trees[0], then in trees[1], and so on; values are [leaf], or
  // for each tree [plane][leaf], the leaves filled up to at least kChunk.
  void (*add_doubles)(std::span<const SymmetricTree> trees, const RankTest* tests, const Ranks&, std::size_t n,
                      const double* values, double* sums);
  // The same for sums[row][width] and values [leaf][width], width being 8 or 16.
  void (*add_vectors)(std::span<const SymmetricTree> trees, const RankTest* tests, const Ranks&, std::size_t n,
                      const double* values, std::size_t width, double* sums);
  std::size_t max_row_ranks;        // columns that leaves_of_row looks up in registers, 0: it must not be called
  const std::uint8_t* plane_bytes;  // by depth: the bytes of a double that add_doubles wants in one plane
};

constexpr std::size_t kMaxSlices = 255;
constexpr std::size_t kMaxSlicedLeaves = 64;
constexpr std::size_t kMaxPlanes = 6;  // bits of a leaf's number
// Of larger trees, whose leaves are looked up in memory. Of the larger child of a node, which is evaluated first, the bits
// wait for those of the other one, which has at most half of the leaves: beside those of the tests, no more slices are
// needed than there are bits in as many numbers.
constexpr std::size_t kMaxLargeLeaves = 184, kLargePlanes = 8, kLargeNumbers = 1 << kLargePlanes;
static_assert(2 + kMaxLargeLeaves - 1 + kLargePlanes * kLargePlanes <= kMaxSlices);

// Slices lie one after another. The first is all zeros and the second all ones; those that a tree needs follow, up to
// kMaxSlices in all, then those of the tests that the trees of a run share.

// Makes a slice of three others (runtime/sliced.h): the bits of `yes` where `chooser` has a one, else those of `no`. Slices
// are known by where they begin, in bytes, because looking that up would take as long as selecting.
struct Select {
  std::uint32_t chooser, no, yes, out;
};

// Whether a category is in a set, by columns of codes.
struct SetTest {
  alignas(32) std::uint8_t bits[32];  // of each code
  std::uint16_t column;
};

// The slices of its tests come first, unless they are shared, then those of its tests of sets.
struct SlicedTree {
  std::uint32_t first_test, first_set_test, first_select;
  std::uint16_t n_tests, n_set_tests, n_selects;
  std::uint32_t planes[kLargePlanes];  // where the slices begin that hold the bits of the leaf's number, in bytes
};

struct SlicedProgram {
  const RankTest* tests;
  const SetTest* set_tests;
  const Select* selects;
  std::span<const RankTest> shared_tests;  // of a run whose trees make the same tests again and again: each test once
};

struct SlicedKernels {
  // payload[row] of the leaf each row reaches, of kMaxSlicedLeaves; n is a multiple of kChunk.
  void (*walk)(const SlicedTree&, const SlicedProgram&, const Ranks&, std::size_t n,
               const std::uint32_t* payload_of_leaf, std::uint32_t* payload);
  // The same for a large tree: of kLargeNumbers.
  void (*walk_large)(const SlicedTree&, const SlicedProgram&, const Ranks&, std::size_t n,
                     const std::uint32_t* payload_of_leaf, std::uint32_t* payload);
  // sums[row][0..width) += table[payload][0..width) of the leaf the row reaches in each of some large trees, whose
  // payloads are [tree][kLargeNumbers]; table and sums as for SumKernels::add_words. Here and below, `slices` has space for
  // kMaxSlices slices, of which the first two are made, and those of shared tests.
  void (*add_words)(std::span<const SlicedTree> trees, const SlicedProgram&, const Ranks&, std::size_t n,
                    const std::uint32_t* payloads, const std::uint16_t* table, std::size_t width, std::uint16_t* sums,
                    std::uint64_t* slices);
  // sums[row] += the value of the leaf the row reaches in trees[0], then in trees[1], and so on. Values are for each
  // tree [kMaxSlicedLeaves], or [word of a value][kMaxSlicedLeaves]. The leaves of trees that were numbered before
  // (SlicedLaneKernels::number) are not found again: `numbers` has where theirs are, or null, of each tree; or is null.
  void (*add_floats)(std::span<const SlicedTree> trees, const SlicedProgram&, const Ranks&, std::size_t n,
                     const float* values, float* sums, const std::uint8_t* const* numbers, std::uint64_t* slices);
  void (*add_doubles)(std::span<const SlicedTree> trees, const SlicedProgram&, const Ranks&, std::size_t n,
                      const double* values, double* sums, const std::uint8_t* const* numbers, std::uint64_t* slices);
  // payload[tree] for one row, given its ranks in kMaxRowRanks columns; payloads are [tree][kMaxSlicedLeaves]. The tests
  // of a tree of up to kMaxPlanes levels are in the order of a complete binary heap.
  void (*walk_row)(std::span<const RowTests> trees, const std::uint8_t* ranks, std::size_t n_columns,
                   const std::uint32_t* payloads, std::uint32_t* payload);
  std::size_t max_row_ranks;  // columns that walk_row looks up in registers, 0: it must not be called
  std::size_t slice_chunks;   // chunks of rows that a slice has bits for, a word for each
  bool leaves_are_words;      // what add_floats and add_doubles want
  bool says_left;             // the bit of a test is set for rows that go left
  // How much ranking (RankedColumns::work) slicing the top of a tree is worth, and slicing a large tree: measured.
  std::size_t ranking_of_top, ranking_of_large;
};

constexpr std::size_t kLaneTrees = 16;  // trees over which sums of 16 bits run
constexpr std::size_t kLaneGroup = 8;

struct SlicedLaneKernels {
  // sums[lane * apart + row] += what the leaf that the row reaches adds in each of the trees; n is a multiple of kChunk.
  // No sum over kLaneTrees trees, from the first on, is larger than 16 bits hold. Values are for each tree
  // [n_lanes][kMaxSlicedLeaves], or [kMaxSlicedLeaves][n_lanes rounded up to a multiple of kLaneGroup]. Unless `numbers`
  // is null, it has the numbers of the leaves of each tree.
  void (*add)(std::span<const SlicedTree> trees, const SlicedProgram&, const Ranks&, std::size_t n,
              const std::int16_t* values, std::size_t n_lanes, std::int32_t* sums, std::size_t apart,
              const std::uint8_t* const* numbers, std::uint64_t* slices);
  // numbers[tree * apart + row] of the leaves that rows reach. Null where keeping them takes longer than it saves.
  void (*number)(std::span<const SlicedTree> trees, const SlicedProgram&, const Ranks&, std::size_t n,
                 std::uint8_t* numbers, std::size_t apart, std::uint64_t* slices);
  bool by_leaf;  // the second layout
};

struct CompressKernels {
  // Moves the first n rows without a bit in `removed` to the front of each column, in their order. Columns are `apart`
  // entries apart, with space for whole chunks of rows. Null where no instruction does this.
  void (*bytes)(std::uint8_t* column, std::size_t n_columns, std::size_t apart, const std::uint64_t* removed,
                std::size_t n);
  void (*words)(std::uint32_t* column, std::size_t n_columns, std::size_t apart, const std::uint64_t* removed,
                std::size_t n);
};

struct Kernels {
  const EncodeKernels& encode;
  const WalkKernels<NarrowNode>& narrow;
  const WalkKernels<WideNode>& wide;
  const SumKernels& sums;
  const LaneTestKernels& lane_tests;
  const RankKernels& ranks;
  const RivalKernels& rivals;
  const StateKernels& states;
  const SymmetricKernels& symmetric;
  const SlicedKernels& sliced;
  const SlicedLaneKernels& sliced_lanes;
  const CompressKernels& compress;
  std::uint32_t max_register_stride;  // narrow trees need no by-column copy of rows whose stride is at most this
  std::uint32_t tops_stride;          // of rows that have the top levels of several narrow trees tested together; 0: none
  bool tests_by_column;               // the top levels of trees are tested on by-column copies of rows
  const char* name;
};

// The fastest set this processor runs.
const Kernels& kernels();

}  // namespace scurry
