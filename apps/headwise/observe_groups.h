// Heads that observe closes together: named on the command line, or by a verdict.
#pragma once

#include <string>
#include <vector>

#include "headwise/model/model.h"
#include "headwise/observe/evidence.h"
#include "headwise/observe/importance.h"

namespace headwise::program {

/// NAME=HEADS or HEADS, of the model. Names of attentions and roles are refused.
std::vector<NamedHeads> named_groups(const std::vector<std::string>& groups, const Model& model);

/// The categories of a verdict. Throws Error if it is about another model.
std::vector<NamedHeads> groups_of_verdict(const std::string& file, const Model& model,
                                          const Evidence::ModelIdentity& identity);

/// Throws Error unless evidence of `file` can be added to: it is of the same weights, and its loss
/// over the same text or data as that of `fresh`.
void check_appendable(const Evidence& evidence, const Evidence& fresh, const std::string& file);

}  // namespace headwise::program
