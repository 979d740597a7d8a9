// Verdicts for people: a grid of heads with a letter and a colour for each role, then words.
#pragma once

#include <cstdint>
#include <string>

#include "headwise/judge/verdict.h"
#include "heat_map.h"

namespace headwise::program {

/// The first screen: the grid, what its letters mean, which heads matter, redundant heads,
/// categories.
std::string to_text(const Verdict& verdict, Color color, int64_t width);

/// The grid, and a few lines that say what its letters mean.
std::string role_grid(const Verdict& verdict, Color color, int64_t width);

/// All roles and all thresholds.
std::string role_table(Color color);

}  // namespace headwise::program
