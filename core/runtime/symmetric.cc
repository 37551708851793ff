// Finds out whether trees are symmetric, and lowers them to questions about ranks.
#include "runtime/symmetric.h"

#include <algorithm>
#include <bit>

namespace scurry {
namespace {

constexpr std::size_t kMaxColumns = 4096;

bool ask_the_same(const ForestView& forest, std::uint32_t a, std::uint32_t b) {
  if (a == b) return true;
  return forest.feature[a] == forest.feature[b] && forest.category_set[a] == forest.category_set[b] &&
         (forest.category_set[a] >= 0 || forest.threshold[a] == forest.threshold[b]) &&
         forest.default_left[a] == forest.default_left[b] && forest.missing[a] == forest.missing[b];
}

}  // namespace

struct Symmetric::Lowering {
  const ForestView& forest;
  const Columns& columns;
  Symmetric& out;
  std::vector<std::vector<std::uint32_t>> questions;  // one entry for each level of each tree, tree after tree
  TreeNodes nodes;

  // Reads a tree level by level. Returns whether it is symmetric.
  bool read(std::size_t tree, const std::vector<std::uint32_t>& payload_of_node) {
    read_tree(forest, tree, nodes);
    std::vector<std::uint32_t> level{0};
    std::vector<std::uint32_t>& asked = questions.emplace_back();
    while (nodes.left[level[0]] != 0) {
      if (asked.size() == kMaxDepth) return false;
      asked.push_back(nodes.entry[level[0]]);
      // The right children follow the left ones: the place of a node is then the number of the answers so far.
      std::vector<std::uint32_t> next;
      for (const std::uint32_t node : level) {
        if (nodes.left[node] == 0 || !ask_the_same(forest, nodes.entry[node], asked.back())) return false;
        next.push_back(nodes.left[node]);
      }
      for (const std::uint32_t node : level) next.push_back(nodes.right[node]);
      level.swap(next);
    }
    for (const std::uint32_t node : level) {
      if (nodes.left[node] != 0) return false;
    }
    const auto depth = static_cast<std::uint32_t>(asked.size());
    out.trees_.push_back({0, depth, static_cast<std::uint32_t>(out.payloads_.size())});
    for (const std::uint32_t leaf : level) out.payloads_.push_back(payload_of_node[nodes.entry[leaf]]);
    return true;
  }

  bool make_tests() {
    std::vector<Question> all;
    for (std::size_t t = 0; t < questions.size(); ++t) {
      out.trees_[t].first_test = static_cast<std::uint32_t>(all.size());
      for (const std::uint32_t node : questions[t]) {
        Question asked{columns.column_of_node(node)};
        if (forest.category_set[node] >= 0) {
          const std::int64_t* words = &forest.category_offset[forest.category_set[node]];
          asked.is_set = true;
          asked.set = {static_cast<std::uint32_t>(words[0]), static_cast<std::uint32_t>(32 * (words[1] - words[0])),
                       forest.default_left[node] != 0};
        } else {
          asked.key = columns.key_of_node(forest, node);
        }
        all.push_back(asked);
      }
    }
    out.ranks_ = RankedColumns::make(all, forest.category_bits, kMaxColumns, out.tests_);
    return out.ranks_.has_value();
  }
};

void Symmetric::make_row_tests(std::uint32_t pad) {
  for (const SymmetricTree& tree : trees_) depth_ = std::max(depth_, tree.depth);
  row_tests_.resize((trees_.size() + kRowTrees - 1) / kRowTrees * depth_);
  for (RowTest& test : row_tests_) {  // a question whose answer is no, for trees that are less deep
    std::fill_n(test.column, kRowTrees, pad);
    std::fill_n(test.key, kRowTrees, kNanKey);
  }
  for (std::size_t t = 0; t < trees_.size(); ++t) {
    for (std::uint32_t level = 0; level < trees_[t].depth; ++level) {
      const RankTest& from = tests_[trees_[t].first_test + level];
      RowTest& to = row_tests_[t / kRowTrees * depth_ + level];
      to.column[t % kRowTrees] = ranks_->column_of(from);
      to.key[t % kRowTrees] = ranks_->key_of(from);
    }
  }
}

std::optional<Symmetric> Symmetric::find(const ForestView& forest, const Columns& columns,
                                         const std::vector<std::uint32_t>& payload_of_node) {
  if (columns.has_mixed()) return std::nullopt;  // a missing value would need two ranks
  std::optional<Symmetric> found(std::in_place);
  Lowering lowering{forest, columns, *found, {}, {}};
  for (std::size_t tree = 0; tree < forest.n_trees(); ++tree) {
    if (!lowering.read(tree, payload_of_node)) return std::nullopt;
  }
  if (!lowering.make_tests()) return std::nullopt;
  if (!found->has_categories()) found->make_row_tests(columns.pad());
  return found;
}

std::size_t Symmetric::bytes() const {
  return trees_.size() * sizeof(SymmetricTree) + tests_.size() * sizeof(RankTest) +
         row_tests_.size() * sizeof(RowTest) + payloads_.size() * sizeof(std::uint32_t) + ranks_->bytes();
}

void Symmetric::walk(std::size_t tree, const Block& block, std::uint32_t* payload, const std::uint32_t* others) const {
  const std::uint32_t* of_leaf = others == nullptr ? payloads_.data() : others;
  kernels().symmetric.walk(trees_[tree], tests_.data(), block.ranks, block.n, of_leaf, payload);
}

void Symmetric::walk_row(const std::uint32_t* keys, std::uint32_t* payload, const std::uint32_t* others) const {
  const std::uint32_t* of_leaf = others == nullptr ? payloads_.data() : others;
  kernels().symmetric.walk_row(row_tests_.data(), depth_, trees_, keys, of_leaf, payload);
}

std::optional<SymmetricSums> SymmetricSums::make(const Symmetric& symmetric, const NodeValues& values) {
  const std::size_t width = values.row_spacing();
  if (values.in_float32() || !(width == 8 || width == 16 || (width == 1 && values.n_outputs() == 1))) {
    return std::nullopt;
  }
  SymmetricSums sums;
  sums.width_ = width;
  const bool as_words = width == 1 && kernels().symmetric.leaves_are_words;
  for (const SymmetricTree& tree : symmetric.trees()) {
    const std::size_t n_leaves = std::size_t{1} << tree.depth, first = sums.values_.size();
    const std::uint32_t* payload = symmetric.payloads().data() + tree.first_leaf;
    if (!as_words) {
      for (std::size_t leaf = 0; leaf < n_leaves; ++leaf) {
        const double* value = values.at(payload[leaf]);
        sums.values_.insert(sums.values_.end(), value, value + width);
      }
      continue;
    }
    // Word w of all leaves, then word w + 1 of all leaves: fewer than 64 are filled up.
    const std::size_t room = std::max<std::size_t>(n_leaves, kChunk);
    sums.values_.resize(first + room);
    auto* bytes = reinterpret_cast<std::uint8_t*>(sums.values_.data() + first);
    for (std::size_t leaf = 0; leaf < n_leaves; ++leaf) {
      const auto bits = std::bit_cast<std::uint64_t>(*values.at(payload[leaf]));
      for (std::size_t byte = 0; byte < sizeof bits; ++byte) {
        bytes[(byte / 2 * room + leaf) * 2 + byte % 2] = static_cast<std::uint8_t>(bits >> (8 * byte));
      }
    }
  }
  return sums;
}

void SymmetricSums::add(const Symmetric& symmetric, const Block& block, double* sums) const {
  const RankTest* tests = symmetric.tests().data();
  if (width_ == 1) {
    kernels().symmetric.add_doubles(symmetric.trees(), tests, block.ranks, block.n, values_.data(), sums);
  } else {
    kernels().symmetric.add_vectors(symmetric.trees(), tests, block.ranks, block.n, values_.data(), width_, sums);
  }
}

}  // namespace scurry
