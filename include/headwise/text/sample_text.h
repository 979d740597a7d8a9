// A text to watch a model on where nobody has brought one.
#pragma once

#include <string_view>

namespace headwise {

/// English, a sentence per line.
std::string_view sample_text();

}  // namespace headwise
