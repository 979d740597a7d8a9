// How heads are written.
#pragma once

#include <string>
#include <string_view>

namespace headwise {

/// "L3.H1" for what looks like a head written otherwise: "L3H1", "3.1", "l3.h1"; else nothing.
std::string proper_head_name(std::string_view name);

}  // namespace headwise
