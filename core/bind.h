// Every file core/bind*.cc adds its part of the module through one of these.
#pragma once

#include <nanobind/nanobind.h>

void bind_closure(nanobind::module_& m);
