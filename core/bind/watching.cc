// Python's Draws and follow_bets.
#include <algorithm>
#include <limits>

#include "bind/bind.h"
#include "calibrate/bets.h"
#include "runtime/draws.h"

namespace scurry {

using namespace nb::literals;

namespace {

using Counts = nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Column = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::span<double> span_of(const Column& column, std::size_t n) {
  check_output(column.size(), n);
  return {column.data(), n};
}

// Returns the numbers drawn, their places among the rows of the batch, and up to where none is drawn behind it.
nb::tuple draw(Draws& draws, std::int64_t start, std::int64_t stop) {
  if (start < 0 || stop < start || stop > std::numeric_limits<std::int64_t>::max() - kDrawBlock) {
    throw std::invalid_argument("rows are numbered from 0 to 2**62 or so");
  }
  std::vector<std::int64_t> numbers = draws.between(start, stop), places(numbers.size());
  std::ranges::transform(numbers, places.begin(), [start](std::int64_t number) { return number - start; });
  return nb::make_tuple(array_of(std::move(numbers)), array_of(std::move(places)), draws.none_before(stop));
}

}  // namespace

void bind_watching(nb::module_& m) {
  m.def("mix_bits", &mix_bits, "value"_a);
  m.attr("DRAW_BLOCK") = kDrawBlock;
  nb::class_<Draws>(m, "Draws")
      .def(
          "__init__",
          [](Draws* self, double share, std::uint64_t seed) {
            if (!(share > 0.0 && share <= 1.0)) throw std::invalid_argument("share must be in (0, 1]");
            new (self) Draws(share, seed);
          },
          "share"_a, "seed"_a)
      .def("draw", &draw, "start"_a, "stop"_a);
  m.def(
      "follow_bets",
      [](const Counts& counts, const Array<double>& started, const Matrix& log_gains, double first_capital,
         const Column& log_capital, const Column& begun, const Column& e_values, const Column& changes) {
        const BetEpochs epochs{{counts.data(), counts.size()},
                               scurry::span_of(started),
                               {log_gains.data(), log_gains.size()},
                               log_gains.shape(1)};
        if (log_gains.size() == 0 || counts.shape(0) != started.size() || counts.shape(1) != log_gains.shape(1)) {
          throw std::invalid_argument("every epoch needs a count of each loss, and every loss a gain");
        }
        const BetState state{span_of(log_capital, epochs.n_bets()), span_of(begun, epochs.n_bets())};
        follow_bets(epochs, first_capital, state, span_of(e_values, epochs.n_epochs()),
                    span_of(changes, epochs.n_epochs()));
      },
      "counts"_a, "started"_a, "log_gains"_a, nb::kw_only(), "first_capital"_a, "log_capital"_a, "begun"_a,
      "e_values"_a, "changes"_a);
}

}  // namespace scurry
