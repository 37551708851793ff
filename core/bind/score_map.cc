// Python's ScoreMap.
#include "runtime/score_map.h"

#include <nanobind/stl/pair.h>

#include <algorithm>

#include "bind/bind.h"

namespace scurry {

using namespace nb::literals;

namespace {

using Pair = std::pair<double, double>;

void check_below(std::span<const std::int32_t> values, std::size_t end, const char* message) {
  const auto is_outside = [&](std::int32_t value) { return value < 0 || static_cast<std::size_t>(value) >= end; };
  if (std::ranges::any_of(values, is_outside)) throw std::invalid_argument(message);
}

std::span<const std::int32_t> checked_positions(const ScoreMap& map, const Array<std::int32_t>& positions) {
  check_below(span_of(positions), map.n_positions(), "a row stopped at a position that the score map does not have");
  return span_of(positions);
}

}  // namespace

void bind_score_map(nb::module_& m) {
  nb::class_<ScoreMap>(m, "ScoreMap")
      .def(
          "__init__",
          [](ScoreMap* self, const Matrix& slope, const Matrix& intercept, const Pair& lowest, const Pair& highest,
             double margin, bool sums_to_one) {
            if (slope.shape(0) != 2 || intercept.shape(0) != 2) throw std::invalid_argument("a score map has 2 groups");
            new (self) ScoreMap({slope.data(), slope.data() + slope.size()},
                                {intercept.data(), intercept.data() + intercept.size()},
                                {{lowest.first, lowest.second}, {highest.first, highest.second}, margin, sums_to_one});
          },
          "slope"_a, "intercept"_a, nb::kw_only(), "lowest"_a, "highest"_a, "margin"_a, "sums_to_one"_a)
      .def("two_classes",
           [](const ScoreMap& map, const Array<std::int32_t>& sums, const Array<std::int32_t>& positions,
              const Array<std::uint8_t>& is_positive, const Out<double>& out) {
             const auto at = checked_positions(map, positions);
             check_output(positions.size(), sums.size());
             check_output(is_positive.size(), sums.size());
             check_output(out.size(), sums.size());
             without_gil(sums.size(), [&] { map.two_classes(span_of(sums), at.data(), is_positive.data(), out.data()); });
           })
      .def("classes", [](const ScoreMap& map, const IntMatrix& sums, const Array<std::int32_t>& positions,
                         const Array<std::int32_t>& leaders, const Out<double>& out) {
        const auto at = checked_positions(map, positions);
        check_below(span_of(leaders), sums.shape(1), "a leader is none of the classes");
        check_output(positions.size(), sums.shape(0));
        check_output(leaders.size(), sums.shape(0));
        check_output(out.size(), sums.size());
        const std::span<const std::int32_t> all{sums.data(), sums.size()};
        without_gil(sums.size(), [&] { map.classes(all, at.data(), leaders.data(), sums.shape(1), out.data()); });
      });
}

}  // namespace scurry
