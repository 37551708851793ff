#include "tables/column.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace scurry {
namespace {

constexpr double kNotYet = -1.0;  // of a code that has not been looked up; codes are never negative

template <class T>
T load(const Column& column, std::size_t row) {
  T value;
  std::memcpy(&value,
              static_cast<const char*>(column.values) + static_cast<std::ptrdiff_t>(column.offset + row) * column.stride,
              sizeof(T));
  return value;
}

struct Half {
  std::uint16_t bits;
};

double number_of(Half half) {
  const int exponent = half.bits >> 10 & 31, fraction = half.bits & 1023;
  double size = std::ldexp(exponent ? fraction + 1024 : fraction, std::max(exponent, 1) - 25);
  if (exponent == 31) size = fraction ? kNoCode : std::numeric_limits<double>::infinity();
  return half.bits >> 15 ? -size : size;
}

// Calls visit(get), where get(row) is the value of a row: a bool, an integer of 64 bits or a float.
template <class Visit>
auto with_values(const Column& column, Visit visit) {
  const auto wide = [&]<class T, class Wide>() {
    return visit([&column](std::size_t row) { return static_cast<Wide>(load<T>(column, row)); });
  };
  switch (column.kind) {
    case ColumnKind::kBits:
      return visit([&column](std::size_t row) {
        const std::size_t at = column.offset + row;
        return (static_cast<const std::uint8_t*>(column.values)[at >> 3] >> (at & 7) & 1) != 0;
      });
    case ColumnKind::kBool: return visit([&column](std::size_t row) { return load<std::uint8_t>(column, row) != 0; });
    case ColumnKind::kInt8: return wide.template operator()<std::int8_t, std::int64_t>();
    case ColumnKind::kInt16: return wide.template operator()<std::int16_t, std::int64_t>();
    case ColumnKind::kInt32: return wide.template operator()<std::int32_t, std::int64_t>();
    case ColumnKind::kInt64: return wide.template operator()<std::int64_t, std::int64_t>();
    case ColumnKind::kUint8: return wide.template operator()<std::uint8_t, std::int64_t>();
    case ColumnKind::kUint16: return wide.template operator()<std::uint16_t, std::int64_t>();
    case ColumnKind::kUint32: return wide.template operator()<std::uint32_t, std::int64_t>();
    case ColumnKind::kUint64: return wide.template operator()<std::uint64_t, std::uint64_t>();
    case ColumnKind::kFloat16: return visit([&column](std::size_t row) { return number_of(load<Half>(column, row)); });
    case ColumnKind::kFloat32: return wide.template operator()<float, float>();
    default: return wide.template operator()<double, double>();
  }
}

std::size_t width_of(ColumnKind kind) {
  switch (kind) {
    case ColumnKind::kBool:
    case ColumnKind::kInt8:
    case ColumnKind::kUint8: return 1;
    case ColumnKind::kInt16:
    case ColumnKind::kUint16:
    case ColumnKind::kFloat16: return 2;
    case ColumnKind::kInt32:
    case ColumnKind::kUint32:
    case ColumnKind::kFloat32:
    case ColumnKind::kText: return 4;
    case ColumnKind::kTextView: return 16;
    default: return 8;
  }
}

template <class Out>
Trouble read_numbers(const Column& column, Out* out) {
  const ColumnKind same = std::is_same_v<Out, float> ? ColumnKind::kFloat32 : ColumnKind::kFloat64;
  if (column.kind == same && column.valid == nullptr && column.stride == sizeof(Out)) {
    std::copy_n(static_cast<const char*>(column.values) + column.offset * sizeof(Out), column.n_rows * sizeof(Out),
                reinterpret_cast<char*>(out));
    return {};
  }
  with_values(column, [&](auto get) {
    if (column.valid == nullptr) {
      for (std::size_t row = 0; row < column.n_rows; ++row) out[row] = static_cast<Out>(get(row));
    } else {
      for (std::size_t row = 0; row < column.n_rows; ++row) {
        out[row] = column.is_valid(row) ? static_cast<Out>(get(row)) : static_cast<Out>(kNoCode);
      }
    }
  });
  return {};
}

// The code of a number that is the value of a category; sets `trouble` where that cannot be decided.
template <class T>
double look_up(const Categories& categories, bool refuse_codes, T value, Trouble& trouble) {
  const bool refuse_rounded = categories.has_rounded() && categories.numbers_are() == NumbersAre::kValuesUnlessCodes;
  double code;
  if constexpr (std::is_same_v<T, bool>) {
    return categories.code_of(Number::of(std::int64_t{value}));
  } else if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return categories.missing_code();
    const double number = static_cast<double>(value);
    if (refuse_rounded && std::abs(number) >= kFirstRounded) {
      trouble = {Problem::kRounded, {}, number};
      return kNoCode;
    }
    code = categories.code_of(Number::of(number));
  } else {
    code = categories.code_of(Number::of(value));
  }
  if (refuse_codes && std::isnan(code) && categories.is_code(static_cast<double>(value))) {
    trouble = {Problem::kCodeOrValue, {}, static_cast<double>(value)};
  }
  return code;
}

template <class T>
bool is_missing(T value) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(value);
  return false;
}

double null_code(const Reading& reading) {
  return reading.null_may_be_none ? reading.categories->null_code() : reading.categories->missing_code();
}

template <class Out>
Trouble read_category_numbers(const Column& column, const Reading& reading, Out* out) {
  const Categories& categories = *reading.categories;
  const bool refused = categories.numbers_are() == NumbersAre::kRefused || !categories.has_numbers();
  const bool refuse_codes = categories.numbers_are() == NumbersAre::kValuesUnlessCodes && !reading.is_dictionary;
  const double missing = null_code(reading);
  Trouble trouble;
  with_values(column, [&](auto get) {
    for (std::size_t row = 0; row < column.n_rows && trouble.problem == Problem::kNone; ++row) {
      double code = missing;
      if (column.is_valid(row)) {
        const auto value = get(row);
        if (refused && !is_missing(value)) {
          trouble = {Problem::kNumberOfText, {}, static_cast<double>(value)};
        } else {
          code = look_up(categories, refuse_codes, value, trouble);
        }
      }
      out[row] = static_cast<Out>(code);
    }
  });
  return trouble;
}

// Calls visit(get), where get(row) is the text of a row.
template <class Visit>
auto with_texts(const Column& column, Visit visit) {
  const auto between = [&]<class Offset>() {
    return visit([&column, bytes = static_cast<const char*>(column.buffers[2])](std::size_t row) {
      const auto begin = load<Offset>(column, row), end = load<Offset>(column, row + 1);
      return std::string_view(bytes + begin, static_cast<std::size_t>(end - begin));
    });
  };
  if (column.kind == ColumnKind::kText) return between.template operator()<std::int32_t>();
  if (column.kind == ColumnKind::kLargeText) return between.template operator()<std::int64_t>();
  // Up to 12 bytes are in the view itself; of longer texts it has the buffer and the place there. An index chooses, and
  // no branch, which short and long texts in one column would make the processor guess.
  return visit([&column](std::size_t row) {
    const char* view = static_cast<const char*>(column.values) + 16 * (column.offset + row);
    std::int32_t parts[4];
    std::memcpy(parts, view, 16);
    const auto size = static_cast<std::size_t>(parts[0]);
    const std::ptrdiff_t is_long = size > 12;
    const void* const here = view + 4;
    const void* const* const places[] = {&here, column.buffers + 2};
    return std::string_view(static_cast<const char*>(places[is_long][is_long * parts[2]]) + is_long * parts[3], size);
  });
}

// Writes the codes of the first rows of texts, as words where they are short. Returns how many rows: all whose words lie
// within the texts of the column, so that nothing behind them is read.
template <class Offset, class Out>
std::size_t read_short_texts(const Column& column, const Categories& categories, double missing, Out* out) {
  const char* const bytes = static_cast<const char*>(column.buffers[2]);
  const char* const offsets = static_cast<const char*>(column.values) + column.offset * sizeof(Offset);
  const auto begin_of = [offsets](std::size_t row) {
    Offset begin;
    std::memcpy(&begin, offsets + row * sizeof(Offset), sizeof(Offset));
    return begin;
  };
  const bool all_valid = column.valid == nullptr;
  const Offset end = begin_of(column.n_rows);
  std::size_t n_rows = column.n_rows;
  while (n_rows > 0 && end - begin_of(n_rows - 1) < static_cast<Offset>(ShortText::kMost)) --n_rows;
  Offset begin = begin_of(0);
  for (std::size_t row = 0; row < n_rows; ++row) {
    const Offset next = begin_of(row + 1);
    const auto size = static_cast<std::size_t>(next - begin);
    double code = missing;
    if (all_valid || column.is_valid(row)) [[likely]] {
      code = size <= ShortText::kMost ? categories.code_of(ShortText::at(bytes + begin, size))
                                      : categories.code_of(std::string_view(bytes + begin, size));
    }
    out[row] = static_cast<Out>(code);
    begin = next;
  }
  return n_rows;
}

// The same of views, which hold texts of up to 12 bytes themselves, behind their size.
template <class Out>
std::size_t read_short_views(const Column& column, const Categories& categories, double missing, Out* out) {
  return with_texts(column, [&](auto get) {
    const char* view = static_cast<const char*>(column.values) + 16 * column.offset;
    for (std::size_t row = 0; row < column.n_rows; ++row, view += 16) {
      std::uint64_t words[2];
      std::memcpy(words, view, sizeof words);
      const auto size = static_cast<std::size_t>(words[0] & 0xFFFFFFFFu);
      double code = missing;
      if (column.is_valid(row)) [[likely]] {
        code = size <= 12 ? categories.code_of(ShortText::of(words[0] >> 32 | words[1] << 32, words[1] >> 32, size))
                          : categories.code_of(get(row));
      }
      out[row] = static_cast<Out>(code);
    }
    return column.n_rows;
  });
}

template <class Out>
Trouble read_texts(const Column& column, const Reading& reading, Out* out) {
  const Categories& categories = *reading.categories;
  const double missing = null_code(reading);
  Trouble trouble;
  std::size_t first = 0;
  if (categories.finds_short_texts() && column.n_rows > 0) {
    first = column.kind == ColumnKind::kText        ? read_short_texts<std::int32_t>(column, categories, missing, out)
            : column.kind == ColumnKind::kLargeText ? read_short_texts<std::int64_t>(column, categories, missing, out)
                                                    : read_short_views(column, categories, missing, out);
  }
  with_texts(column, [&](auto get) {
    for (std::size_t row = first; row < column.n_rows; ++row) {
      if (!column.is_valid(row)) {
        out[row] = static_cast<Out>(missing);
      } else if (categories.has_texts()) {
        out[row] = static_cast<Out>(categories.code_of(get(row)));
      } else {
        trouble = {Problem::kTextOfNumber, std::string(get(row)), 0.0};
        return;
      }
    }
  });
  return trouble;
}

// A column whose categories are not known may hold nothing but missing values.
template <class Out>
Trouble read_missing(const Column& column, Out* out) {
  for (std::size_t row = 0; row < column.n_rows; ++row) {
    if (column.is_valid(row)) {
      if (column.is_text() || column.dictionary != nullptr) return {Problem::kNoList, {}, 0.0};
      if (with_values(column, [row](auto get) { return !is_missing(get(row)); })) return {Problem::kNoList, {}, 0.0};
    }
    out[row] = static_cast<Out>(kNoCode);
  }
  return {};
}

// A dictionary is looked up once per entry, or once per row where there are fewer rows.
template <class Out>
Trouble read_dictionary(const Column& column, Reading reading, Out* out) {
  reading.is_dictionary = true;
  const Column& dictionary = *column.dictionary;
  const double missing = null_code(reading);
  const bool remember = dictionary.n_rows <= 2 * column.n_rows;
  std::vector<double> known(remember ? dictionary.n_rows : 0, kNotYet);
  Trouble trouble;
  with_values(column, [&](auto get) {
    for (std::size_t row = 0; row < column.n_rows && trouble.problem == Problem::kNone; ++row) {
      double code = missing;
      // An index below zero becomes one beyond the dictionary, too.
      const std::size_t at = column.is_valid(row) ? static_cast<std::size_t>(get(row)) : dictionary.n_rows;
      if (at < dictionary.n_rows) {
        if (remember && known[at] != kNotYet) {
          code = known[at];
        } else {
          Column entry = dictionary;
          entry.offset += at;
          entry.n_rows = 1;
          trouble = read_column(entry, reading, &code);
          if (remember) known[at] = code;
        }
      }
      out[row] = static_cast<Out>(code);
    }
  });
  return trouble;
}

}  // namespace

ColumnKind column_kind(const ArrowSchema& schema) {
  static constexpr std::pair<std::string_view, ColumnKind> kFormats[] = {
      {"n", ColumnKind::kNull},    {"b", ColumnKind::kBits},      {"c", ColumnKind::kInt8},
      {"C", ColumnKind::kUint8},   {"s", ColumnKind::kInt16},     {"S", ColumnKind::kUint16},
      {"i", ColumnKind::kInt32},   {"I", ColumnKind::kUint32},    {"l", ColumnKind::kInt64},
      {"L", ColumnKind::kUint64},  {"e", ColumnKind::kFloat16},   {"f", ColumnKind::kFloat32},
      {"g", ColumnKind::kFloat64}, {"u", ColumnKind::kText},      {"U", ColumnKind::kLargeText},
      {"vu", ColumnKind::kTextView}};
  for (const auto& [name, kind] : kFormats) {
    if (name == schema.format) return kind;
  }
  return ColumnKind::kOther;
}

Column column_of(const ArrowSchema& schema, const ArrowArray& array, std::size_t offset, std::size_t n_rows,
                 Column& dictionary) {
  Column column;
  column.kind = column_kind(schema);
  column.n_rows = n_rows;
  column.offset = offset + static_cast<std::size_t>(array.offset);
  column.stride = static_cast<std::ptrdiff_t>(width_of(column.kind));
  if (array.n_buffers >= 2) {
    column.valid = array.null_count == 0 ? nullptr : static_cast<const std::uint8_t*>(array.buffers[0]);
    column.values = array.buffers[1];
    column.buffers = array.buffers;
  }
  if (schema.dictionary != nullptr) {
    Column none;
    dictionary = column_of(*schema.dictionary, *array.dictionary, 0, static_cast<std::size_t>(array.dictionary->length),
                           none);
    if (none.n_rows > 0) dictionary.kind = ColumnKind::kOther;  // a dictionary of dictionaries
    column.dictionary = &dictionary;
  }
  return column;
}

template <class Out>
Trouble read_column(const Column& column, const Reading& reading, Out* out) {
  const Categories* categories = reading.categories;
  const Column& values = column.dictionary != nullptr ? *column.dictionary : column;
  if (column.kind == ColumnKind::kOther || values.kind == ColumnKind::kOther) return {Problem::kOtherType, {}, 0.0};
  if (values.kind == ColumnKind::kNull) {
    std::fill_n(out, column.n_rows, static_cast<Out>(categories != nullptr ? null_code(reading) : kNoCode));
    return {};
  }
  if (categories == nullptr) {
    if (column.dictionary != nullptr) return {Problem::kNoList, {}, 0.0};
    return column.is_text() ? Trouble{Problem::kOtherType, {}, 0.0} : read_numbers(column, out);
  }
  if (categories->empty()) return read_missing(column, out);
  if (column.dictionary != nullptr) return read_dictionary(column, reading, out);
  if (column.is_text()) return read_texts(column, reading, out);
  if (categories->numbers_are() == NumbersAre::kCodes && !reading.is_dictionary) return read_numbers(column, out);
  return read_category_numbers(column, reading, out);
}

template <class In, class Out>
void translate_codes(const Column& codes, const In* table, std::size_t n_codes, Out* out) {
  const In missing = table[n_codes];
  with_values(codes, [&](auto get) {
    for (std::size_t row = 0; row < codes.n_rows; ++row) {
      const auto code = static_cast<std::size_t>(get(row));  // one below zero becomes one beyond the table
      out[row] = static_cast<Out>(code < n_codes ? table[code] : missing);
    }
  });
}

template Trouble read_column(const Column&, const Reading&, float*);
template Trouble read_column(const Column&, const Reading&, double*);
template void translate_codes(const Column&, const double*, std::size_t, float*);
template void translate_codes(const Column&, const double*, std::size_t, double*);
template void translate_codes(const Column&, const std::uint8_t*, std::size_t, std::uint8_t*);

}  // namespace scurry
