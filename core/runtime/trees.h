// Trees in the layout that the kernels walk: breadth first, siblings next to each other, children found by their
// distance.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/aligned.h"
#include "runtime/columns.h"
#include "runtime/engine_parts.h"
#include "runtime/forest_view.h"
#include "runtime/nodes.h"

namespace scurry {

// What the payload of a leaf means is up to the user of the trees.
struct Leaves {
  std::vector<std::uint32_t> payload_of_node;  // by entry of the forest up to the last leaf, see ForestView
  bool mergeable = true;                       // equal siblings may become one leaf
  bool keep_origins = false;                   // Trees::take_origins() will be called
};

// Which payloads leaves may have: those whose bits below `mask` are less than `n`.
struct PayloadRange {
  std::uint32_t mask, n;
};

class Trees {
 public:
  // Sets the keys of leaves in the tests of the columns.
  Trees(const ForestView& forest, Columns& columns, const Leaves& leaves);
  // Nodes stay where they lie. Every one is checked: a walk meets none that is not there.
  Trees(const ForestView& forest, const Columns& columns, const EngineParts& parts, PayloadRange payloads);
  Trees(const Trees&) = delete;  // narrow_ and wide_ may be views of own_narrow_ and own_wide_
  Trees(Trees&&) = default;
  Trees& operator=(Trees&&) = default;

  void store(StoredEngine& out) const;

  bool is_wide() const { return !wide_.empty(); }
  std::span<const NarrowNode> narrow() const { return narrow_; }
  std::span<const WideNode> wide() const { return wide_; }
  const std::vector<Tree>& trees() const { return trees_; }
  const std::vector<CategoryTest>& category_tests() const { return category_tests_; }
  const std::vector<std::uint32_t>& category_bits() const { return category_bits_; }
  // A bit per node, set where missing values of a mixed column go left; empty if no walk needs them.
  const std::vector<std::uint32_t>& marks() const { return marks_; }
  // The node of the forest that each lowered node stands for, if Leaves::keep_origins.
  std::vector<std::int32_t> take_origins() { return std::move(origins_); }
  std::size_t bytes() const;
  std::size_t size() const;  // nodes of all trees

  static constexpr std::uint32_t kMaxTop = 5;

 private:
  template <class Node>
  void lower(const ForestView& forest, const Columns& columns, const Leaves& leaves, LargeVector<Node>& nodes);
  template <class Node>
  void read(const ForestView& forest, const Columns& columns, std::span<const std::uint32_t> trees,
            std::span<const Node> nodes, PayloadRange payloads);

  LargeVector<NarrowNode> own_narrow_;
  LargeVector<WideNode> own_wide_;
  std::span<const NarrowNode> narrow_;  // own ones, or those of a file
  std::span<const WideNode> wide_;
  std::vector<Tree> trees_;
  std::vector<CategoryTest> category_tests_;
  std::vector<std::uint32_t> category_bits_, marks_;
  std::vector<std::int32_t> origins_;
};

}  // namespace scurry
