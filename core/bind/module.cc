// Defines the Python module _core.
#include "bind/bind.h"

NB_MODULE(_core, m) {
#ifdef NDEBUG
  scurry::nb::set_leak_warnings(false);  // objects that outlive the interpreter in a cache of the user are not leaks
#endif
  const auto threading = scurry::nb::module_::import_("threading");
  scurry::main_thread = scurry::nb::cast<unsigned long>(threading.attr("main_thread")().attr("ident"));
  scurry::bind_anytime(m);
  scurry::bind_cells(m);
  scurry::bind_closure(m);
  scurry::bind_combinations(m);
  scurry::bind_engine(m);
  scurry::bind_exits(m);
  scurry::bind_grow(m);
  scurry::bind_margins(m);
  scurry::bind_numbers(m);
  scurry::bind_one_row(m);
  scurry::bind_orders(m);
  scurry::bind_packed(m);
  scurry::bind_prefix(m);
  scurry::bind_score_map(m);
  scurry::bind_tables(m);
  scurry::bind_testing(m);
  scurry::bind_votes(m);
  scurry::bind_watching(m);
}
