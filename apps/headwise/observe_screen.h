// What people see of evidence: the layers, the heads that stand out, the best head per relation.
#pragma once

#include <string>

#include "headwise/observe/evidence.h"

namespace headwise::program {

std::string to_text(const Evidence& evidence);

}  // namespace headwise::program
