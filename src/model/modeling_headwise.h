// The Python file that lets transformers load models whose layers have lost different heads.
#pragma once

#include <string_view>

namespace headwise {

inline constexpr std::string_view kModelingFile = "modeling_headwise.py";

/// Its text: src/model/modeling_headwise.py, put into the library when it is built.
std::string_view modeling_headwise();

}  // namespace headwise
