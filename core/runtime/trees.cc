// Lowers the trees of a forest to the layout of the kernels.
#include "runtime/trees.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace scurry {
namespace {

constexpr std::size_t kTopNodes = 1u << Trees::kMaxTop;  // they are read together, even past the end of a small tree
constexpr std::size_t kMaxNodes = std::numeric_limits<std::uint32_t>::max() - 2 * kTopNodes + 1;
constexpr std::uint32_t kAhead = 12;  // nodes whose tests are fetched before they are needed
constexpr std::uint32_t kMaxOnePhase = 12;  // deeper trees are walked in phases

// The first number if `condition` is 1, the second if it is 0. Compilers make branches of the usual forms, and whether a
// node is a leaf cannot be predicted.
std::uint32_t choose(std::uint32_t condition, std::uint32_t first, std::uint32_t second) {
  return second ^ ((first ^ second) & (0u - condition));
}

// The nodes of a tree of which some act as leaves: the leaves, and inner nodes whose whole subtree has one payload.
struct MergedTree {
  TreeNodes nodes;
  std::vector<std::uint8_t> is_leaf;
  std::vector<std::uint32_t> payload;  // at leaves

  void read(const ForestView& forest, std::size_t tree, const Leaves& leaves) {
    read_tree(forest, tree, nodes);
    is_leaf.resize(nodes.size());
    payload.resize(nodes.size());
    const std::uint32_t may_merge = leaves.mergeable;
    // A leaf has the children 0, which are read and not used.
    for (std::size_t i = nodes.size(); i-- > 0;) {
      const std::uint32_t left = nodes.left[i], right = nodes.right[i], end = left == 0;
      // Any for splits, and always the same: theirs would not be in the cache.
      const std::uint32_t own = leaves.payload_of_node[nodes.entry[i] & (0u - end)], of_left = payload[left];
      const std::uint32_t merges = may_merge & is_leaf[left] & is_leaf[right] & (of_left == payload[right]);
      is_leaf[i] = static_cast<std::uint8_t>(end | merges);
      payload[i] = choose(end, own, of_left);
    }
  }

  // How many levels below the root are tested for many rows at once: no more than kMaxTop, without categorical splits.
  std::uint32_t top_levels(const Columns& columns) const {
    std::vector<std::uint32_t> level{0}, next;
    for (std::uint32_t depth = 0; depth < Trees::kMaxTop; ++depth, level.swap(next)) {
      next.clear();
      for (std::uint32_t i : level) {
        if (is_leaf[i]) continue;
        if (columns.column_of_node(nodes.entry[i]) > columns.pad()) return depth;
        next.push_back(nodes.left[i]);
        next.push_back(nodes.right[i]);
      }
      if (next.empty()) return depth;
    }
    return Trees::kMaxTop;
  }
};

}  // namespace

Trees::Trees(const ForestView& forest, const Columns& columns, Leaves leaves) {
  std::int64_t largest = 0;
  for (std::size_t t = 0; t < forest.n_trees(); ++t) {
    largest = std::max(largest, forest.tree_offset[t + 1] - forest.tree_offset[t]);
  }
  category_bits_.assign(forest.category_bits.begin(), forest.category_bits.end());
  trees_.reserve(forest.n_trees());
  if (largest + (2 << kMaxTop) > 65536 || columns.size() > 65536) {
    lower(forest, columns, leaves, own_wide_);
  } else {
    lower(forest, columns, leaves, own_narrow_);
  }
  narrow_ = own_narrow_;
  wide_ = own_wide_;
}

template <class Node>
void Trees::lower(const ForestView& forest, const Columns& columns, const Leaves& leaves, std::vector<Node>& nodes) {
  using Index = decltype(Node::left);
  const bool marks = columns.has_mixed() || columns.has_categories();
  // What each entry tests, found once: many nodes of a packed forest share one. The key of a set is the number of its test.
  struct Test {
    std::uint32_t key;
    Index column;
  };
  std::vector<Test> tests(forest.n_nodes());
  for (std::size_t entry = 0; entry < tests.size(); ++entry) {
    if (forest.left[entry] < 0) continue;
    tests[entry].column = static_cast<Index>(columns.column_of_node(entry));
    if (tests[entry].column <= columns.pad()) {
      tests[entry].key = columns.key_of_node(forest, entry);
      continue;
    }
    tests[entry].key = static_cast<std::uint32_t>(category_tests_.size());
    const std::int64_t* words = &forest.category_offset[forest.category_set[entry]];
    category_tests_.push_back({static_cast<std::uint32_t>(words[0]),
                               static_cast<std::uint32_t>(32 * (words[1] - words[0])),
                               forest.default_left[entry] != 0});
  }
  // Memory that is never written to takes none, and growing would copy everything.
  nodes.reserve(static_cast<std::size_t>(forest.tree_offset.back()) + (forest.n_trees() + 1) * 2 * kTopNodes);
  MergedTree from;
  std::vector<std::uint32_t> queue;  // nodes of the tree in breadth-first order; position = lowered index
  for (std::size_t t = 0; t < forest.n_trees(); ++t) {
    from.read(forest, t, leaves);
    Tree tree{static_cast<std::uint32_t>(nodes.size()), 0, from.top_levels(columns), 0, forest.tree_output[t],
              static_cast<std::uint32_t>(t)};
    queue.resize(from.nodes.size() + 2 * kTopNodes + 2);  // the heap may add as many as it has, and two are written ahead
    queue[0] = 0;
    nodes.resize(nodes.size() + from.nodes.size() + 2 * kTopNodes);
    Node* out = nodes.data() + tree.first;
    // Plain pointers and numbers, which the compiler keeps in registers.
    const std::uint8_t* const is_leaf = from.is_leaf.data();
    const std::uint32_t *const entry = from.nodes.entry.data(), *const payload = from.payload.data();
    const std::uint32_t *const left = from.nodes.left.data(), *const right = from.nodes.right.data();
    const Test* const test_of = tests.data();
    std::uint32_t* const next = queue.data();
    const std::uint32_t pad = columns.pad(), top = tree.top, last = static_cast<std::uint32_t>(from.nodes.size()) - 1;
    std::uint32_t size = 1, level_end = 1, depth = 0;
    std::size_t leaf_levels = 0, n_leaves = 0;
    for (std::uint32_t at = 0; at < size; ++at) {
      if (at == level_end) {
        ++depth;
        level_end = size;
      }
      const std::uint32_t i = next[at], leaf = is_leaf[i];
      if (depth < top) {
        if (leaf) {
          // Above the last level of the heap, a leaf becomes a split that always goes left, to a copy of the leaf.
          out[at] = {0xFFFFFFFFu, static_cast<Index>(pad), static_cast<Index>(size - at)};
          next[size] = next[size + 1] = i;
          size += 2;
          continue;
        }
      }
      __builtin_prefetch(&test_of[entry[std::min(i + kAhead, last)]]);
      const Test& test = test_of[entry[i]];  // any at leaves
      out[at] = {choose(leaf, payload[i], test.key), static_cast<Index>(choose(leaf, pad, test.column)),
                 static_cast<Index>((size - at) & (leaf - 1))};
      next[size] = left[i];
      next[size + 1] = right[i];
      size += 2 * (1 - leaf);
      leaf_levels += depth & (0u - leaf);
      n_leaves += leaf;
      if (!marks || leaf || test.column > pad) continue;
      marks_.resize((tree.first + at) / 32 + 1);
      if (columns.is_marked(forest, entry[i])) marks_.back() |= 1u << ((tree.first + at) % 32);
    }
    tree.depth = depth;
    nodes.resize(tree.first + size);
    for (std::size_t place = 0; leaves.keep_origins && place < size; ++place) {
      origins_.push_back(static_cast<std::int32_t>(from.nodes.entry[queue[place]]));
    }
    const auto mean_path = static_cast<std::uint32_t>(leaf_levels / n_leaves);
    tree.first_phase = tree.depth <= kMaxOnePhase ? tree.depth : std::min(tree.depth, mean_path);
    trees_.push_back(tree);
  }
  if (nodes.size() > kMaxNodes) throw std::length_error("a lowered forest can have at most 2^32 - 64 nodes");
  nodes.resize(nodes.size() + kTopNodes);
  if (nodes.size() < nodes.capacity() / 8 * 7) nodes.shrink_to_fit();  // a smaller rest was never written to
  if (marks) marks_.resize(nodes.size() / 32 + 1);
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
