// What every kind of tree growing needs: rows in the order of every feature, divided node by node, and the growing
// itself.
//
// grow() is the algorithm; a criterion chooses the splits. classes.h (cheap features for classification) and
// residuals.h (least squares with prices, for boosting) are the two criteria.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace scurry {

// The training values and, for every feature, the rows in ascending order of its values; ties are in order of rows.
class ColumnOrders {
 public:
  // `values` holds n_rows values of each feature, one feature after the other, all finite.
  ColumnOrders(std::span<const float> values, std::size_t n_rows);

  std::size_t n_rows() const { return n_rows_; }
  std::size_t n_features() const { return n_rows_ == 0 ? 0 : values_.size() / n_rows_; }
  const float* values(std::size_t feature) const { return values_.data() + feature * n_rows_; }
  std::span<const std::uint32_t> order(std::size_t feature) const {
    return {orders_.data() + feature * n_rows_, n_rows_};
  }

 private:
  std::size_t n_rows_;
  std::vector<float> values_;
  std::vector<std::uint32_t> orders_;
};

// Where a node's rows are in every column of NodeRows.
struct Range {
  std::size_t begin, end;

  std::size_t size() const { return end - begin; }
};

// A row goes left iff its value is <= threshold.
struct Cut {
  std::size_t feature;
  double threshold;
};

// Halfway between two neighbours. In double precision it lies between any two floats.
inline double between(float low, float high) { return (static_cast<double>(low) + static_cast<double>(high)) / 2; }

// The rows of one tree. The rows of a node are the same range of every column, each in the order of its feature.
class NodeRows {
 public:
  // Rows of weight 0 are left out.
  NodeRows(const ColumnOrders& columns, std::span<const std::int32_t> weights);

  const ColumnOrders& columns() const { return columns_; }
  Range all() const { return {0, n_rows_}; }
  std::span<const std::uint32_t> rows(Range node) const { return rows(0, node); }
  std::span<const std::uint32_t> rows(std::size_t feature, Range node) const {
    return {rows_.data() + feature * n_rows_ + node.begin, node.size()};
  }
  // Whether the feature has one value in the node.
  bool is_constant(std::size_t feature, Range node) const {
    const std::uint32_t* order = rows_.data() + feature * n_rows_;
    return columns_.values(feature)[order[node.begin]] == columns_.values(feature)[order[node.end - 1]];
  }
  // Moves the rows that go left to the front and returns where the others begin. If the halves are leaves, they need no
  // order, and only the rows of the first column are moved.
  std::size_t split(Range node, Cut cut, bool into_leaves);

 private:
  const ColumnOrders& columns_;
  std::size_t n_rows_;
  std::vector<std::uint32_t> rows_, right_;
  std::vector<std::uint8_t> goes_left_;
};

// Parents come before their children, a left child right after its parent. Leaves have feature and children -1.
struct GrownTree {
  std::vector<std::int32_t> feature, left, right;
  std::vector<double> threshold, value, cover;

  std::int32_t add_leaf(std::span<const double> node_value, double node_cover) {
    const std::int32_t index = static_cast<std::int32_t>(feature.size());
    for (auto* part : {&feature, &left, &right}) part->push_back(-1);
    threshold.push_back(0);
    value.insert(value.end(), node_value.begin(), node_value.end());
    cover.push_back(node_cover);
    return index;
  }
};

// Grows a tree depth first. A criterion has these functions:
//   describe(rows, node) looks at a node, whose value() and cover() are then read,
//   best_cut(rows, node) returns the split of the node last described, if any,
//   leaf(rows, node, index) is called for every leaf.
template <class Criterion>
GrownTree grow(NodeRows& rows, Criterion& criterion, std::size_t max_depth) {
  struct Pending {
    Range node;
    std::size_t depth;
    std::int32_t parent;
  };
  GrownTree tree;
  std::vector<Pending> pending{{rows.all(), 0, -1}};
  while (!pending.empty()) {
    const auto [node, depth, parent] = pending.back();
    pending.pop_back();
    criterion.describe(rows, node);
    const std::int32_t index = tree.add_leaf(criterion.value(), criterion.cover());
    if (parent >= 0) (tree.left[parent] < 0 ? tree.left : tree.right)[parent] = index;
    const std::optional<Cut> cut = depth < max_depth ? criterion.best_cut(rows, node) : std::nullopt;
    if (!cut) {
      criterion.leaf(rows, node, index);
      continue;
    }
    tree.feature[index] = static_cast<std::int32_t>(cut->feature);
    tree.threshold[index] = cut->threshold;
    const std::size_t middle = rows.split(node, *cut, depth + 1 == max_depth);
    pending.push_back({{middle, node.end}, depth + 1, index});
    pending.push_back({{node.begin, middle}, depth + 1, index});
  }
  return tree;
}

}  // namespace scurry
