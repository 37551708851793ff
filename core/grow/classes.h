// Trees that separate classes by cheap features: each split has the least cost per impurity removed.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "grow/rows.h"

namespace scurry {

enum class Impurity { kPairs, kEntropy };
enum class Halves { kWorst, kMean };  // how the impurities of two halves become one

struct ClassTask {
  std::span<const std::int32_t> classes;  // of every row, 0 .. n_classes - 1
  std::span<const std::int32_t> weights;  // how often each row counts
  std::span<const double> costs;          // of every feature
  std::size_t n_classes;
  Impurity impurity;
  Halves halves;
  double alpha;  // how much impurity is tolerated
  std::size_t max_features, max_depth;
  std::uint64_t seed;
};

GrownTree grow_classes(const ColumnOrders& columns, const ClassTask& task);

}  // namespace scurry
