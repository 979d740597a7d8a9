// The head that a page opens with.
#pragma once

#include <string>

#include "headwise/judge/verdict.h"

namespace headwise {

/// The head with the most interesting role. Roles that were seen on data come before those of
/// probes; roles that hang on what words say before those that hang on places; heads that matter
/// (the first half of the ranking by ablation, else by gradient) before others; special
/// roles before general ones, in the order of role_kinds(). Among equals, the role whose score lies
/// farthest above its baseline. Without any role, the head that matters most; "" without heads.
std::string first_head(const Verdict& verdict);

}  // namespace headwise
