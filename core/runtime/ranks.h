// RankedColumns: rows as bytes. What a node asks of a row becomes a comparison of its rank among the thresholds of a
// column, so that 64 rows are compared by one instruction.
//
//   thresholds of a column   0.5   2.0   7.1        x > 2.0  is  rank(x) >= 2
//   ranks of values        0  |  1  |  2  |  3
//
// A column with more than 255 thresholds becomes several columns of ranks. Where missing values go left at some nodes
// and right at others, it becomes two: missing values have the highest rank in one and the lowest in the other. A set of
// categories that nodes test for becomes a column of its own, which is 1 for the rows that are not in the set; or the
// categories themselves are the bytes, for a loop that can test bytes for sets.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "runtime/aligned.h"
#include "runtime/columns.h"

namespace scurry {

// What a node asks: whether a row goes right.
struct Question {
  std::uint32_t column;
  std::uint32_t key = 0;      // goes right above it
  bool missing_left = false;  // in spite of that, missing values go left
  bool is_set = false;        // instead: goes right if not in this set
  CategoryTest set{};
};

class RankedColumns {
 public:
  // Appends a test for each question. Nothing if there were more than max_columns columns. With set_tests, sets that
  // are small enough (fits_codes) are tested there: their order is that of the questions.
  static std::optional<RankedColumns> make(std::span<const Question> questions,
                                           std::span<const std::uint32_t> category_bits, std::size_t max_columns,
                                           std::vector<RankTest>& tests, std::vector<SetTest>* set_tests = nullptr);
  static bool fits_codes(const Question& asked, std::span<const std::uint32_t> category_bits);

  std::size_t size() const { return columns_.size(); }
  bool has_categories() const { return has_categories_; }
  std::size_t bytes() const;
  std::uint32_t column_of(std::size_t ranks) const { return columns_[ranks].column; }  // the column of keys
  // What ranking a row takes: one for reading a value, and one for each time that its thresholds are halved.
  std::size_t work() const;
  // The column of keys that a test reads, and the key above which it says yes; not of a set.
  std::uint32_t column_of(const RankTest& test) const { return columns_[test.column].column; }
  std::uint32_t key_of(const RankTest& test) const { return thresholds_[columns_[test.column].first + test.least - 1]; }

  // Writes the ranks of the block's rows, [size()][stride].
  void rank(const Block& block, std::size_t key_stride, std::uint8_t* ranks, std::size_t stride) const;
  // The same of n rows of floats, a multiple of kChunk, see Columns::floats_of(). Returns whether a value is missing.
  bool rank_floats(const FloatColumns& floats, const RowsView& rows, std::size_t first, std::size_t n,
                   std::uint8_t* ranks, std::size_t stride) const;
  // Writes the ranks of one row, [size()].
  void rank_row(const std::uint32_t* keys, std::uint8_t* ranks) const;

 private:
  Ranking ranking() const {
    return {columns_, thresholds_.data(), tables_.data(), category_tests_.data(), category_bits_.data()};
  }

  std::vector<RankColumn> columns_;
  std::vector<std::uint32_t> thresholds_;  // keys, for each numeric column a power of two of them
  AlignedVector<std::uint32_t> tables_;    // see Ranking
  std::vector<CategoryTest> category_tests_;
  std::vector<std::uint32_t> category_bits_;
  bool has_categories_ = false;
};

}  // namespace scurry
