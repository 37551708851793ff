// Values of Python: what an object is, and the bytes of a text.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "bind/bind.h"

namespace scurry {

// The bytes of a str. `keeper` owns them where the str does not.
inline std::string_view bytes_of(PyObject* text, nb::object& keeper) {
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text, &size);
  if (bytes == nullptr) {  // lone surrogates
    PyErr_Clear();
    keeper = nb::steal(PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass"));
    if (!keeper.is_valid()) nb::raise_python_error();
    bytes = PyBytes_AsString(keeper.ptr());
    size = PyBytes_Size(keeper.ptr());
  }
  return {bytes, static_cast<std::size_t>(size)};
}

// What a Python object is: missing, None, a text or a number of one of three types. Others are refused.
struct Value {
  enum class Kind : std::uint8_t { kMissing, kNa, kNone, kText, kBool, kInteger, kFloat, kOther };
  Kind kind = Kind::kOther;
  std::int64_t integer = 0;
  double number = 0.0;
};

inline Value value_of_integer(PyObject* integer) {
  Value value;
  int overflow = 0;
  value.integer = PyLong_AsLongLongAndOverflow(integer, &overflow);
  value.kind = Value::Kind::kInteger;
  value.number = static_cast<double>(value.integer);
  if (overflow != 0) {
    value.number = PyLong_AsDouble(integer);
    value.kind = Value::Kind::kFloat;
  }
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    value.kind = Value::Kind::kOther;
  }
  return value;
}

inline Value value_of(PyObject* object) {
  if (object == Py_None) return {Value::Kind::kNone};
  if (PyUnicode_Check(object)) return {Value::Kind::kText};
  if (PyFloat_Check(object)) {
    const double number = PyFloat_AsDouble(object);
    return {std::isnan(number) ? Value::Kind::kMissing : Value::Kind::kFloat, 0, number};
  }
  if (PyBool_Check(object)) {
    const bool truth = object == Py_True;
    return {Value::Kind::kBool, truth, truth ? 1.0 : 0.0};
  }
  if (PyLong_Check(object)) return value_of_integer(object);
  nb::object keeper;
  const nb::object name = nb::steal(PyType_GetName(Py_TYPE(object)));
  if (!name.is_valid()) nb::raise_python_error();
  const std::string_view type = bytes_of(name.ptr(), keeper);  // pandas' missing values, without importing pandas
  if (type.ends_with("NAType") || type.ends_with("NaTType")) return {Value::Kind::kNa};
  if (nb::object index = nb::steal(PyNumber_Index(object)); index.is_valid()) return value_of_integer(index.ptr());
  PyErr_Clear();
  const double number = PyFloat_AsDouble(object);
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return {Value::Kind::kOther};
  }
  if (type.ends_with("bool")) return {Value::Kind::kBool, number != 0, number};
  return {std::isnan(number) ? Value::Kind::kMissing : Value::Kind::kFloat, 0, number};
}

}  // namespace scurry
