// Sliced: trees of up to 64 leaves, evaluated for 2048 rows at once (AVX-512) by logic on bits.
//
//        a?            1. Every test is made for all rows, by comparing bytes (ranks.h). A slice holds the answers: the
//      /    \             bit of a row is set if the row goes right.
//    b?      c?               a = 1 1 0 0 …      b = 0 1 1 0 …      c = 1 0 1 1 …
//   /  \    /  \       2. The bits of the leaves' numbers are selected from the bottom up. In a slice, `a ? x : y` is
//  0    1  2    3         a few instructions for 512 rows, whatever the shape of the tree:
//                             high bit = a = 1 1 0 0 …      low bit = a ? c : b = 1 0 1 0 …
//                      3. The numbers (here 3, 2, 1, 0) are put together, one byte per row, and look up leaf values in
//                         registers. Values are added tree by tree, as the source does.
//
// A single row has the answers of all tests of a tree in one word, if the tree has no more than 6 levels: the path is
// then read from the bits of the word.
//
// All tests of a tree are made, not only those on a row's path. As 64 of them cost as much as one step of a walk, this
// pays for trees of boosted models, which are small. Trees of up to 184 leaves, as forests have them that were trained on
// few rows, are sliced where all rows go through all of them; their leaves are looked up in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "runtime/aligned.h"
#include "runtime/columns.h"
#include "runtime/node_values.h"
#include "runtime/ranks.h"
#include "runtime/trees.h"

namespace scurry {

// Sliced trees of a program that are evaluated one after another. Models with few thresholds, of bins or of few training
// rows, make the same tests again and again: then each is made once for a slice of rows.
class SlicedRun {
 public:
  SlicedRun() = default;
  // Without tests, none is shared.
  SlicedRun(std::vector<SlicedTree> trees, const SlicedProgram& program, std::span<const RankTest> tests);

  std::span<const SlicedTree> trees() const { return trees_; }
  // The program of these trees.
  SlicedProgram complete(SlicedProgram program) const {
    if (!shared_.empty()) {
      program.shared_tests = shared_;
      program.selects = selects_.data();
    }
    return program;
  }
  // Slices for these trees, of this thread.
  std::uint64_t* slices() const;
  std::size_t bytes() const {
    return trees_.size() * sizeof(SlicedTree) + shared_.size() * sizeof(RankTest) + selects_.size() * sizeof(Select);
  }

 private:
  std::vector<SlicedTree> trees_;
  std::vector<RankTest> shared_;
  std::vector<Select> selects_;  // from the slices of shared tests
};

class Sliced {
 public:
  // Nothing if some tree has too many leaves, or if making ranks would take longer than it saves.
  static std::optional<Sliced> find(const Trees& trees, const Columns& columns);
  // The same for larger trees, is_large().
  static std::optional<Sliced> find_large(const Trees& trees, const Columns& columns);
  // The top kTopLevels levels of trees, whatever their size: payloads are the places of nodes in their trees.
  static std::optional<Sliced> find_tops(const Trees& trees, const Columns& columns);
  static constexpr std::uint32_t kTopLevels = 6;  // so that there are no more nodes below than leaves have numbers

  const RankedColumns& ranks() const { return *ranks_; }
  const std::vector<SlicedTree>& trees() const { return trees_; }
  SlicedProgram program() const { return {tests_.data(), set_tests_.data(), selects_.data(), {}}; }
  SlicedRun run_of(std::vector<SlicedTree> trees, bool shares_tests = true) const {
    return SlicedRun(std::move(trees), program(), shares_tests ? tests_ : std::span<const RankTest>());
  }
  const SlicedRun& run() const { return run_; }  // of all trees, if is_large()
  // By the numbers of a tree's leaves, with space for all that there could be.
  const std::vector<std::uint32_t>& payloads() const { return payloads_; }
  const std::uint32_t* payloads(std::size_t tree) const { return payloads_.data() + tree * n_numbers(); }
  bool is_large() const { return extent_ == Extent::kLarge; }
  std::size_t bytes() const;

  // payload[row] of the leaf each row of the block reaches in a tree: of payloads(), or of others by the same leaves.
  void walk(std::size_t tree, const Block& block, std::uint32_t* payload, const std::uint32_t* others = nullptr) const;
  // payload[tree] of the leaf that the row with these keys reaches in every tree, if walks_rows().
  void walk_row(const std::uint32_t* keys, std::uint32_t* payload, const std::uint32_t* others = nullptr) const;
  bool walks_rows() const { return !heaps_.empty(); }
  static constexpr std::uint32_t kRowLevels = 6;  // that trees may have for that

 private:
  template <class Node>
  class Lowering;

  enum class Extent { kSmall, kLarge, kTops };
  Sliced(Extent extent) : extent_(extent) {}
  static std::optional<Sliced> find(const Trees& trees, const Columns& columns, std::size_t max_columns, Extent extent);
  std::size_t n_numbers() const { return is_large() ? kLargeNumbers : kMaxSlicedLeaves; }  // of leaves

  Extent extent_;
  std::vector<SlicedTree> trees_;
  std::vector<RankTest> tests_;
  std::vector<SetTest> set_tests_;
  std::vector<Select> selects_;
  SlicedRun run_;  // if these are large
  std::vector<std::uint32_t> payloads_;
  std::optional<RankedColumns> ranks_;
  std::vector<RowTests> heaps_;  // for single rows, if all trees are flat and a register holds the ranks of a row
};

// What the leaves of sliced trees add, laid out so that finding the leaves and adding them is one loop.
class SlicedSums {
 public:
  // Nothing if leaves are vectors. Payloads of a tree become those of `values` by value_of(tree, payload). `has_numbers`:
  // those of most leaves will be known.
  using ValueOf = std::function<std::uint32_t(std::size_t tree, std::uint32_t payload)>;
  static std::optional<SlicedSums> make(const Sliced& sliced, const std::vector<Tree>& trees, const NodeValues& values,
                                        const ValueOf& value_of = [](std::size_t, auto payload) { return payload; },
                                        bool has_numbers = false);

  // Adds what all trees say about the rows of a block to sums [output][block.n], in the order of the trees. Leaves that
  // were numbered before are not found again: `numbers`, if any, has where those of each tree are, or null.
  template <class Real>
  void add(const Sliced& sliced, const Block& block, Real* sums, std::span<const std::uint8_t* const> numbers = {}) const;
  std::size_t bytes() const { return floats_.size() * sizeof(float) + doubles_.size() * sizeof(double); }

 private:
  SlicedSums() = default;

  std::vector<SlicedRun> runs_;     // of each output
  std::vector<std::size_t> index_;  // which trees these are, those of each output in turn
  AlignedVector<float> floats_;       // [tree][leaf], or the same bits as words, see SlicedKernels
  AlignedVector<double> doubles_;
};

// What the leaves of sliced trees add to a few sums of integers, if 16 bits are enough. Trees come in parts, which add to
// more or fewer of the sums; a tree may be in several.
class SlicedLanes {
 public:
  // What the leaf with a payload adds to a sum, in a tree of the part.
  using LaneOf = std::function<std::int32_t(std::size_t tree, std::uint32_t payload, std::size_t lane)>;
  // Appends a part: trees that add to the first n_lanes sums, whose leaves are numbered before or not. Returns whether 16
  // bits are enough.
  bool append(const Sliced& sliced, std::span<const Tree> trees, std::size_t n_lanes, const LaneOf& lane_of,
              bool has_numbers);

  // Adds what the trees of a part say about the rows of a block to sums [lane][apart]. If their leaves were numbered
  // before, `numbers` has where those of each tree of the part are.
  void add(std::size_t part, const Sliced& sliced, const Block& block, std::int32_t* sums, std::size_t apart,
           const std::uint8_t* const* numbers = nullptr) const;
  std::size_t bytes() const;

 private:
  // Trees whose sums, over kLaneTrees of them at a time, fit 16 bits.
  struct Piece {
    SlicedRun run;
    std::size_t first_value;
  };
  struct Part {
    std::size_t first_piece, n_pieces, n_lanes;
  };

  std::vector<Piece> pieces_;
  std::vector<Part> parts_;
  AlignedVector<std::int16_t> values_;  // see SlicedLaneKernels
};

}  // namespace scurry
