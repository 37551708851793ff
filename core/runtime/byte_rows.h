// ByteRanks: rows of tables as bytes. A value becomes its rank among the thresholds of its feature, a category its code,
// a missing value 255. Bytes take an eighth of the space of doubles, and engines turn them into keys by looking them up.
// Only forests whose features have few thresholds and categories can read bytes, which boosted models nearly always do.
//
// A byte stands for one of the values that have it (value_of). Its keys are not those of the others, but no node can
// tell them apart. Whatever looks at keys otherwise, such as draws by the values of a row, must not be given bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/forest_view.h"

namespace scurry {

constexpr std::size_t kByteValues = 256;
constexpr std::uint8_t kOtherByte = 254, kMissingByte = 255;  // other categories than those below, missing values

class ByteRanks {
 public:
  explicit ByteRanks(const ForestView& forest);

  bool available() const { return !features_.empty(); }  // no feature has too many thresholds or categories
  bool in_float32() const { return float32_; }           // what the forest compares
  std::size_t n_features() const { return n_features_; }

  // ranks[i] of value x[i] of a feature, a float if in_float32().
  template <class T>
  void rank(std::size_t feature, const T* x, std::size_t n, std::uint8_t* ranks) const;
  // One of the values that have this byte.
  double value_of(std::size_t feature, std::uint8_t byte) const;

 private:
  // A run of sorted numbers, the last of those that a node or a test for zero does not tell apart; padded with +inf to
  // one less than a power of two.
  struct Feature {
    std::uint32_t first = 0, n = 0, n_padded = 0;
    bool is_category = false;
  };

  std::vector<Feature> features_;
  std::vector<double> thresholds_;
  std::size_t n_features_;
  bool float32_, truncate_categories_;
};

}  // namespace scurry
