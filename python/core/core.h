// What the files of the Python module share.
#pragma once

#include <nanobind/nanobind.h>

namespace headwise::python {

void bind_attention(nanobind::module_& module);

}  // namespace headwise::python
