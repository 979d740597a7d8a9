// What people see of a plan: what goes in each layer, what is expected of it, the curves.
#pragma once

#include <string>

#include "headwise/plan/plan.h"

namespace headwise::program {

/// `loss_task` names the loss; it may be empty.
std::string for_people(const Plan& plan, const std::string& loss_task);

}  // namespace headwise::program
