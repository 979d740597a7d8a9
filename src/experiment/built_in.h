// The files of experiments/ that are put into the library.
#pragma once

#include <span>
#include <string_view>

namespace headwise {

struct BuiltInExperiment {
  std::string_view name{}, design{}, settings{}, verdict{};
};

/// By name. See src/CMakeLists.txt.
std::span<const BuiltInExperiment> built_in_experiments();

}  // namespace headwise
