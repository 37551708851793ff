// Finds out whether trees are symmetric, and lowers them to questions about ranks.
#include "runtime/symmetric.h"

#include <algorithm>
#include <bit>

namespace scurry {
namespace {

constexpr std::size_t kMaxColumns = 4096;

bool ask_the_same(const Columns& columns, std::uint32_t a, std::uint32_t b) {
  if (a == b) return true;
  const NodeTest &one = columns.tests()[a], &other = columns.tests()[b];
  if (one.column() != other.column()) return false;
  if (one.column() <= columns.pad()) return one.key == other.key;
  const CategoryTest &set = columns.category_tests()[one.key], &other_set = columns.category_tests()[other.key];
  return set.first_word == other_set.first_word && set.n_bits == other_set.n_bits && set.nan_left == other_set.nan_left;
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
        if (nodes.left[node] == 0 || !ask_the_same(columns, nodes.entry[node], asked.back())) return false;
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
        const NodeTest& test = columns.tests()[node];
        Question asked{test.column()};
        if (test.column() > columns.pad()) {
          asked.is_set = true;
          asked.set = columns.category_tests()[test.key];
        } else {
          asked.key = test.key;
        }
        all.push_back(asked);
      }
    }
    out.ranks_ = RankedColumns::make(all, forest.category_bits, kMaxColumns, out.tests_);
    return out.ranks_.has_value();
  }
};

void Symmetric::make_groups() {
  const std::size_t n_groups = (trees_.size() + kTestedTrees - 1) / kTestedTrees;
  groups_.resize(n_groups);
  asked_.resize(n_groups);
  for (std::size_t t = 0; t < trees_.size(); ++t) {
    first_leaf_.push_back(trees_[t].first_leaf);
    for (std::uint32_t level = 0; level < trees_[t].depth; ++level) {
      const RankTest& test = tests_[trees_[t].first_test + level];
      const std::size_t group = t / kTestedTrees, at = t % kTestedTrees * kLeafBits + level;
      groups_[group].column[at] = static_cast<std::uint8_t>(test.column);
      groups_[group].least[at] = test.least;
      asked_[group] |= std::uint64_t{1} << at;
    }
  }
}

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
  const std::size_t max_row_ranks = kernels().symmetric.max_row_ranks;
  if (max_row_ranks > 0 && found->ranks_->size() <= max_row_ranks) {
    found->make_groups();
  } else if (!found->ranks_->has_categories()) {
    found->make_row_tests(columns.pad());
  }
  return found;
}

std::size_t Symmetric::bytes() const {
  return trees_.size() * sizeof(SymmetricTree) + tests_.size() * sizeof(RankTest) +
         groups_.size() * (sizeof(RowTests) + sizeof(std::uint64_t)) + row_tests_.size() * sizeof(RowTest) +
         (first_leaf_.size() + payloads_.size()) * sizeof(std::uint32_t) + ranks_->bytes();
}

void Symmetric::walk(std::size_t tree, const Block& block, std::uint32_t* payload, const std::uint32_t* others) const {
  const std::uint32_t* of_leaf = others == nullptr ? payloads_.data() : others;
  kernels().symmetric.walk(trees_[tree], tests_.data(), block.ranks, block.n, of_leaf, payload);
}

void Symmetric::find_leaves(const std::uint32_t* keys, std::uint32_t* place) const {
  constexpr std::size_t kGroups = 16;
  alignas(64) std::uint8_t ranks[kMaxRowRanks] = {}, leaf[kGroups * kTestedTrees];
  ranks_->rank_row(keys, ranks);
  for (std::size_t first = 0; first < groups_.size(); first += kGroups) {
    const auto groups = std::span(groups_).subspan(first, std::min(kGroups, groups_.size() - first));
    kernels().symmetric.leaves_of_row(groups, asked_.data() + first, ranks, ranks_->size(), leaf);
    const std::size_t tree = first * kTestedTrees, n_trees = std::min(trees_.size() - tree, sizeof leaf);
    for (std::size_t t = 0; t < n_trees; ++t) place[tree + t] = first_leaf_[tree + t] + leaf[t];
  }
}

void Symmetric::walk_row(const std::uint32_t* keys, std::uint32_t* payload, const std::uint32_t* others) const {
  const std::uint32_t* of_leaf = others == nullptr ? payloads_.data() : others;
  if (tests_rows()) {
    find_leaves(keys, payload);
    for (std::size_t t = 0; t < trees_.size(); ++t) payload[t] = of_leaf[payload[t]];
    return;
  }
  kernels().symmetric.walk_row(row_tests_.data(), depth_, trees_, keys, of_leaf, payload);
}

std::optional<SymmetricSums> SymmetricSums::make(const Symmetric& symmetric, const NodeValues& values) {
  const std::size_t width = values.row_spacing();
  if (values.in_float32() || !(width == 8 || width == 16 || (width == 1 && values.n_outputs() == 1))) {
    return std::nullopt;
  }
  SymmetricSums sums;
  sums.width_ = width;
  for (const SymmetricTree& tree : symmetric.trees()) {
    const std::size_t n_leaves = std::size_t{1} << tree.depth, first = sums.values_.size();
    const std::size_t plane_bytes = width == 1 ? kernels().symmetric.plane_bytes[tree.depth] : sizeof(double);
    const std::uint32_t* payload = symmetric.payloads().data() + tree.first_leaf;
    if (plane_bytes == sizeof(double)) {
      for (std::size_t leaf = 0; leaf < n_leaves; ++leaf) {
        const double* value = values.at(payload[leaf]);
        sums.values_.insert(sums.values_.end(), value, value + width);
      }
      continue;
    }
    for (std::size_t leaf = 0; leaf < n_leaves; ++leaf) sums.own_by_leaf_.push_back(*values.at(payload[leaf]));
    // One plane after the other, each of all leaves: fewer than 64 are filled up.
    const std::size_t room = std::max<std::size_t>(n_leaves, kChunk);
    sums.values_.resize(first + room);
    auto* planes = reinterpret_cast<std::uint8_t*>(sums.values_.data() + first);
    for (std::size_t leaf = 0; leaf < n_leaves; ++leaf) {
      const auto bits = std::bit_cast<std::uint64_t>(*values.at(payload[leaf]));
      for (std::size_t byte = 0; byte < sizeof bits; ++byte) {
        const std::size_t plane = byte / plane_bytes;
        planes[(plane * room + leaf) * plane_bytes + byte % plane_bytes] = static_cast<std::uint8_t>(bits >> (8 * byte));
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

void SymmetricSums::add_row(const Symmetric& symmetric, const std::uint32_t* keys, std::uint32_t* room,
                            double* sums) const {
  symmetric.find_leaves(keys, room);
  const double* by_leaf = own_by_leaf_.empty() ? values_.data() : own_by_leaf_.data();
  const std::size_t n_trees = symmetric.trees().size();
  if (width_ != 1) return kernels().sums.sum_vectors(by_leaf, width_, room, n_trees, sums);
  double sum = sums[0];  // in a register: in memory, each addition would wait for the store of the last one
  for (std::size_t t = 0; t < n_trees; ++t) sum += by_leaf[room[t]];
  sums[0] = sum;
}

}  // namespace scurry
