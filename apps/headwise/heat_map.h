// A matrix of weights in the terminal: digits for everybody, colour where there is any.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "headwise/core/view.h"
#include "screen.h"

namespace headwise::program {

struct HeatMap {
  View<const float, 2> weights{};  // in [0, 1]
  std::span<const std::string> rows{};
  std::span<const std::string> columns{};
  bool square = true;  // rows and columns are the same tokens, and are cut alike
};

/// Weights in percent; a point below a half, nothing for 0. What is too wide is cut, and says so.
std::string draw(const HeatMap& map, Color color, int64_t width);

}  // namespace headwise::program
