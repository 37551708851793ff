// A column of a table, and how it becomes numbers that a forest reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tables/arrow.h"
#include "tables/categories.h"

namespace scurry {

enum class ColumnKind : std::uint8_t {
  kNull,
  kBits,  // booleans, eight in a byte
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kFloat16,
  kFloat32,
  kFloat64,
  kText,       // offsets of 32 bits
  kLargeText,  // offsets of 64 bits
  kTextView,
  kOther,
};

// Values i = 0, … of a column begin at `values` + i * stride; with `offset`, from its value number `offset` on.
struct Column {
  ColumnKind kind = ColumnKind::kOther;
  std::size_t n_rows = 0;
  const void* values = nullptr;
  std::ptrdiff_t stride = 0;
  std::size_t offset = 0;
  const std::uint8_t* valid = nullptr;    // bits, counted from value 0 whatever the offset; null: all are valid
  const void* const* buffers = nullptr;   // of an Arrow array: where texts are
  const Column* dictionary = nullptr;     // the values are indices into it

  bool is_valid(std::size_t row) const {
    const std::size_t at = offset + row;
    return valid == nullptr || (valid[at >> 3] >> (at & 7) & 1) != 0;
  }
  bool is_text() const { return kind >= ColumnKind::kText && kind <= ColumnKind::kTextView; }
};

ColumnKind column_kind(const ArrowSchema& schema);  // of the indices, where there is a dictionary

// `dictionary` is where that of the column, if it has one, is put.
Column column_of(const ArrowSchema& schema, const ArrowArray& array, std::size_t offset, std::size_t n_rows,
                 Column& dictionary);

enum class Problem : std::uint8_t {
  kNone,
  kCodeOrValue,   // a number that is no category and may be a code
  kTextOfNumber,  // text where categories are numbers
  kNumberOfText,  // a number where categories are text
  kRounded,       // a float beyond 2**53 where categories are whole numbers
  kNoList,        // categories in a column whose categories are not known
  kNotNumeric,
  kOtherType,     // of the column: Python has to read it
};

// The first value of a column that cannot be read: a text or a number.
struct Trouble {
  Problem problem = Problem::kNone;
  std::string text;
  double number = 0.0;
};

struct Reading {
  const Categories* categories = nullptr;  // null: the feature is numeric
  bool null_may_be_none = false;           // else a null is NaN, as in columns of pandas
  bool is_dictionary = false;              // the column lists categories, so its numbers are values
};

// Writes the column to out[0], out[1], …; NaN is what is missing or no category.
template <class Out>
Trouble read_column(const Column& column, const Reading& reading, Out* out);

// Writes what `table` has for each code of the column; its entry `n_codes`, the last, is for others: missing values.
template <class In, class Out>
void translate_codes(const Column& codes, const In* table, std::size_t n_codes, Out* out);

}  // namespace scurry
