// _core.testing: what only the tests need, so that deadlines can be tested without measuring time.
#include "bind/bind.h"
#include "runtime/anytime.h"

namespace scurry {

using namespace nb::literals;

namespace {

// Runs rows under a clock that moves by `tick_us` every time it is read, and keeps `answer_us` back for the answer.
void run_by_fake_clock(const Anytime& anytime, const Rows& rows, std::size_t max_steps, double time_us, double tick_us,
                       double answer_us, const Out<std::int64_t>& labels, const Out<std::int32_t>& n_steps,
                       const Out<std::uint8_t>& reasons) {
  const RowsView view = view_of(anytime, rows);
  for (const std::size_t size : {labels.size(), n_steps.size(), reasons.size()}) check_output(size, view.n_rows);
  AnytimeOutcome outcome;
  outcome.labels = labels.data();
  outcome.n_steps = n_steps.data();
  outcome.reasons = reasons.data();
  anytime.run(view, {max_steps, time_us, nullptr, tick_us, answer_us}, outcome, 1);
}

}  // namespace

void bind_testing(nb::module_& m) {
  nb::module_ testing = m.def_submodule("testing");
  testing.def("ticks_per_us", &ticks_per_us);
  testing.def("run_by_fake_clock", &run_by_fake_clock, "anytime"_a, "rows"_a, nb::kw_only(), "max_steps"_a, "time_us"_a,
              "tick_us"_a, "answer_us"_a, "labels"_a, "n_steps"_a, "reasons"_a);
  nb::class_<AnswerTime>(testing, "AnswerTime")
      .def(
          "__init__",
          [](AnswerTime* self, double from_roots) {
            new (self) AnswerTime;
            self->set(from_roots);
          },
          "from_roots"_a)
      .def("learn", &AnswerTime::learn, "taken"_a)
      .def("doubt", &AnswerTime::doubt)
      .def("expected", &AnswerTime::expected, "allowance"_a);
}

}  // namespace scurry
