// Heads that observe closes together: named on the command line, or by a verdict.
#pragma once

#include <string>
#include <vector>

#include "headwise/model/model.h"
#include "headwise/observe/importance.h"

namespace headwise::program {

/// NAME=HEADS or HEADS, of the model. Names of attentions and roles are refused.
std::vector<NamedHeads> named_groups(const std::vector<std::string>& groups, const Model& model);

/// The categories of a verdict. Throws Error if it is about another model.
std::vector<NamedHeads> groups_of_verdict(const std::string& file, const Model& model);

}  // namespace headwise::program
