// The long works of the live page: ablating every head, planning which go.
#pragma once

#include <optional>
#include <string>

#include "engine.h"
#include "inputs.h"

namespace headwise::program {

struct JobRequest {
  std::string kind{};                 // "ablate" or "plan"
  std::optional<std::string> text{};  // lines; none: the text that comes with the program
  double keep = 0.75;
  std::string order = "ablation";  // "ablation", "gradient" or "random"
};

/// The result of a job, see docs/serve.md. Throws Error for a text that says nothing about heads.
Engine::Json run_job(const Session& session, const JobRequest& request,
                     const Engine::Report& report);

}  // namespace headwise::program
