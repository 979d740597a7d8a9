// What people see of a plan: what goes in each layer, what is expected of it, the curves.
#pragma once

#include <string>

#include "headwise/plan/plan.h"

namespace headwise::program {

std::string to_text(const Plan& plan);

}  // namespace headwise::program
