// Python's fit_margins.
#include "calibrate/margins.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "bind/bind.h"

namespace scurry {

using namespace nb::literals;

namespace {

void check_shapes(const Matrix& scores, const Array<bool>& positive, const Array<double>& costs,
                  const Array<std::int64_t>& order) {
  if (scores.shape(0) != costs.shape(0) || scores.shape(1) != positive.shape(0) || scores.size() == 0) {
    throw std::invalid_argument("scores must have shape (n_trees, n_rows), neither zero");
  }
  if (positive.shape(0) > 0xFFFFFFFFu) throw std::invalid_argument("more than 2^32 - 1 rows");
  if (order.shape(0) == 0) return;
  std::vector<std::int64_t> sorted(order.data(), order.data() + order.shape(0));
  std::sort(sorted.begin(), sorted.end());
  if (sorted.size() != costs.shape(0)) throw std::invalid_argument("order must name every tree once");
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != static_cast<std::int64_t>(i)) throw std::invalid_argument("order must name every tree once");
  }
}

Sides parse_sides(const std::string& sides) {
  if (sides == "joint") return Sides::kJoint;
  if (sides == "negative-first") return Sides::kNegativeFirst;
  if (sides == "negative-only") return Sides::kNegativeOnly;
  throw std::invalid_argument("unknown sides " + sides);
}

nb::tuple fit(const Matrix& scores, const Array<bool>& positive, const Array<double>& costs,
              const Array<std::int64_t>& order, std::size_t max_mistakes, bool upfront, const std::string& sides,
              double slack, const nb::object& progress) {
  check_shapes(scores, positive, costs, order);
  MarginTask task;
  task.scores = scores.data();
  task.positive = {reinterpret_cast<const std::uint8_t*>(positive.data()), positive.shape(0)};
  task.costs = {costs.data(), costs.shape(0)};
  task.order = {order.data(), order.shape(0)};
  task.max_mistakes = max_mistakes;
  task.spending = upfront ? Spending::kUpfront : Spending::kProportional;
  task.sides = parse_sides(sides);
  task.slack = slack;
  MarginFit result = without_gil(
      [&] { return fit_margins(task, [&](std::size_t n_done) { report(progress, n_done, task.n_trees()); }); });
  return nb::make_tuple(array_of(std::move(result.order)), array_of(std::move(result.lower)),
                        array_of(std::move(result.upper)), array_of(std::move(result.n_entering)), result.n_mistakes);
}

}  // namespace

void bind_margins(nb::module_& m) {
  m.def("fit_margins", &fit, "scores"_a, "positive"_a, "costs"_a, "order"_a, nb::kw_only(), "max_mistakes"_a,
        "upfront"_a, "sides"_a, "slack"_a, "progress"_a.none());
}

}  // namespace scurry
