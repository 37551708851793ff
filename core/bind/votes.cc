// Python's VoteSweep and vote_outcomes.
#include "calibrate/votes.h"

#include <algorithm>
#include <stdexcept>

#include "bind/bind.h"

namespace scurry {

using namespace nb::literals;

namespace {

template <class T>
using In = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> span_of(const In<T>& array) {
  return {array.data(), array.size()};
}

template <class T>
std::span<T> span_of_output(const Out<T>& array, std::size_t size) {
  check_output(array.size(), size);
  return {array.data(), size};
}

void check_rows(std::size_t size, std::size_t width) {
  if (size % width != 0) throw std::invalid_argument("an array must hold rows of n_voters + 1 entries");
}

}  // namespace

void bind_votes(nb::module_& m) {
  nb::class_<VoteSweep>(m, "VoteSweep")
      .def(
          "__init__",
          [](VoteSweep* self, std::size_t n_voters, const In<double>& time_measures, const In<double>& risk_measures) {
            check_rows(time_measures.size(), n_voters + 1);
            check_rows(risk_measures.size(), n_voters + 1);
            nb::gil_scoped_release release;
            new (self) VoteSweep(n_voters, span_of(time_measures), span_of(risk_measures));
          },
          "n_voters"_a, "time_measures"_a, "risk_measures"_a)
      .def("cheapest", [](const VoteSweep& sweep, const In<double>& time_price, const In<double>& risk_price,
                          const Out<std::int32_t>& lower, const Out<std::int32_t>& upper, const Out<double>& time,
                          const Out<double>& risk, const Out<std::uint8_t>& stops) {
        if (time_price.size() != sweep.n_time() || risk_price.size() != sweep.n_risk()) {
          throw std::invalid_argument("one price per measure is needed");
        }
        const std::span lower_out = span_of_output(lower, sweep.n_voters() + 1);
        const std::span upper_out = span_of_output(upper, sweep.n_voters() + 1);
        const std::span time_out = span_of_output(time, sweep.n_time()),
                        risk_out = span_of_output(risk, sweep.n_risk());
        const std::size_t n_states = (sweep.n_voters() + 1) * (sweep.n_voters() + 1);
        const std::span stops_out = span_of_output(stops, stops.size() == 0 ? 0 : n_states);
        nb::gil_scoped_release release;
        const PricedPolicy found = sweep.cheapest(span_of(time_price), span_of(risk_price), stops_out);
        std::copy(found.policy.lower.begin(), found.policy.lower.end(), lower_out.begin());
        std::copy(found.policy.upper.begin(), found.policy.upper.end(), upper_out.begin());
        std::copy(found.time.begin(), found.time.end(), time_out.begin());
        std::copy(found.risk.begin(), found.risk.end(), risk_out.begin());
      });
  m.def("vote_outcomes", [](std::size_t n_voters, const In<double>& weight, const In<std::int32_t>& lower,
                            const In<std::int32_t>& upper, const Out<double>& votes, const Out<double>& disagreement) {
    const std::size_t thresholds = weight.size() * (n_voters + 1);
    if (lower.size() != thresholds || upper.size() != thresholds) {
      throw std::invalid_argument("each policy needs n_voters + 1 thresholds");
    }
    const std::span votes_out = span_of_output(votes, n_voters + 1);
    const std::span disagreement_out = span_of_output(disagreement, n_voters + 1);
    nb::gil_scoped_release release;
    vote_outcomes(n_voters, span_of(weight), span_of(lower), span_of(upper), votes_out, disagreement_out);
  });
}

}  // namespace scurry
