// Prunes a model as a plan says.
#pragma once

#include <string>

#include "headwise/model/model.h"
#include "headwise/plan/plan.h"
#include "headwise/prune/prune.h"

namespace headwise {

/// Throws Error for a plan that says of every head whether it stays, and not of those of the model.
/// `where` names the plan in messages.
void check_fits(const Plan& plan, const Model& model, const std::string& where = "plan");

/// The model without the heads that the plan drops. The order of the plan takes the place of that
/// of the options. Throws Error for a plan of another model.
PrunedModel prune(const Model& model, const Plan& plan, PruneOptions options = {});

}  // namespace headwise
