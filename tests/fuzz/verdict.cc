// Any verdict is understood or refused by name. What is understood is written and read again as the
// same text, and every plan from it drops heads of it, each once, and keeps the others.
#include "headwise/judge/verdict.h"

#include <algorithm>
#include <set>

#include "fuzz.h"
#include "headwise/judge/judge.h"
#include "headwise/plan/make_plan.h"
#include "json_mutator.h"

namespace headwise {
namespace {

using fuzz::must;

void check_plan(const Verdict& verdict, double keep) {
  const Plan made = plan(verdict, {.keep = keep, .order = HeadOrder::random});
  std::multiset<std::string> planned(made.keep.begin(), made.keep.end()), heads;
  planned.insert(made.drop.begin(), made.drop.end());
  for (const HeadVerdict& head : verdict.heads) heads.insert(head.head);
  must(planned == heads, "a plan about other heads");
  must(std::set(heads.begin(), heads.end()).size() == heads.size(), "a head is there twice");
  const std::string text = to_json(made);
  must(plan_from_json(text, "plan.json") == made, "a plan changes");
}

}  // namespace
}  // namespace headwise

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headwise;
  Verdict verdict;
  if (!fuzz::succeeds([&] { verdict = verdict_from_json(fuzz::text(data, size), "verdict.json"); }))
    return 0;
  const std::string written = to_json(verdict);
  must(to_json(verdict_from_json(written, "again.json")) == written, "a verdict changes");
  for (const HeadVerdict& head : verdict.heads)
    must(!explain(verdict, head.head).empty(), "no sentence about a head");
  for (const double keep : {0., 0.5, 1.}) {
    try {
      check_plan(verdict, keep);
    } catch (const Error&) {  // of no file, so without a place
    }
  }
  return 0;
}
