// Finds out whether trees are symmetric, and lowers them to questions about ranks.
#include "runtime/symmetric.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

namespace scurry {
namespace {

constexpr std::size_t kMaxThresholds = 255;  // so that a rank is a byte
constexpr std::size_t kLeastPadded = 32;  // thresholds that a kernel may read
constexpr std::size_t kMaxColumns = 4096;

bool ask_the_same(const ForestView& forest, std::int32_t a, std::int32_t b) {
  return forest.feature[a] == forest.feature[b] && forest.category_set[a] == forest.category_set[b] &&
         (forest.category_set[a] >= 0 || forest.threshold[a] == forest.threshold[b]) &&
         forest.default_left[a] == forest.default_left[b] && forest.missing[a] == forest.missing[b];
}

}  // namespace

struct Symmetric::Lowering {
  const ForestView& forest;
  const Columns& columns;
  Symmetric& out;
  std::vector<std::vector<std::int32_t>> questions;  // one node for each level of each tree, tree after tree

  // Reads a tree level by level. Returns whether it is symmetric.
  bool read(std::size_t tree, const std::vector<std::uint32_t>& payload_of_node) {
    std::vector<std::int32_t> level{static_cast<std::int32_t>(forest.tree_offset[tree])};
    std::vector<std::int32_t>& asked = questions.emplace_back();
    while (forest.left[level[0]] >= 0) {
      if (asked.size() == kMaxDepth) return false;
      asked.push_back(level[0]);
      // The right children follow the left ones: the place of a node is then the number of the answers so far.
      std::vector<std::int32_t> next;
      for (const std::int32_t node : level) {
        if (forest.left[node] < 0 || !ask_the_same(forest, node, level[0])) return false;
        next.push_back(forest.left[node]);
      }
      for (const std::int32_t node : level) next.push_back(forest.right[node]);
      level.swap(next);
    }
    for (const std::int32_t node : level) {
      if (forest.left[node] >= 0) return false;
    }
    const auto depth = static_cast<std::uint32_t>(asked.size());
    out.trees_.push_back({0, depth, static_cast<std::uint32_t>(out.payloads_.size())});
    for (const std::int32_t leaf : level) out.payloads_.push_back(payload_of_node[leaf]);
    return true;
  }

  // Makes a column of ranks for each column with thresholds, and one for each set of categories that is tested for.
  bool make_tests() {
    std::map<std::uint32_t, std::vector<std::uint32_t>> thresholds;
    std::map<std::tuple<std::uint32_t, std::int32_t, bool>, std::uint16_t> sets;
    const auto set_of = [&](std::int32_t node) {
      return std::tuple(columns.column_of_node(node), forest.category_set[node], forest.default_left[node] != 0);
    };
    for (const auto& asked : questions) {
      for (const std::int32_t node : asked) {
        if (forest.category_set[node] >= 0) {
          sets.try_emplace(set_of(node), std::uint16_t{0});
        } else {
          thresholds[columns.column_of_node(node)].push_back(columns.key_of_node(forest, node));
        }
      }
    }
    if (thresholds.size() + sets.size() > kMaxColumns) return false;
    std::map<std::uint32_t, std::uint16_t> numeric;
    for (auto& [column, keys] : thresholds) {
      std::sort(keys.begin(), keys.end());
      keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
      if (keys.size() > kMaxThresholds) return false;
      numeric[column] = static_cast<std::uint16_t>(out.columns_.size());
      const std::size_t padded = std::max(std::bit_ceil(keys.size() + 1), kLeastPadded), first = out.thresholds_.size();
      out.columns_.push_back({column, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(keys.size())});
      out.thresholds_.insert(out.thresholds_.end(), keys.begin(), keys.end());
      out.thresholds_.resize(first + padded, kNanKey);  // no key exceeds it
    }
    for (auto& [test, at] : sets) {
      const auto& [column, set, nan_left] = test;
      at = static_cast<std::uint16_t>(out.columns_.size());
      out.columns_.push_back({column, static_cast<std::uint32_t>(out.category_tests_.size()), 0});
      const std::int64_t* words = &forest.category_offset[set];
      out.category_tests_.push_back(
          {static_cast<std::uint32_t>(words[0]), static_cast<std::uint32_t>(32 * (words[1] - words[0])), nan_left});
    }
    for (std::size_t t = 0; t < questions.size(); ++t) {
      out.trees_[t].first_test = static_cast<std::uint32_t>(out.tests_.size());
      for (const std::int32_t node : questions[t]) {
        if (forest.category_set[node] >= 0) {
          out.tests_.push_back({sets[set_of(node)], 1});
          continue;
        }
        const std::uint32_t column = columns.column_of_node(node);
        const auto& keys = thresholds[column];
        const auto rank = std::lower_bound(keys.begin(), keys.end(), columns.key_of_node(forest, node)) - keys.begin();
        out.tests_.push_back({numeric[column], static_cast<std::uint8_t>(rank + 1)});
      }
    }
    return true;
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
      const RankColumn& column = columns_[from.column];
      RowTest& to = row_tests_[t / kRowTrees * depth_ + level];
      to.column[t % kRowTrees] = column.column;
      to.key[t % kRowTrees] = thresholds_[column.first + from.least - 1];
    }
  }
}

std::optional<Symmetric> Symmetric::find(const ForestView& forest, const Columns& columns,
                                         const std::vector<std::uint32_t>& payload_of_node) {
  if (columns.has_mixed()) return std::nullopt;  // a missing value would need two ranks
  std::optional<Symmetric> found(std::in_place);
  Lowering lowering{forest, columns, *found, {}};
  for (std::size_t tree = 0; tree < forest.n_trees(); ++tree) {
    if (!lowering.read(tree, payload_of_node)) return std::nullopt;
  }
  if (!lowering.make_tests()) return std::nullopt;
  if (!found->has_categories()) found->make_row_tests(columns.pad());
  found->category_bits_.assign(forest.category_bits.begin(), forest.category_bits.end());
  return found;
}

std::size_t Symmetric::bytes() const {
  return trees_.size() * sizeof(SymmetricTree) + tests_.size() * sizeof(RankTest) +
         row_tests_.size() * sizeof(RowTest) +
         columns_.size() * sizeof(RankColumn) + category_tests_.size() * sizeof(CategoryTest) +
         (payloads_.size() + thresholds_.size() + category_bits_.size()) * sizeof(std::uint32_t);
}

void Symmetric::rank(const Block& block, std::size_t key_stride, std::uint8_t* ranks, std::size_t stride) const {
  const Ranking ranking{columns_, thresholds_.data(), category_tests_.data(), category_bits_.data()};
  kernels().symmetric.rank(ranking, block.by_row, key_stride, block.n, ranks, stride);
}

void Symmetric::walk(std::size_t tree, const Block& block, std::uint32_t* payload) const {
  kernels().symmetric.walk(trees_[tree], tests_.data(), block.ranks, block.n, payloads_.data(), payload);
}

void Symmetric::walk_row(const std::uint32_t* keys, std::uint32_t* payload) const {
  kernels().symmetric.walk_row(row_tests_.data(), depth_, trees_, keys, payloads_.data(), payload);
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
