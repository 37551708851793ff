// Combinations: numbers that a model keeps for several features at once, as columns that its trees read.
//
// A combination has elements: the category of a column, whether a column is above a border, or whether its category is a
// certain one. Their hashes are mixed into one key, and a table has numbers for each key. CatBoost calls such numbers
// target statistics (CTRs); how it mixes hashes is in its sources (catboost/libs/model/hash.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/forest_view.h"

namespace scurry {

class Combinations {
 public:
  enum Kind : std::uint8_t { kCategory, kAbove, kAboveOrMissing, kEquals };

  // All combinations one after another, each with the entries from its offset to the next one.
  struct Parts {
    std::vector<std::int64_t> code_offset;  // of each column
    std::vector<std::int64_t> code_hash;    // of each code
    std::vector<std::int64_t> element_offset;
    std::vector<std::int32_t> column;  // of each element
    std::vector<std::uint8_t> kind;
    std::vector<float> border;         // of kAbove and kAboveOrMissing
    std::vector<std::int64_t> wanted;  // of kEquals: the hash of a category
    std::vector<std::int64_t> key_offset;
    std::vector<std::uint64_t> key;
    std::vector<std::int64_t> output_offset;
    std::vector<float> value;  // of each output: for each key of its combination, and then for all that is no key
  };

  // Throws std::invalid_argument if the parts do not fit each other.
  explicit Combinations(Parts parts);

  std::size_t n_features() const { return parts_.code_offset.size() - 1; }
  std::size_t n_outputs() const { return static_cast<std::size_t>(parts_.output_offset.back()); }

  // Writes the numbers of all rows, one column after another, each of n_rows.
  void compute(const RowsView& rows, float* out) const;

 private:
  struct Lookup {
    std::size_t first = 0;  // in slots_
    unsigned shift = 0;
    std::size_t first_value = 0;
  };

  std::size_t n_keys(std::size_t at) const;
  std::uint32_t find(std::size_t at, std::uint64_t key) const;
  template <class T>
  void compute_block(const T* cells, const RowsView& rows, std::size_t begin, std::size_t count, float* out) const;

  Parts parts_;
  std::vector<Lookup> lookups_;
  std::vector<std::uint32_t> slots_;  // open addressing: the number of a key, plus 1
};

}  // namespace scurry
