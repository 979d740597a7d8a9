// What the files of the Python module share.
#pragma once

#include <nanobind/nanobind.h>

namespace headwise::python {

void bind_attention(nanobind::module_& module);
void bind_model(nanobind::module_& module);
void bind_pipeline(nanobind::module_& module);

}  // namespace headwise::python
