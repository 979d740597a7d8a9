// A study as the text of summary.json.
#include <cmath>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "headwise/core/parallel.h"
#include "headwise/io/json_text.h"
#include "headwise/kernels/simd.h"
#include "headwise/study/study.h"
#include "report/page.h"

namespace headwise {
namespace {

using Json = nlohmann::ordered_json;

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[32] = "";
  if (const std::tm* utc = std::gmtime(&now)) std::strftime(text, sizeof text, "%Y-%m-%d", utc);
  return text;
}

Json json_of_counts(const BeforeAfter& numbers) {
  return {{"before", std::llround(numbers.before)}, {"after", std::llround(numbers.after)}};
}

Json json_of(const Savings& savings) {
  Json json = {{"heads", json_of_counts(savings.heads)},
               {"parameters", json_of_counts(savings.parameters)},
               {"multiply_adds", json_of_counts(savings.multiply_adds)}};
  if (savings.bytes) json["bytes"] = json_of_counts(*savings.bytes);
  if (const auto& speed = savings.speed) {
    json["seconds"] = {{"before", speed->before},
                       {"after", speed->after},
                       {"before_low", speed->before_interval.low},
                       {"before_high", speed->before_interval.high},
                       {"after_low", speed->after_interval.low},
                       {"after_high", speed->after_interval.high},
                       {"texts", speed->texts},
                       {"tokens", speed->tokens}};
  }
  json["most"] = {{"parameters", savings.most_parameters},
                  {"multiply_adds", savings.most_multiply_adds}};
  if (savings.long_tokens > 0) {
    json["most"]["multiply_adds_long"] = savings.most_multiply_adds_long;
    json["most"]["long_tokens"] = savings.long_tokens;
  }
  return json;
}

}  // namespace

std::string to_json(const Study& study, const StudyOptions& options) {
  const Verdict& verdict = study.verdict;
  const StudyWords words = in_words(study);
  const RoleCounts roles = count_roles(verdict);
  std::map<std::string, int64_t> standings;
  for (const HeadVerdict& head : verdict.heads) {
    if (head.standing) ++standings[std::string(to_string(*head.standing))];
  }
  Json json = {{"schema", 1},
               {"model", verdict.model.name},
               {"architecture", verdict.model.architecture},
               {"sha256", verdict.model.sha256},
               {"heads", verdict.heads.size()},
               {"roles", roles.data},
               {"probe_roles", roles.probes},
               {"standings", standings},
               {"undecided",
                {{"heads", study.undecided.heads},
                 {"passes", study.undecided.passes},
                 {"passes_half", study.undecided.passes_half}}},
               {"clusters", verdict.clusters},
               {"dropped", study.plan.drop},
               {"attention_share", study.savings.most_multiply_adds},
               {"supported", study.plan.supported},
               {"reasons", study.plan.reasons},
               {"help", words.help},
               {"held_out", Json::parse(to_json(study.plan.held_out.value_or(HeldOut{})))},
               {"savings", json_of(study.savings)},
               {"words",
                {{"support", words.support},
                 {"importance", words.importance},
                 {"cost", words.cost},
                 {"meaning", words.meaning},
                 {"comparison", words.comparison},
                 {"savings", words.savings},
                 {"limit", words.limit},
                 {"pays", words.pays}}},
               {"stages", Json::array()},
               {"passes", {{"spent", study.passes()}, {"pass_seconds", study.pass_seconds}}},
               {"seconds", study.seconds()},
               {"made",
                {{"command", options.command},
                 {"version", program_version()},
                 {"seed", options.seed},
                 {"threads", threads()},
                 {"simd", simd_target()},
                 {"date", today()}}}};
  if (study.prune) json["prune"] = Json::parse(to_json(*study.prune));
  if (study.budget > 0) json["passes"]["budget"] = study.budget;
  for (const StudyStage& stage : study.stages) {
    json["stages"].push_back(
        {{"name", stage.name}, {"seconds", stage.seconds}, {"passes", stage.passes}});
  }
  return json_text(json, 2);
}

}  // namespace headwise
