// Lowers the trees of a forest to the layout of the kernels.
#include "runtime/trees.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "runtime/level_tree.h"
#include "runtime/tree_layout.h"

namespace scurry {
namespace {

constexpr std::size_t kTopNodes = 1u << Trees::kMaxTop;  // they are read together, even past the end of a small tree
// How many nodes a tree of so many takes at most: its top becomes a heap, with no more levels than there are splits.
std::size_t room_for(std::size_t n_nodes) {
  return n_nodes + (std::size_t{2} << std::min<std::size_t>(Trees::kMaxTop, n_nodes / 2));
}

constexpr std::size_t kMaxNodes = std::numeric_limits<std::uint32_t>::max() - 2 * kTopNodes + 1;

std::size_t largest_tree(const ForestView& forest) {
  std::int64_t largest = 0;
  for (std::size_t t = 0; t < forest.n_trees(); ++t) {
    largest = std::max(largest, forest.tree_offset[t + 1] - forest.tree_offset[t]);
  }
  return static_cast<std::size_t>(largest);
}

// Writes bytes of 0 or 1 as the bits from `first` on, which are all that follow.
void append_bits(std::span<const std::uint8_t> bytes, std::size_t first, std::vector<std::uint32_t>& bits) {
  bits.resize((first + bytes.size()) / 32 + 1);
  std::size_t i = 0;
  const auto append_until = [&](std::size_t end) {
    for (; i < std::min(end, bytes.size()); ++i) bits[(first + i) / 32] |= std::uint32_t{bytes[i]} << ((first + i) % 32);
  };
  append_until((8 - first % 8) % 8);
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    const std::uint64_t together = word * 0x0102040810204080u >> 56;  // bit k is byte k
    bits[(first + i) / 32] |= static_cast<std::uint32_t>(together) << ((first + i) % 32);
  }
  append_until(bytes.size());
}

}  // namespace

Trees::Trees(const ForestView& forest, Columns& columns, const Leaves& leaves)
    : category_tests_(columns.category_tests()) {
  category_bits_.assign(forest.category_bits.begin(), forest.category_bits.end());
  for_each_leaf(forest, [&](std::size_t entry) { columns.tests()[entry].key = leaves.payload_of_node[entry]; });
  trees_.reserve(forest.n_trees());
  if (largest_tree(forest) + 2 * kTopNodes > 65536 || columns.size() > 65536) {
    lower(forest, columns, leaves, own_wide_);
  } else {
    lower(forest, columns, leaves, own_narrow_);
  }
  narrow_ = own_narrow_;
  wide_ = own_wide_;
}

template <class Node>
void Trees::lower(const ForestView& forest, const Columns& columns, const Leaves& leaves, LargeVector<Node>& nodes) {
  const NodeTest* const tests = columns.tests().data();
  const bool has_marks = columns.has_mixed() || columns.has_categories(), traced = has_marks || leaves.keep_origins;
  // Memory that is never written to takes none, and growing would copy everything.
  std::size_t most_of_all = kTopNodes;
  for (std::size_t t = 0; t < forest.n_trees(); ++t) {
    most_of_all += room_for(static_cast<std::size_t>(forest.tree_offset[t + 1] - forest.tree_offset[t]));
  }
  nodes.reserve(most_of_all);
  if (has_marks) marks_.reserve(nodes.capacity() / 32 + 1);
  LevelTree from(largest_tree(forest));
  Traces traces;
  for (std::size_t t = 0; t < forest.n_trees(); ++t) {
    from.read(forest, t);
    if (leaves.mergeable) from.merge(leaves.payload_of_node);
    const std::size_t first = nodes.size(), most = room_for(from.size());
    nodes.resize(first + most);
    const auto add = [&](const auto& layout) {
      trees_.push_back({static_cast<std::uint32_t>(first), layout.depth(), layout.top(), layout.first_phase(),
                        forest.tree_output[t], static_cast<std::uint32_t>(t)});
      nodes.resize(first + layout.size());
    };
    if (!traced) {
      add(TreeLayout<Node, false>(from, tests, columns.pad(), &nodes[first], traces));
      continue;
    }
    traces.resize(most);
    add(TreeLayout<Node, true>(from, tests, columns.pad(), &nodes[first], traces));
    traces.resize(nodes.size() - first);
    if (leaves.keep_origins) origins_.insert(origins_.end(), traces.entry.begin(), traces.entry.end());
    if (has_marks) append_bits(traces.is_marked, first, marks_);
  }
  if (nodes.size() > kMaxNodes) throw std::length_error("a lowered forest can have at most 2^32 - 64 nodes");
  nodes.insert(nodes.end(), kTopNodes, Node{});
  if (has_marks) marks_.resize(nodes.size() / 32 + 1);
  // A smaller rest was never written to, and would be copied for nothing; but huge pages are written as a whole.
  const bool is_large = LargeAllocator<Node>::is_large(nodes.capacity());
  if (nodes.size() < nodes.capacity() / 8 * (is_large ? 7 : 4)) nodes.shrink_to_fit();
}

void Trees::store(StoredEngine& out) const {
  static_assert(sizeof(NarrowNode) == 8 && sizeof(WideNode) == 12);
  EngineParts& parts = out.parts;
  parts.nodes = {reinterpret_cast<const std::uint64_t*>(narrow_.data()), narrow_.size()};
  parts.wide_nodes = {reinterpret_cast<const std::uint32_t*>(wide_.data()), 3 * wide_.size()};
  std::vector<std::uint32_t> trees, tests;
  for (std::size_t t = 0; t < trees_.size(); ++t) {
    const std::size_t end = t + 1 < trees_.size() ? trees_[t + 1].first : size();
    trees.insert(trees.end(), {static_cast<std::uint32_t>(end - trees_[t].first), trees_[t].top, trees_[t].first_phase});
  }
  for (const CategoryTest& test : category_tests_) {
    tests.insert(tests.end(), {test.first_word, test.n_bits, test.nan_left ? 1u : 0u});
  }
  parts.trees = out.keep(std::move(trees));
  parts.category_tests = out.keep(std::move(tests));
  parts.category_bits = category_bits_;
  parts.marks = marks_;
}

Trees::Trees(const ForestView& forest, const Columns& columns, const EngineParts& parts, PayloadRange payloads) {
  category_bits_.assign(parts.category_bits.begin(), parts.category_bits.end());
  const std::size_t n_tests = rows_of(parts.category_tests, EngineParts::kTestFields, "category tests");
  for (std::size_t i = 0; i < n_tests; ++i) {
    const std::uint32_t* test = &parts.category_tests[i * EngineParts::kTestFields];
    require(test[2] <= 1 && std::uint64_t{test[0]} + (std::uint64_t{test[1]} + 31) / 32 <= category_bits_.size(),
            "category tests");
    category_tests_.push_back({test[0], test[1], test[2] == 1});
  }
  require(rows_of(parts.trees, EngineParts::kTreeFields, "trees") == forest.n_trees(), "trees");
  require(parts.nodes.empty() != parts.wide_nodes.empty(), "nodes");
  const std::size_t n_wide = rows_of(parts.wide_nodes, 3, "nodes");
  narrow_ = {static_cast<const NarrowNode*>(static_cast<const void*>(parts.nodes.data())), parts.nodes.size()};
  wide_ = {static_cast<const WideNode*>(static_cast<const void*>(parts.wide_nodes.data())), n_wide};
  if (is_wide()) {
    read(forest, columns, parts.trees, wide_, payloads);
  } else {
    read(forest, columns, parts.trees, narrow_, payloads);
  }
  const bool needs_marks = columns.has_mixed() || columns.has_categories();
  const std::size_t n_marks = needs_marks ? std::max(narrow_.size(), wide_.size()) / 32 + 1 : 0;
  require(parts.marks.size() == n_marks, "marks");
  marks_.assign(parts.marks.begin(), parts.marks.end());
}

// Reads trees as lower() leaves them: level by level, the children of each split behind those of the splits before it.
// So a node that is checked once is where every walk expects it, and the depth of a tree is counted on the way.
template <class Node>
void Trees::read(const ForestView& forest, const Columns& columns, std::span<const std::uint32_t> trees,
                 std::span<const Node> nodes, PayloadRange payloads) {
  const std::uint32_t pad = columns.pad(), last_column = columns.size() - 1;
  const auto n_tests = static_cast<std::uint32_t>(category_tests_.size());
  require(nodes.size() >= kTopNodes && nodes.size() <= kMaxNodes, "nodes");
  const std::size_t n_all = nodes.size() - kTopNodes;  // those at the end are read together with a small tree
  std::size_t first = 0;
  for (std::size_t t = 0; t < forest.n_trees(); ++t) {
    const std::uint32_t* fields = &trees[t * EngineParts::kTreeFields];
    const std::uint32_t n = fields[0], top = fields[1], first_phase = fields[2];
    require(n >= 1 && n <= n_all - first && top <= kMaxTop && (std::size_t{2} << top) - 1 <= n, "trees");
    const Node* const of_tree = nodes.data() + first;
    std::size_t size = 1, level_end = 1;
    std::uint32_t depth = 0, wrong = 0;
    for (std::size_t at = 0; at < n; ++at) {  // without branches, because whether a node is a leaf cannot be predicted
      if (at == level_end) {
        ++depth;
        level_end = size;
      }
      const std::uint32_t key = of_tree[at].key, column = of_tree[at].column, left = of_tree[at].left;
      const std::uint32_t is_split = left != 0, is_leaf = is_split ^ 1;
      wrong |= static_cast<std::uint32_t>(at >= size) | (is_split & (left != size - at)) | (column > last_column) |
               (is_leaf & (column != pad)) | (is_leaf & ((key & payloads.mask) >= payloads.n)) |
               ((column > pad) & (key >= n_tests));
      size += 2 * is_split;
    }
    require(wrong == 0 && size == n && first_phase <= depth, "nodes");
    for (std::size_t at = 0; at + 1 < (std::size_t{1} << top); ++at) {
      require(of_tree[at].left != 0 && of_tree[at].column <= pad, "nodes");
    }
    trees_.push_back({static_cast<std::uint32_t>(first), depth, top, first_phase, forest.tree_output[t],
                      static_cast<std::uint32_t>(t)});
    first += n;
  }
  require(first == n_all, "nodes");
}

std::size_t Trees::size() const { return std::max(narrow_.size(), wide_.size()) - kTopNodes; }

std::size_t Trees::bytes() const {
  return narrow_.size() * sizeof(NarrowNode) + wide_.size() * sizeof(WideNode) + trees_.size() * sizeof(Tree) +
         category_tests_.size() * sizeof(CategoryTest) +
         (category_bits_.size() + marks_.size()) * sizeof(std::uint32_t);
}

}  // namespace scurry
