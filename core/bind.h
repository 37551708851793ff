// What the Python module is made of, one function per bind*.cc.
#pragma once

#include <nanobind/nanobind.h>

void bind_votes(nanobind::module_& m);
