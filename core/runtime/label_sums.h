// LabelSums: leaves as small integers, for labels alone. Most rows have classes so far apart that sums of rounded leaves
// tell which one leads; the others are told by the exact sums.
//
//   two classes    v1 - v0 in 16 bits, kept beside the number of the leaf's value: adding it reads no table
//                      payload   | increment | number of the value |
//   more classes   vectors of 16 bits, a quarter of the size of the source's
//
// A rounded leaf is wrong by half a unit at most, so that a sum over n trees is wrong by n / 2 units. Rounding errors of
// the source's own sums are far below one unit, or there are no LabelSums.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/aligned.h"
#include "runtime/forest_view.h"
#include "runtime/node_values.h"
#include "runtime/sliced.h"

namespace scurry {

class LabelSums {
 public:
  // For a forest whose label is the class with the largest sum of vectors. For two classes, payloads get their
  // increments; value_of() tells the numbers of values again. Nothing if integers could not tell the source's labels.
  static std::optional<LabelSums> make(const ForestView& forest, const NodeValues& values,
                                       std::vector<std::uint32_t>& payload_of_node);

  // Those of a file, or nothing if it has none.
  static std::optional<LabelSums> read(const ForestView& forest, const NodeValues& values, const EngineParts& parts);
  void store(StoredEngine& out) const;

  bool are_packed() const { return n_classes_ == 2; }
  static constexpr std::uint32_t value_of(std::uint32_t payload) { return payload & 0xFFFF; }
  std::size_t bytes() const { return table_.size() * sizeof(std::uint16_t); }

  // Of the sums of a row.
  std::size_t row_bytes() const { return are_packed() ? sizeof(std::int32_t) : width_ * sizeof(std::uint16_t); }
  // The sums of a block of rows.
  struct Sums {
    AlignedVector<std::int32_t> differences;  // [n], with two classes
    AlignedVector<std::uint16_t> words;       // [n][width]

    static Sums& of_this_thread();
  };

  void start(std::size_t n, Sums& sums) const;
  // Adds the leaves that n rows, a multiple of kLanes, reached in a tree.
  void add(const std::uint32_t* payload, std::size_t n, Sums& sums) const;
  // Adds those that the rows of a block reach in all trees, if are_packed() is false.
  void add_all(const Sliced& large, const Block& block, Sums& sums) const;
  // The class with the largest sum; nothing if another one is too close.
  std::optional<std::size_t> leader(const Sums& sums, std::size_t row) const;

 private:
  LabelSums() = default;
  // Of a forest whose labels integers may tell.
  static bool may_tell(const ForestView& forest, const NodeValues& values);
  static LabelSums for_trees(std::size_t n_trees, std::size_t n_classes);

  std::size_t n_classes_ = 0, width_ = 0;
  std::int64_t close_ = 0;  // units by which sums have to differ
  std::vector<std::int64_t> start_;
  AlignedVector<std::uint16_t> table_;  // [value][width_], with more than two classes
};

}  // namespace scurry
