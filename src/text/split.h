// What becomes of the text between and at the matches of a pattern.
#pragma once

#include <vector>

#include "headwise/io/json.h"
#include "text/patterns.h"
#include "text/pre_tokenizer.h"

namespace headwise::text {

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

SplitBehavior split_behavior(const JsonObject& part, const char* field);

/// Adds the parts of `piece`; the matches count from its begin. With `invert`, what is between the
/// matches counts as the matches.
void split_at(const Piece& piece, const std::vector<Match>& matches, SplitBehavior behavior,
              bool invert, std::vector<Piece>& out);

}  // namespace headwise::text
