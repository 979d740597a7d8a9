// Numbers for people.
#pragma once

#include <cstdint>
#include <string>

namespace headwise {

/// "22,713,216"
std::string grouped(int64_t number);

}  // namespace headwise
