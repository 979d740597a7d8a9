// A built-in text, for when the user gives none.
#pragma once

#include <string_view>

namespace headwise {

/// English, a sentence per line.
std::string_view sample_text();

/// A longer text for estimates that need more samples than sample_text() has: at least 1,000 lines
/// of English, ASCII only, one sentence or short utterance per line, each line ended by '\n'. No
/// line is empty, repeated, or in sample_text(). Neighbouring lines often continue one scene.
std::string_view longer_sample_text();

}  // namespace headwise
