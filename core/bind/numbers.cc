// Numbers that files of models write as text.
#include <charconv>
#include <cstdlib>
#include <string>
#include <system_error>
#include <vector>

#include "bind/bind.h"

namespace scurry {

using namespace nb::literals;

namespace {

bool separates(char byte) { return byte == ' ' || byte == ',' || byte == '\n' || byte == '\t' || byte == '\r'; }

// The number that is the word from `first` to `last`, rounded to the nearest double as Python does it.
double number_of(const char* first, const char* last) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(first, last, value);
  if (error == std::errc() && end == last) return value;
  const std::string word(first, last);
  if (error == std::errc::result_out_of_range && end == last) return std::strtod(word.c_str(), nullptr);  // 0 or infinity
  throw std::invalid_argument("'" + word.substr(0, 40) + "' is no number");
}

// Returns the numbers of all texts, separated by spaces, commas or ends of lines, and how many each text has.
nb::tuple read_numbers(const nb::list& texts) {
  std::vector<double> numbers;
  std::vector<std::int64_t> counts;
  counts.reserve(texts.size());
  for (const nb::handle text : texts) {
    Py_ssize_t size = 0;
    const char* at = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
    if (at == nullptr) nb::raise_python_error();
    const std::size_t before = numbers.size();
    const char* const end = at + size;
    while (true) {
      while (at != end && separates(*at)) ++at;
      if (at == end) break;
      const char* const first = at;
      while (at != end && !separates(*at)) ++at;
      numbers.push_back(number_of(first, at));
    }
    counts.push_back(static_cast<std::int64_t>(numbers.size() - before));
  }
  return nb::make_tuple(array_of(std::move(numbers)), array_of(std::move(counts)));
}

}  // namespace

void bind_numbers(nb::module_& m) { m.def("read_numbers", &read_numbers, "texts"_a); }

}  // namespace scurry
