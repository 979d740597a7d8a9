// Any plan is understood or refused by name. What is understood is written and read again as the
// same plan, and drops what another parser finds.
#include "headwise/plan/plan.h"

#include <nlohmann/json.hpp>

#include "fuzz.h"
#include "json_mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headwise;
  const auto text = fuzz::text(data, size);
  Plan plan;
  if (!fuzz::succeeds([&] { plan = plan_from_json(text, "plan.json"); })) return 0;
  fuzz::must(nlohmann::json::parse(text).at("drop") == nlohmann::json(plan.drop),
             "other heads than another parser finds");
  fuzz::must(plan_from_json(to_json(plan), "again.json") == plan, "a plan changes");
  return 0;
}
