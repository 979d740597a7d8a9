// Reads the text of a program.
#pragma once

#include <string>
#include <string_view>

#include "construct/program_graph.h"
#include "headwise/construct/program.h"

namespace headwise {

/// Throws Error with the line of what is not understood.
ProgramGraph parse_program(std::string_view source, const std::string& where,
                           const ProgramOptions& options);

}  // namespace headwise
