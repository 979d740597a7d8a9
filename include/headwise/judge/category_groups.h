// The categories of a verdict as groups of heads that can be ablated together.
#pragma once

#include <vector>

#include "headwise/judge/verdict.h"
#include "headwise/model/model.h"
#include "headwise/observe/importance.h"

namespace headwise {

/// All heads of each role, named "role:positional". Throws Error for heads that the model does not
/// have.
std::vector<NamedHeads> category_groups(const Verdict& verdict, const Model& model);

}  // namespace headwise
