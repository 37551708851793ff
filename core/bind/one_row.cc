// Reads a row where it lies in a numpy array. Asking numpy for its buffer, or nanobind for an array, would take longer
// than a small model.
#include "bind/one_row.h"

#include <tuple>

namespace scurry {
namespace {

// The beginning of numpy's PyArray_Descr and PyArrayObject, which has been the same in all versions from 1.7 to 2.x.
// Numpy's headers are not needed to build the package, and before the layout is relied on it is tested.
struct NumpyType {
  PyObject head;
  PyTypeObject* scalar;
  char kind, letter, byte_order, flags;
  int number;
};

struct NumpyArray {
  PyObject head;
  char* data;
  int n_dimensions;
  Py_ssize_t* shape;
  Py_ssize_t* strides;
  PyObject* base;
  NumpyType* type;
  int flags;
};

constexpr int kFloat32 = 11, kFloat64 = 12, kAligned = 0x0100;
constexpr char kNative = '=';

struct OneRow {
  PyTypeObject* array_type;  // null if numpy's arrays are not laid out as expected
  std::size_t n_features;
  RowsTaken taken;
  RowAnswer answer;
};

bool is_beyond_limits(const RowsView& row, const std::vector<double>& limits) {
  const auto* float32 = static_cast<const float*>(row.data);
  const auto* float64 = static_cast<const double*>(row.data);
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const auto at = static_cast<std::ptrdiff_t>(i) * row.column_stride;
    if ((row.is_float32 ? static_cast<double>(float32[at]) : float64[at]) <= limits[i]) return false;
  }
  return true;
}

// The row of an array of floats of shape (n_features,) or (1, n_features); without data if it is something else.
RowsView view_of_row(const OneRow& self, PyObject* given) {
  if (Py_TYPE(given) != self.array_type) return {};
  const auto& array = *reinterpret_cast<const NumpyArray*>(given);
  const int number = array.type->number;
  const bool is_float32 = number == kFloat32;
  if (!(is_float32 ? self.taken.float32 : number == kFloat64 && self.taken.float64)) return {};
  if (array.type->byte_order != kNative || (array.flags & kAligned) == 0) return {};
  const int last = array.n_dimensions - 1;
  if (!(last == 0 || (last == 1 && array.shape[0] == 1))) return {};
  const Py_ssize_t size = is_float32 ? 4 : 8, apart = array.strides[last];
  if (array.shape[last] != static_cast<Py_ssize_t>(self.n_features) || apart % size != 0) return {};
  const RowsView row{array.data, 1, 0, apart / size, is_float32};
  return is_beyond_limits(row, self.taken.limits) ? row : RowsView{};
}

PyObject* call(PyObject* bound, PyObject* row) {
  const OneRow& self = *nb::inst_ptr<OneRow>(bound);
  const RowsView view = view_of_row(self, row);
  try {
    if (view.n_rows == 0) return self.taken.otherwise(nb::handle(row)).release().ptr();
    return self.answer(view).release().ptr();
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

PyMethodDef method = {"one_row", call, METH_O,
                      "one_row(row)\n--\n\nAnswer for one row: an array of shape (n_features,)."};

// numpy's type of arrays, or null if an array does not look as described above.
PyTypeObject* array_type() {
  const nb::module_ numpy = nb::module_::import_("numpy");
  for (const auto& [name, number, size] : {std::tuple("float32", kFloat32, 4), std::tuple("float64", kFloat64, 8)}) {
    const nb::object made = numpy.attr("empty")(nb::make_tuple(3, 5), name);
    const auto& array = *reinterpret_cast<const NumpyArray*>(made.ptr());
    const bool is_known = array.n_dimensions == 2 && array.shape[0] == 3 && array.shape[1] == 5 &&
                          array.strides[0] == 5 * size && array.strides[1] == size && array.type->number == number &&
                          array.type->byte_order == kNative && (array.flags & kAligned) != 0 &&
                          array.type == reinterpret_cast<NumpyType*>(made.attr("dtype").ptr());
    if (!is_known) return nullptr;
  }
  return reinterpret_cast<PyTypeObject*>(numpy.attr("ndarray").ptr());
}

}  // namespace

nb::object make_one_row(std::size_t n_features, RowsTaken taken, RowAnswer answer) {
  if (taken.limits.size() > n_features) throw std::invalid_argument("there are more limits than columns");
  const nb::object self = nb::cast(OneRow{array_type(), n_features, std::move(taken), std::move(answer)});
  return nb::steal(PyCFunction_New(&method, self.ptr()));
}

void bind_one_row(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<RowsTaken>(m, "RowsTaken")
      .def("__init__",
           [](RowsTaken* self, bool float32, bool float64, const Array<double>& limits, nb::object otherwise) {
             new (self) RowsTaken{float32, float64, vector_of(limits), std::move(otherwise)};
           },
           nb::kw_only(), "float32"_a, "float64"_a, "limits"_a, "otherwise"_a);
  nb::class_<OneRow>(m, "OneRow");
}

}  // namespace scurry
