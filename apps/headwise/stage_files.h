// The files that one stage writes and the next one reads.
#pragma once

#include <string>

#include "headwise/judge/verdict.h"
#include "headwise/observe/evidence.h"
#include "headwise/plan/plan.h"

namespace headwise::program {

/// Throw Error for what cannot be read, or is no such file; of another stage's file they say so.
Evidence read_evidence(const std::string& file);
Verdict read_verdict(const std::string& file);
Plan read_plan(const std::string& file);

/// Throws Error for a verdict of other weights than these.
void check_about(const Verdict& verdict, const std::string& file, const std::string& model,
                 const std::string& sha256);

}  // namespace headwise::program
