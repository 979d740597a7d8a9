// Any evidence is understood or refused by name. What is understood is written and read again as
// the same text, has the heads that another parser finds, and can be judged.
#include "headwise/observe/evidence.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fuzz.h"
#include "headwise/judge/judge.h"
#include "json_mutator.h"

namespace headwise {
namespace {

using fuzz::must;

void check_heads(const Evidence& evidence, std::string_view text) {
  const nlohmann::json heads = nlohmann::json::parse(text).at("heads");
  must(heads.size() == evidence.heads.size(), "other heads than another parser finds");
  for (size_t i = 0; i < heads.size(); ++i) {
    must(heads[i].at("head") == evidence.heads[i].head, "another head than another parser finds");
    must(heads[i].at("rows") == evidence.heads[i].rows, "other rows than another parser finds");
  }
}

void check_verdict(const Verdict& verdict, size_t heads) {
  must(verdict.heads.size() == heads, "a verdict about other heads");
  const std::string text = to_json(verdict);
  must(to_json(verdict_from_json(text, "verdict.json")) == text, "a verdict changes");
}

}  // namespace
}  // namespace headwise

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headwise;
  const auto text = fuzz::text(data, size);
  Evidence evidence;
  if (!fuzz::succeeds([&] { evidence = evidence_from_json(text, "evidence.json"); })) return 0;
  check_heads(evidence, text);
  const std::string written = to_json(evidence);
  fuzz::must(to_json(evidence_from_json(written, "again.json")) == written, "evidence changes");
  const std::string table = to_csv(evidence);
  fuzz::must(std::ranges::count(table, '\n') > std::ssize(evidence.heads),
             "a table without all heads");
  fuzz::succeeds([&] { check_verdict(judge(evidence), evidence.heads.size()); });
  return 0;
}
