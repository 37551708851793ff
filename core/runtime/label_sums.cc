// Rounds leaves to units so small that few rows are close, and so large that sums of all trees fit.
#include "runtime/label_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/kernels.h"

namespace scurry {
namespace {

constexpr double kMostIncrement = 32767, kMostSum = 65535;
constexpr std::int64_t kMostUnits = 65535;  // at which sums start
constexpr std::size_t kMaxTrees = 4096;  // beyond, units of sums in 16 bits are too coarse

std::size_t padded(std::size_t n_classes) {
  for (const std::size_t width : {kHalfIntLanes, kIntLanes}) {
    if (n_classes <= width) return width;
  }
  return (n_classes + 2 * kIntLanes - 1) / (2 * kIntLanes) * 2 * kIntLanes;
}

}  // namespace

LabelSums::Sums& LabelSums::Sums::of_this_thread() {
  thread_local Sums sums;
  return sums;
}

bool LabelSums::may_tell(const ForestView& forest, const NodeValues& values) {
  const bool takes_largest = forest.label_from_score || forest.link == Link::kIdentity;
  return takes_largest && values.are_vectors() && !values.in_float32() && values.n_outputs() >= 2 &&
         forest.n_trees() <= kMaxTrees;
}

// Without numbers yet.
LabelSums LabelSums::for_trees(std::size_t n_trees, std::size_t n_classes) {
  LabelSums made;
  made.n_classes_ = n_classes;
  made.width_ = n_classes == 2 ? 0 : padded(n_classes);
  made.close_ = static_cast<std::int64_t>(n_trees + 1) * (n_classes == 2 ? 1 : 2) / 2 + 2;
  return made;
}

void LabelSums::store(StoredEngine& out) const {
  out.parts.label_start = start_;
  out.parts.label_words = table_;
}

std::optional<LabelSums> LabelSums::read(const ForestView& forest, const NodeValues& values,
                                         const EngineParts& parts) {
  if (parts.label_start.empty()) return std::nullopt;
  std::optional<LabelSums> made(for_trees(forest.n_trees(), values.n_outputs()));
  const bool is_packed = made->are_packed();
  require(may_tell(forest, values) && parts.label_start.size() == (is_packed ? 1 : values.n_outputs()) &&
              parts.label_words.size() == (is_packed ? 0 : values.size() * made->width_),
          "sums of labels");
  // Sums in 32 bits then hold all that trees can add.
  require(std::all_of(parts.label_start.begin(), parts.label_start.end(),
                      [](std::int64_t units) { return units >= -kMostUnits && units <= kMostUnits; }),
          "sums of labels");
  made->start_.assign(parts.label_start.begin(), parts.label_start.end());
  made->table_.assign(parts.label_words.begin(), parts.label_words.end());
  return made;
}

std::optional<LabelSums> LabelSums::make(const ForestView& forest, const NodeValues& values,
                                         std::vector<std::uint32_t>& payload_of_node) {
  const std::size_t n_classes = values.n_outputs(), n_trees = forest.n_trees();
  if (!may_tell(forest, values)) return std::nullopt;
  double least = std::numeric_limits<double>::infinity(), most = -least, largest = 0, difference = 0;
  const auto look = [&](auto value_of) {
    for (std::size_t k = 0; k < n_classes; ++k) {
      least = std::min(least, value_of(k));
      most = std::max(most, value_of(k));
      largest = std::max(largest, std::fabs(value_of(k)));
    }
    difference = std::max(difference, std::fabs(value_of(1) - value_of(0)));
  };
  std::uint32_t n_values = 0;
  for_each_leaf(forest, [&](std::size_t node) {
    look([&](std::size_t k) { return values.at(payload_of_node[node])[k]; });
    n_values = std::max(n_values, payload_of_node[node] + 1);
  });
  look([&](std::size_t k) { return values.base_score(k); });
  // The sums start at the base scores, as if these were another tree.
  const double n_added = static_cast<double>(n_trees) + 1;
  const double unit = n_classes == 2 ? difference / kMostIncrement : (most - least) * n_added / (kMostSum - n_added);
  // What rounding does to sums of so many numbers of this size, and to a difference or a quotient of them.
  const double error = 8 * n_added * n_added * largest * std::numeric_limits<double>::epsilon();
  if (!(unit > error) || !std::isfinite(largest)) return std::nullopt;
  if (n_classes == 2 && n_values > value_of(~0u) + 1) return std::nullopt;

  std::optional<LabelSums> made(for_trees(n_trees, n_classes));
  if (n_classes == 2) {
    const auto units = [&](double v0, double v1) { return std::llround((v1 - v0) / unit); };
    made->start_ = {units(values.base_score(0), values.base_score(1))};
    for_each_leaf(forest, [&](std::size_t node) {
      const double* value = values.at(payload_of_node[node]);
      payload_of_node[node] |= static_cast<std::uint32_t>(units(value[0], value[1])) << 16;
    });
    return made;
  }
  const auto units = [&](double value) { return std::llround((value - least) / unit); };
  for (std::size_t k = 0; k < n_classes; ++k) made->start_.push_back(units(values.base_score(k)));
  made->table_.resize(n_values * made->width_);
  for (std::uint32_t value = 0; value < n_values; ++value) {
    for (std::size_t k = 0; k < n_classes; ++k) {
      made->table_[value * made->width_ + k] = static_cast<std::uint16_t>(units(values.at(value)[k]));
    }
  }
  return made;
}

void LabelSums::start(std::size_t n, Sums& sums) const {
  if (are_packed()) return sums.differences.assign(n, static_cast<std::int32_t>(start_[0]));
  sums.words.assign(n * width_, 0);
  for (std::size_t row = 0; row < n; ++row) {
    for (std::size_t k = 0; k < n_classes_; ++k) sums.words[row * width_ + k] = static_cast<std::uint16_t>(start_[k]);
  }
}

void LabelSums::add(const std::uint32_t* payload, std::size_t n, Sums& sums) const {
  if (are_packed()) {
    kernels().sums.add_high_halves(payload, n, sums.differences.data());
  } else {
    kernels().sums.add_words(table_.data(), width_, payload, n, sums.words.data());
  }
}

void LabelSums::add_all(const Sliced& large, const Block& block, Sums& sums) const {
  const SlicedRun& run = large.run();
  kernels().sliced.add_words(run.trees(), run.complete(large.program()), block.ranks, block.n, large.payloads().data(),
                             table_.data(), width_, sums.words.data(), run.slices());
}

std::optional<std::size_t> LabelSums::leader(const Sums& sums, std::size_t row) const {
  if (are_packed()) {
    const std::int32_t difference = sums.differences[row];
    if (std::abs(difference) <= close_) return std::nullopt;
    return difference > 0 ? 1 : 0;
  }
  const std::uint16_t* words = sums.words.data() + row * width_;
  std::uint16_t most = 0;
  for (std::size_t k = 0; k < n_classes_; ++k) most = std::max(most, words[k]);
  std::size_t leader = 0, n_close = 0;
  for (std::size_t k = 0; k < n_classes_; ++k) {
    const bool is_close = words[k] + close_ >= most;
    n_close += is_close;
    leader = is_close ? k : leader;
  }
  return n_close == 1 ? std::optional(leader) : std::nullopt;
}

}  // namespace scurry
