// Python's Categories and ArrowTable, and the columns of tables as numbers: arrays of numpy, Python objects, Arrow.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>

#include "bind/arrow_table.h"
#include "bind/bind.h"
#include "bind/python_values.h"
#include "runtime/byte_rows.h"
#include "tables/column.h"

namespace scurry {

using namespace nb::literals;

namespace {

constexpr std::size_t kFewValues = 4096;  // are read faster than the interpreter lock is released
constexpr std::size_t kAhead = 12;  // rows: objects lie anywhere in memory, so they are asked for before they are read
constexpr std::array kProblems = {"none",    "code or value", "text of number", "number of text",
                                  "rounded", "no list",       "not numeric",    "other type"};

// A column that holds a value that cannot be read: which problem, and the value as a Python object.
struct Failure {
  Problem problem = Problem::kNone;
  nb::object example = nb::none();
};

Failure failure_of(const Trouble& trouble) {
  Failure failure{trouble.problem, nb::none()};
  if (trouble.problem == Problem::kTextOfNumber || trouble.problem == Problem::kNotNumeric) {
    failure.example = nb::steal(PyUnicode_DecodeUTF8(trouble.text.data(), static_cast<Py_ssize_t>(trouble.text.size()),
                                                     "surrogatepass"));
    if (!failure.example.is_valid()) nb::raise_python_error();
  } else if (trouble.problem != Problem::kNone) {
    failure.example = nb::float_(trouble.number);
  }
  return failure;
}

void add_value(Categories& categories, PyObject* object) {
  nb::object keeper;
  const Value value = value_of(object);
  switch (value.kind) {
    case Value::Kind::kNone: return categories.add_none();
    case Value::Kind::kText: return categories.add_text(bytes_of(object, keeper));
    case Value::Kind::kBool:
    case Value::Kind::kInteger: return categories.add_number(Number::of(value.integer));
    case Value::Kind::kFloat: return categories.add_number(Number::of(value.number));
    default: throw std::invalid_argument("categories must be texts or numbers");
  }
}
// Many rows share one str object, so that its address alone is often enough.
class RecentTexts {
 public:
  double code_of(const Categories& categories, PyObject* text) {
    Entry& entry = entries_[reinterpret_cast<std::uintptr_t>(text) >> 4 & (entries_.size() - 1)];
    if (entry.text != text) {
      nb::object keeper;
      entry = {text, categories.code_of(bytes_of(text, keeper))};
    }
    return entry.code;
  }
  void forget() { entries_.fill({}); }

 private:
  struct Entry {
    PyObject* text = nullptr;
    double code = 0.0;
  };
  std::array<Entry, 256> entries_{};
};

// A buffer of numpy, held while its numbers are read.
class Buffer {
 public:
  explicit Buffer(nb::handle array) {
    if (PyObject_GetBuffer(array.ptr(), &buffer_, PyBUF_RECORDS_RO) != 0) nb::raise_python_error();
    if (buffer_.ndim == 1) return;
    PyBuffer_Release(&buffer_);
    throw std::invalid_argument("columns must have one dimension");
  }
  ~Buffer() { PyBuffer_Release(&buffer_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  bool holds_objects() const { return *buffer_.format == 'O'; }

  Column column() const {
    Column column;
    if (!holds_objects()) column.kind = kind();
    column.n_rows = static_cast<std::size_t>(buffer_.shape[0]);
    column.values = buffer_.buf;
    column.stride = buffer_.strides[0];
    return column;
  }

 private:
  ColumnKind kind() const {
    static constexpr std::string_view kSigned = "bhilq", kUnsigned = "BHILQ";
    // One letter, with no byte order before it but the machine's: arrays that lie at odd addresses have that.
    static constexpr std::string_view kOwnOrder = "@=^";
    const char* const format = buffer_.format + (kOwnOrder.find(*buffer_.format) != kOwnOrder.npos);
    const bool native = format[0] != '\0' && format[1] == '\0';
    const int log = buffer_.itemsize == 1 ? 0 : buffer_.itemsize == 2 ? 1 : buffer_.itemsize == 4 ? 2 : 3;
    const auto of = [log](ColumnKind first) { return static_cast<ColumnKind>(static_cast<int>(first) + log); };
    const char letter = *format;
    if (native && letter == '?') return ColumnKind::kBool;
    if (native && kSigned.find(letter) != kSigned.npos) return of(ColumnKind::kInt8);
    if (native && kUnsigned.find(letter) != kUnsigned.npos) return of(ColumnKind::kUint8);
    if (native && letter == 'e') return ColumnKind::kFloat16;
    if (native && letter == 'f') return ColumnKind::kFloat32;
    if (native && letter == 'd') return ColumnKind::kFloat64;
    throw std::invalid_argument("columns must be numbers of the machine's byte order, or objects");
  }

  Py_buffer buffer_{};
};

// Python objects of a numeric feature.
template <class Out>
Failure read_objects(const Column& column, Out* out) {
  const auto* at = static_cast<const char*>(column.values);
  for (std::size_t row = 0; row < column.n_rows; ++row, at += column.stride) {
    PyObject* object = nullptr;
    std::memcpy(&object, at, sizeof object);
    const Value value = value_of(object);
    switch (value.kind) {
      case Value::Kind::kMissing:
      case Value::Kind::kNa:
      case Value::Kind::kNone: out[row] = static_cast<Out>(kNoCode); break;
      case Value::Kind::kBool:
      case Value::Kind::kInteger: out[row] = static_cast<Out>(value.integer); break;
      case Value::Kind::kFloat: out[row] = static_cast<Out>(value.number); break;
      default: return {Problem::kNotNumeric, nb::borrow(object)};
    }
  }
  return {};
}

// Python objects of a feature with categories.
template <class Out>
Failure read_objects(const Column& column, const Reading& reading, bool codes, Out* out) {
  const Categories& categories = *reading.categories;
  const auto* at = static_cast<const char*>(column.values);
  const auto object_at = [](const char* place) {
    PyObject* object = nullptr;
    std::memcpy(&object, place, sizeof object);
    return object;
  };
  RecentTexts recent;
  bool has_texts = false;
  nb::object number;
  for (std::size_t row = 0; row < column.n_rows; ++row, at += column.stride) {
    if (row + kAhead < column.n_rows) {
      const PyObject* next = object_at(at + static_cast<std::ptrdiff_t>(kAhead) * column.stride);
      __builtin_prefetch(next);
      __builtin_prefetch(next + 3);  // where the bytes of a str are: behind 40 of its own
    }
    PyObject* object = object_at(at);
    double code = kNoCode;
    if (PyUnicode_Check(object)) {
      has_texts = true;
      if (!categories.has_texts()) {
        return {categories.empty() ? Problem::kNoList : Problem::kTextOfNumber, nb::borrow(object)};
      }
      out[row] = static_cast<Out>(recent.code_of(categories, object));
      continue;
    }
    const Value value = value_of(object);
    recent.forget();  // a value's own code may have run
    switch (value.kind) {
      case Value::Kind::kMissing: code = categories.missing_code(); break;
      case Value::Kind::kNa: code = categories.na_code(); break;
      case Value::Kind::kNone: code = categories.none_code(); break;
      case Value::Kind::kBool:
      case Value::Kind::kInteger:
      case Value::Kind::kFloat: {
        if (!number.is_valid()) number = nb::borrow(object);
        if (categories.empty() && !codes) return {Problem::kNoList, number};
        if (codes || (categories.numbers_are() == NumbersAre::kCodes && !reading.is_dictionary)) {
          code = value.number;
          break;
        }
        if (!categories.has_numbers()) break;
        // As a column of this one number is read.
        Column one;
        one.kind = value.kind == Value::Kind::kFloat ? ColumnKind::kFloat64 : ColumnKind::kInt64;
        one.values = value.kind == Value::Kind::kFloat ? static_cast<const void*>(&value.number) : &value.integer;
        one.n_rows = 1;
        Reading alone = reading;
        alone.is_dictionary = alone.is_dictionary || value.kind == Value::Kind::kBool;  // booleans are no codes
        if (const Trouble trouble = read_column(one, alone, &code); trouble.problem != Problem::kNone) {
          return {trouble.problem, nb::borrow(object)};
        }
        break;
      }
      default: return {Problem::kNotNumeric, nb::borrow(object)};
    }
    out[row] = static_cast<Out>(code);
  }
  // Numbers between texts are no categories. Numbers alone are something else than the categories.
  const bool mistaken = number.is_valid() && !codes && !categories.has_numbers();
  const bool are_codes = categories.numbers_are() == NumbersAre::kCodes && !reading.is_dictionary;
  if (mistaken && are_codes && has_texts) return {Problem::kNumberOfText, number};
  if (mistaken && !are_codes && !has_texts) return {Problem::kNumberOfText, number};
  return {};
}

using Sink = nb::ndarray<nb::ndim<2>, nb::device::cpu>;

// The columns of a matrix, each without gaps: floats, doubles, or bytes that are ranks.
class Sinks {
 public:
  Sinks(const Sink& sink, const ByteRanks* ranks)
      : sink_(sink), ranks_(ranks), is_float32_(sink.dtype() == nb::dtype<float>()) {
    if (ranks != nullptr) {
      if (sink.dtype() != nb::dtype<std::uint8_t>()) throw std::invalid_argument("out must be bytes");
      if (sink.shape(1) != ranks->n_features()) throw std::invalid_argument("out must have a column for every feature");
      is_float32_ = ranks->in_float32();
    } else if (!is_float32_ && sink.dtype() != nb::dtype<double>()) {
      throw std::invalid_argument("out must be float");
    }
    if (sink.shape(0) > 1 && sink.stride(0) != 1) throw std::invalid_argument("out must be stored by columns");
  }
  std::size_t n_rows() const { return sink_.shape(0); }
  std::size_t size() const { return sink_.shape(1); }
  const ByteRanks* ranks() const { return ranks_; }
  std::uint8_t* bytes(std::size_t at) const { return static_cast<std::uint8_t*>(sink_.data()) + begin(at); }

  // Calls work with space for the numbers of a column.
  template <class Work>
  auto with(std::size_t at, Work work) {
    if (ranks_ != nullptr) return is_float32_ ? ranked(at, floats_, work) : ranked(at, doubles_, work);
    if (is_float32_) return work(static_cast<float*>(sink_.data()) + begin(at));
    return work(static_cast<double*>(sink_.data()) + begin(at));
  }

 private:
  std::ptrdiff_t begin(std::size_t at) const { return static_cast<std::ptrdiff_t>(at) * sink_.stride(1); }

  // A column at a time becomes ranks, while it is still in the cache.
  template <class T, class Work>
  auto ranked(std::size_t at, std::vector<T>& column, Work work) {
    column.resize(n_rows());
    auto answer = work(column.data());
    ranks_->rank(at, column.data(), n_rows(), bytes(at));
    return answer;
  }

  const Sink& sink_;
  const ByteRanks* ranks_;
  bool is_float32_;
  std::vector<float> floats_;
  std::vector<double> doubles_;
};

nb::object failed_at(std::size_t feature, const Failure& failure) {
  return nb::make_tuple(feature, kProblems[static_cast<std::size_t>(failure.problem)], failure.example);
}

const Categories* categories_of(nb::handle recipe) {
  return recipe.is_none() ? nullptr : nb::cast<const Categories*>(recipe);
}

bool is_translation(nb::handle recipe) { return !recipe.is_none() && !nb::isinstance<Categories>(recipe); }

// The numbers that codes of a column stand for, the last for missing ones.
Array<double> translation_of(const Column& column, nb::handle recipe) {
  auto known = nb::cast<Array<double>>(recipe, false);
  if (column.kind < ColumnKind::kInt8 || column.kind > ColumnKind::kUint64) {
    throw std::invalid_argument("codes must be integers");
  }
  if (known.size() == 0) throw std::invalid_argument("a table of codes needs an entry for missing values");
  return known;
}

// Writes the ranks of a column of codes: those of the numbers that codes stand for are found once.
void rank_codes(const Column& column, nb::handle recipe, const ByteRanks& ranks, std::size_t feature,
                std::uint8_t* out) {
  const auto known = translation_of(column, recipe);
  std::vector<std::uint8_t> table(known.size());
  if (ranks.in_float32()) {
    const std::vector<float> numbers(known.data(), known.data() + known.size());
    ranks.rank(feature, numbers.data(), numbers.size(), table.data());
  } else {
    ranks.rank(feature, known.data(), known.size(), table.data());
  }
  translate_codes(column, table.data(), table.size() - 1, out);
}

// Ranks numbers where they lie, and returns whether it did: others are converted first.
bool rank_in_place(nb::handle source, const ByteRanks& ranks, std::size_t feature, std::size_t n_rows,
                   std::uint8_t* out) {
  if (nb::isinstance<ArrowTable>(source)) return false;
  const Buffer buffer(source);
  if (buffer.holds_objects()) return false;
  const Column column = buffer.column();
  const auto rank = [&]<class T>(ColumnKind kind) {
    const bool fits = column.kind == kind && column.n_rows == n_rows && column.stride == sizeof(T) &&
                      reinterpret_cast<std::uintptr_t>(column.values) % alignof(T) == 0;
    if (fits) ranks.rank(feature, static_cast<const T*>(column.values), n_rows, out);
    return fits;
  };
  return ranks.in_float32() ? rank.operator()<float>(ColumnKind::kFloat32)
                            : rank.operator()<double>(ColumnKind::kFloat64);
}

template <class Out>
Failure read_source(nb::handle source, nb::handle recipe, bool dictionary, bool codes, std::size_t n_rows, Out* out) {
  const auto check = [n_rows](std::size_t n) {
    if (n != n_rows) throw std::invalid_argument("columns differ in length");
  };
  const ArrowTable* table = nullptr;
  if (nb::try_cast(source, table)) {
    check(table->n_rows());
    return failure_of(table->read(0, {categories_of(recipe), false, dictionary}, out));
  }
  const Buffer buffer(source);
  if (buffer.holds_objects()) {
    const Column column = buffer.column();
    check(column.n_rows);
    const Categories* categories = categories_of(recipe);
    if (categories == nullptr) return read_objects(column, out);
    return read_objects(column, {categories, true, dictionary}, codes, out);
  }
  const Column column = buffer.column();
  check(column.n_rows);
  if (is_translation(recipe)) {
    const auto known = translation_of(column, recipe);
    translate_codes(column, known.data(), known.size() - 1, out);
    return {};
  }
  const Reading reading{codes ? nullptr : categories_of(recipe), false, dictionary};
  return failure_of(read_column(column, reading, out));
}

// Writes each source to its column of `out`; returns None, or what is wrong with the first column that cannot be read.
nb::object read_columns(const nb::list& sources, const nb::list& recipes, const Sink& out, bool dictionary, bool codes,
                        const ByteRanks* ranks) {
  Sinks columns(out, ranks);
  if (sources.size() != columns.size() || recipes.size() != columns.size()) {
    throw std::invalid_argument("out must have a column for every source and recipe");
  }
  for (std::size_t j = 0; j < columns.size(); ++j) {
    if (ranks != nullptr && is_translation(recipes[j])) {
      const Buffer buffer(sources[j]);
      const Column column = buffer.column();
      if (column.n_rows != columns.n_rows()) throw std::invalid_argument("columns differ in length");
      rank_codes(column, recipes[j], *ranks, j, columns.bytes(j));
      continue;
    }
    if (ranks != nullptr && recipes[j].is_none() &&
        rank_in_place(sources[j], *ranks, j, columns.n_rows(), columns.bytes(j))) {
      continue;
    }
    const Failure failure = columns.with(
        j, [&](auto* at) { return read_source(sources[j], recipes[j], dictionary, codes, columns.n_rows(), at); });
    if (failure.problem != Problem::kNone) return failed_at(j, failure);
  }
  return nb::none();
}

nb::object read_table(const ArrowTable& table, const Array<std::int64_t>& order, const nb::list& recipes,
                      const Sink& out, const ByteRanks* ranks) {
  Sinks columns(out, ranks);
  if (order.size() != columns.size() || recipes.size() != columns.size() || table.n_rows() != columns.n_rows()) {
    throw std::invalid_argument("out must have the table's rows, and a column for every recipe");
  }
  std::vector<const Categories*> categories;
  for (std::size_t j = 0; j < columns.size(); ++j) categories.push_back(categories_of(recipes[j]));
  std::optional<std::pair<std::size_t, Trouble>> failed;
  {
    std::optional<nb::gil_scoped_release> unlocked;
    if (columns.n_rows() * columns.size() > kFewValues) unlocked.emplace();
    for (std::size_t j = 0; j < columns.size() && !failed; ++j) {
      if (order(j) < 0) continue;  // read by Python
      Trouble trouble = columns.with(j, [&](auto* at) {
        return table.read(static_cast<std::size_t>(order(j)), {categories[j], true, false}, at);
      });
      if (trouble.problem != Problem::kNone) failed.emplace(j, std::move(trouble));
    }
  }
  return failed ? failed_at(failed->first, failure_of(failed->second)) : nb::none();
}

// Whether a number of some row is at most the limit of its column.
template <class T>
bool any_at_most(const Rows& rows, std::span<const double> limits) {
  const auto* row = static_cast<const T*>(rows.data());
  for (std::size_t r = 0; r < rows.shape(0); ++r, row += rows.stride(0)) {
    const T* cell = row;
    bool found = false;
    for (const double limit : limits) {
      found |= static_cast<double>(*cell) <= limit;
      cell += rows.stride(1);
    }
    if (found) return true;
  }
  return false;
}

// Whether some of the columns hold a NaN.
template <class T>
bool any_missing(const Rows& rows, std::span<const std::int64_t> columns) {
  for (const std::int64_t column : columns) {
    const auto* cell = static_cast<const T*>(rows.data()) + column * rows.stride(1);
    for (std::size_t r = 0; r < rows.shape(0); ++r, cell += rows.stride(0)) {
      if (*cell != *cell) return true;
    }
  }
  return false;
}

}  // namespace

void bind_tables(nb::module_& m) {
  m.def("any_missing", [](const Rows& rows, const Array<std::int64_t>& columns) {
    for (const std::int64_t column : span_of(columns)) {
      if (column < 0 || column >= static_cast<std::int64_t>(rows.shape(1))) throw std::invalid_argument("no such column");
    }
    if (rows.dtype() == nb::dtype<float>()) return any_missing<float>(rows, span_of(columns));
    if (rows.dtype() != nb::dtype<double>()) throw std::invalid_argument("rows must be float32 or float64");
    return any_missing<double>(rows, span_of(columns));
  });
  m.def("any_at_most", [](const Rows& rows, const Array<double>& limits) {
    if (limits.size() > rows.shape(1)) throw std::invalid_argument("there are more limits than columns");
    if (rows.dtype() == nb::dtype<float>()) return any_at_most<float>(rows, span_of(limits));
    if (rows.dtype() != nb::dtype<double>()) throw std::invalid_argument("rows must be float32 or float64");
    return any_at_most<double>(rows, span_of(limits));
  });
  nb::class_<Categories>(m, "Categories")
      .def(
          "__init__",
          [](Categories* self, const nb::list& values, const std::string& numbers, double missing_code,
             std::optional<double> na_code, std::optional<double> null_code) {
            static constexpr std::array<std::string_view, 4> kNames = {"values", "values unless codes", "codes",
                                                                       "refused"};
            const auto found = std::find(kNames.begin(), kNames.end(), numbers);
            if (found == kNames.end()) throw std::invalid_argument("unknown meaning of numbers");
            Categories categories(static_cast<NumbersAre>(found - kNames.begin()), missing_code,
                                  na_code.value_or(missing_code));
            for (const nb::handle value : values) add_value(categories, value.ptr());
            if (null_code) categories.set_null_code(*null_code);
            categories.index_short_texts();
            new (self) Categories(std::move(categories));
          },
          "values"_a, nb::kw_only(), "numbers"_a, "missing_code"_a = kNoCode, "na_code"_a = nb::none(),
          "null_code"_a = nb::none())
      .def_prop_ro("has_rounded", &Categories::has_rounded);
  nb::class_<ArrowTable>(m, "ArrowTable")
      .def(nb::init<const nb::object&>(), "stream"_a)
      .def_prop_ro("n_rows", &ArrowTable::n_rows)
      .def_prop_ro("is_table", &ArrowTable::is_table)
      .def_prop_ro("names", &ArrowTable::names)
      .def_prop_ro("kinds", &ArrowTable::kinds)
      .def_prop_ro("formats", &ArrowTable::formats)
      .def("read", &read_table, "order"_a, "recipes"_a, "out"_a, nb::kw_only(), "ranks"_a = nb::none());
  m.def("read_columns", &read_columns, "sources"_a, "recipes"_a, "out"_a, nb::kw_only(), "dictionary"_a = false,
        "codes"_a = false, "ranks"_a = nb::none());
  nb::class_<ByteRanks>(m, "ByteRanks")
      .def(
          "__init__",
          [](ByteRanks* self, const ForestArrays& forest) {
            nb::gil_scoped_release release;
            new (self) ByteRanks(forest.view);
          },
          "forest"_a)
      .def_prop_ro("available", &ByteRanks::available);
}

}  // namespace scurry
