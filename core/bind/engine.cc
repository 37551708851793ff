// Python's ForestArrays and Engine.
#include "runtime/engine.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "bind/one_row.h"

namespace scurry {

using namespace nb::literals;

namespace {

template <class Enum>
Enum parse(const std::string& name, const std::string& value, std::initializer_list<const char*> names) {
  std::uint8_t index = 0;
  for (const char* candidate : names) {
    if (value == candidate) return static_cast<Enum>(index);
    ++index;
  }
  throw std::invalid_argument("unknown " + name + " " + value);
}

// Without conversion: a converted copy would be freed before the view is read.
template <class ArrayType>
ArrayType as_it_is(const nb::dict& arrays, const char* name) {
  return nb::cast<ArrayType>(arrays[name], false);
}

template <class T>
std::span<const T> field(const nb::dict& arrays, const char* name) {
  return span_of(as_it_is<Array<T>>(arrays, name));
}

// Finds the table of leaves, whatever the type of its numbers. Returns how many each leaf has.
std::size_t read_leaves(const nb::dict& arrays, std::size_t n_leaves, PackedLeaves& leaves) {
  const auto table = as_it_is<nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu>>(arrays, "leaf_table");
  leaves.data = table.data();
  leaves.are_counts = nb::cast<bool>(arrays["are_counts"]);
  const nb::dlpack::dtype types[] = {nb::dtype<std::uint8_t>(), nb::dtype<std::uint16_t>(), nb::dtype<std::uint32_t>(),
                                     nb::dtype<float>(), nb::dtype<double>()};
  const auto type = std::find(std::begin(types), std::end(types), table.dtype());
  if (type == std::end(types) || table.shape(0) != n_leaves) throw std::invalid_argument("unknown table of leaves");
  leaves.type = static_cast<PackedLeaves::Type>(type - std::begin(types));
  return table.shape(1);
}

ForestArrays make_forest(const nb::dict& arrays, const nb::dict& header, nb::object packed) {
  ForestView view;
  if (!packed.is_none()) view.packed = &nb::cast<const HeldPacked&>(packed).forest;
  if (view.packed != nullptr && !view.packed->is_checked()) {
    throw std::invalid_argument("the trees have not been checked");
  }
  const auto flags = [&] {
    const auto default_left = field<bool>(arrays, "default_left");
    return std::span(reinterpret_cast<const std::uint8_t*>(default_left.data()), default_left.size());
  };
  view.tree_offset = field<std::int64_t>(arrays, "tree_offset");
  if (view.packed == nullptr) {
    view.feature = field<std::int32_t>(arrays, "feature");
    view.threshold = field<double>(arrays, "threshold");
    view.left = field<std::int32_t>(arrays, "left");
    view.right = field<std::int32_t>(arrays, "right");
    view.default_left = flags();
    view.missing = field<std::uint8_t>(arrays, "missing");
    view.category_set = field<std::int32_t>(arrays, "category_set");
  } else {
    view.splits = {{field<double>(arrays, "first_threshold"), field<std::uint32_t>(arrays, "feature_splits"),
                    field<std::uint8_t>(arrays, "threshold_shift"), field<std::uint8_t>(arrays, "threshold_width"),
                    field<std::uint8_t>(arrays, "threshold_delta")},
                   field<std::uint32_t>(arrays, "feature_used"),
                   flags(),
                   field<std::uint8_t>(arrays, "missing"),
                   field<std::int32_t>(arrays, "category_set")};
    view.splits.check(view.packed->n_splits());
  }
  if (view.packed == nullptr) {
    const auto value = as_it_is<Matrix>(arrays, "value");
    view.value = value.data();
    view.n_columns = value.shape(1);
  } else {
    view.n_columns = read_leaves(arrays, view.packed->n_leaves(), view.leaves);
  }
  view.tree_output = field<std::int32_t>(arrays, "tree_output");
  view.base_score = field<double>(arrays, "base_score");
  view.category_offset = field<std::int64_t>(arrays, "category_offset");
  view.category_bits = field<std::uint32_t>(arrays, "category_bits");

  const auto text = [&](const char* name) { return nb::cast<std::string>(header[name]); };
  view.n_features = nb::cast<std::size_t>(header["n_features"]);
  view.n_classes = nb::cast<std::size_t>(header["n_classes"]);
  view.aggregation = parse<Aggregation>("aggregation", text("aggregation"), {"mean", "vote", "sum"});
  view.float32_input = text("input_dtype") == "float32";
  view.float32_score = text("score_dtype") == "float32";
  view.strict_comparison = text("comparison") == "<";
  view.label_from_score = text("label_from") == "score";
  view.truncate_categories = text("category_rounding") == "trunc";
  view.link =
      parse<Link>("link", text("link"),
                  {"identity", "logistic", "softmax", "logistic-each", "exp", "signed-square", "log1p-exp", "step"});
  view.link_scale = nb::cast<double>(header["link_scale"]);
  view.decision_threshold = nb::cast<double>(header["decision_threshold"]);
  return {arrays, std::move(packed), view};
}

// Returns what lowering has freed to the system: a process that predicts from a packed file has little else.
void give_back_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

// The parts of an engine in a file, as it was stored; one that is missing is empty.
EngineParts parts_of(const nb::dict& arrays) {
  EngineParts parts;
  EngineParts::for_each(parts, [&]<class T>(const char* name, std::span<const T>& part) {
    if (arrays.contains(name)) part = field<T>(arrays, name);
  });
  return parts;
}

nb::dict store(const Engine& engine) {
  const StoredEngine stored = engine.store();
  nb::dict out;
  EngineParts::for_each(stored.parts, [&]<class T>(const char* name, const std::span<const T>& part) {
    if (!part.empty()) out[name] = array_of(std::vector<T>(part.begin(), part.end()));
  });
  return out;
}

// An engine that reads its nodes where they lie in arrays of Python, which it keeps alive.
class MappedEngine : public Engine {
 public:
  MappedEngine(const ForestArrays& forest, const Array<std::int64_t>& classes, const nb::dict& parts)
      : Engine(forest.view, vector_of(classes), parts_of(parts)), held_(parts) {
    give_back_memory();
  }

 private:
  nb::object held_;
};

// `answer` is "label", "value" or "probabilities".
nb::object one_row(nb::handle self, const std::string& answer, nb::object labels, const RowsTaken& rows) {
  const auto& engine = nb::cast<const Engine&>(self);
  check_labels(labels, engine.n_outputs());
  const std::size_t n_trees = engine.n_trees(), width = engine.n_probabilities();
  RowAnswer call;
  if (answer == "label") {
    call = [&engine, n_trees, labels, alive = nb::borrow(self)](const RowsView& row) {
      std::int64_t label;
      without_gil(n_trees, [&] { engine.labels(row, &label, 1); });
      return label_of(labels, label);
    };
  } else if (answer == "value" || answer == "probabilities") {
    call = [&engine, n_trees, width, is_value = answer == "value", alive = nb::borrow(self)](const RowsView& row) {
      return with_room(width, [&](double* values) {
        without_gil(n_trees, [&] { engine.probabilities(row, values, 1); });
        return is_value ? nb::steal(PyFloat_FromDouble(values[0])) : tuple_of(values, width);
      });
    };
  } else {
    throw std::invalid_argument("unknown answer " + answer);
  }
  return make_one_row(engine.n_features(), rows, std::move(call));
}

}  // namespace

void bind_engine(nb::module_& m) {
  nb::class_<ForestArrays>(m, "ForestArrays")
      .def(
          "__init__",
          [](ForestArrays* self, const nb::dict& arrays, const nb::dict& header, nb::object packed) {
            new (self) ForestArrays(make_forest(arrays, header, std::move(packed)));
          },
          "arrays"_a, "header"_a, "packed"_a = nb::none());
  nb::class_<Engine>(m, "Engine")
      .def(
          "__init__",
          [](Engine* self, const ForestArrays& forest, const Array<std::int64_t>& classes, bool leaf_ids) {
            nb::gil_scoped_release release;
            new (self) Engine(forest.view, vector_of(classes), leaf_ids);
            if (forest.view.packed != nullptr) give_back_memory();
          },
          "forest"_a, nb::kw_only(), "classes"_a, "leaf_ids"_a)
      .def("prepare", &Engine::prepare, nb::call_guard<nb::gil_scoped_release>())
      .def("store", &store)
      .def_prop_ro("can_store", &Engine::can_store)
      .def("labels",
           [](const Engine& engine, const Rows& rows, const Out<std::int64_t>& out, std::size_t n_threads) {
             const RowsView view = view_of(engine, rows);
             check_output(out.size(), view.n_rows);
             without_gil(view.n_rows * engine.n_trees(), [&] { engine.labels(view, out.data(), n_threads); });
           })
      .def("probabilities",
           [](const Engine& engine, const Rows& rows, const Out<double>& out, std::size_t n_threads) {
             const RowsView view = view_of(engine, rows);
             check_output(out.size(), view.n_rows * engine.n_probabilities());
             without_gil(view.n_rows * engine.n_trees(), [&] { engine.probabilities(view, out.data(), n_threads); });
           })
      .def("scores",
           [](const Engine& engine, const Rows& rows, const Out<double>& out, std::size_t n_threads) {
             const RowsView view = view_of(engine, rows);
             check_output(out.size(), view.n_rows * engine.n_outputs());
             without_gil(view.n_rows * engine.n_trees(), [&] { engine.scores(view, out.data(), n_threads); });
           })
      .def("leaves",
           [](const Engine& engine, const Rows& rows, const Out<std::int32_t>& out, std::size_t n_threads) {
             const RowsView view = view_of(engine, rows);
             check_output(out.size(), view.n_rows * engine.n_trees());
             without_gil(view.n_rows * engine.n_trees(), [&] { engine.leaves(view, out.data(), n_threads); });
           })
      .def("one_row", &one_row, "answer"_a, nb::kw_only(), "labels"_a.none(), "rows"_a)
      .def_prop_ro("n_trees", &Engine::n_trees)
      // The largest number of the leaves of each tree, of numbers by value.
      .def("most_of_trees",
           [](const Engine& engine, const Array<double>& numbers) {
             if (numbers.size() != engine.n_values()) throw std::invalid_argument("a number is needed for every value");
             std::vector<double> most(engine.n_trees(), -std::numeric_limits<double>::infinity());
             const Walker trees = engine.share();
             for (const Tree& tree : trees.trees()) {
               trees.for_each_leaf(tree, [&](auto value) { most[tree.index] = std::max(most[tree.index], numbers(value)); });
             }
             return array_of(std::move(most));
           })
      // Distinct values of leaves, [n_values][n_columns]; none if leaves hold what they add.
      .def_prop_ro("values",
                   [](const Engine& engine) {
                     const NodeValues& values = engine.values();
                     const std::size_t n_columns = values.are_vectors() ? values.n_outputs() : 1;
                     std::vector<double> out;
                     for (std::size_t i = 0; i < engine.n_values(); ++i) {
                       const double* value = values.at(static_cast<std::uint32_t>(i));
                       out.insert(out.end(), value, value + n_columns);
                     }
                     return array_of(std::move(out));
                   })
      .def_prop_ro("loop", &Engine::loop)
      .def_prop_ro("slices_tops", &Engine::slices_tops)
      .def_prop_ro("slices_large", &Engine::slices_large)
      .def_prop_ro("node_bytes", &Engine::node_bytes)
      .def_prop_ro("leaf_bytes", &Engine::leaf_bytes)
      .def_prop_ro("column_bytes", &Engine::column_bytes);
  nb::class_<MappedEngine, Engine>(m, "MappedEngine")
      .def(nb::init<const ForestArrays&, const Array<std::int64_t>&, const nb::dict&>(), "forest"_a, nb::kw_only(),
           "classes"_a, "parts"_a);
  m.def("give_back_memory", &give_back_memory);
  m.def("logistic_threshold", &logistic_threshold, "scale"_a, "float32"_a);
  // The logf of the C library, as XGBoost uses it; the vectorised one of numpy differs in the last bit.
  m.def("log_float32", [](float x) { return std::log(x); }, "x"_a);
  // With the exp of the C library, as scipy's expit has it; the vectorised one of numpy differs in the last bit.
  m.def(
      "logistic",
      [](const Array<double>& x, const Out<double>& out) {
        check_output(out.size(), x.size());
        std::transform(x.data(), x.data() + x.size(), out.data(), [](double z) { return 1.0 / (1.0 + std::exp(-z)); });
      },
      "x"_a, "out"_a);
  m.def("kernels", [] { return kernels().name; });
}

}  // namespace scurry
