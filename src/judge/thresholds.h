// The numbers that verdicts hang on, as they were asked for.
#pragma once

#include <map>
#include <string>

namespace headwise {

/// Every threshold by name: as usual, but for those in `changed`. Throws Error for a name that
/// there is not, and for a value outside of [0, 1].
std::map<std::string, double> threshold_values(const std::map<std::string, double>& changed);

}  // namespace headwise
