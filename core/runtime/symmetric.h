// Symmetric: trees that ask one question per level, as CatBoost grows them (also called oblivious).
//
//   an ordinary tree         the same tree, symmetric           a row's answers are the bits of its leaf's number
//          a?                       a?                             level   rank >= least   bit
//        /    \                   /    \                             0 a?       yes          1
//      b?      b?                b?                                  1 b?       no           0
//     /  \    /  \             /  \  /  \                                          leaf = 0b01 = 1
//    0    2  1    3            0   2 1   3
//
// A question is answered for 64 rows at once, by comparing their ranks (ranks.h). Whether trees are symmetric is seen
// from their nodes, so that it does not matter who grew them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/kernels.h"
#include "runtime/aligned.h"
#include "runtime/columns.h"
#include "runtime/forest_view.h"
#include "runtime/node_values.h"
#include "runtime/ranks.h"

namespace scurry {

class Symmetric {
 public:
  static constexpr std::uint32_t kMaxDepth = 8;  // the number of a leaf is a byte

  // Nothing if some tree is not symmetric or too deep.
  static std::optional<Symmetric> find(const ForestView& forest, const Columns& columns,
                                       const std::vector<std::uint32_t>& payload_of_node);

  const RankedColumns& ranks() const { return *ranks_; }
  const std::vector<SymmetricTree>& trees() const { return trees_; }
  const std::vector<RankTest>& tests() const { return tests_; }
  const std::vector<std::uint32_t>& payloads() const { return payloads_; }  // by leaf
  std::size_t bytes() const;

  // payload[row] of the leaf each row of the block reaches in a tree: of payloads(), or of others by the same leaves.
  void walk(std::size_t tree, const Block& block, std::uint32_t* payload, const std::uint32_t* others = nullptr) const;
  // payload[tree] of the leaf that the row with these keys reaches in every tree, if walks_rows().
  void walk_row(const std::uint32_t* keys, std::uint32_t* payload, const std::uint32_t* others = nullptr) const;
  bool walks_rows() const { return tests_rows() || !row_tests_.empty(); }
  // place[tree] of that leaf among the leaves of all trees, if tests_rows(): a register holds the ranks of a row.
  void find_leaves(const std::uint32_t* keys, std::uint32_t* place) const;
  bool tests_rows() const { return !groups_.empty(); }

 private:
  struct Lowering;
  void make_groups();
  void make_row_tests(std::uint32_t pad);

  std::vector<SymmetricTree> trees_;
  std::vector<RankTest> tests_;
  std::vector<RowTests> groups_;      // for single rows, of kTestedTrees trees each
  std::vector<std::uint64_t> asked_;  // by group, see SymmetricKernels
  std::vector<std::uint32_t> first_leaf_;  // by tree: those of trees_, next to each other
  std::vector<RowTest> row_tests_;    // for single rows of more columns
  std::uint32_t depth_ = 0;  // of the deepest tree
  std::vector<std::uint32_t> payloads_;
  std::optional<RankedColumns> ranks_;
};

// What the leaves of symmetric trees add, laid out so that finding the leaves and adding them is one loop.
class SymmetricSums {
 public:
  // Nothing if there is no loop for sums like these.
  static std::optional<SymmetricSums> make(const Symmetric& symmetric, const NodeValues& values);

  // Adds what all trees say about the rows of a block, in the order of the trees.
  void add(const Symmetric& symmetric, const Block& block, double* sums) const;
  // The same for the row with these keys, if it tests_rows(); with room for a word of each tree.
  void add_row(const Symmetric& symmetric, const std::uint32_t* keys, std::uint32_t* room, double* sums) const;
  std::size_t bytes() const { return (values_.size() + own_by_leaf_.size()) * sizeof(double); }

 private:
  SymmetricSums() = default;

  AlignedVector<double> values_;  // [leaf][width], or the same bits in planes, see SymmetricKernels
  AlignedVector<double> own_by_leaf_;  // [leaf] for single rows, if values_ are in planes
  std::size_t width_ = 1;
};

}  // namespace scurry
