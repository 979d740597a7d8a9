// verdict.json of an experiment.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "headwise/core/error.h"
#include "headwise/experiment/experiment.h"
#include "headwise/io/json.h"
#include "headwise/io/json_text.h"

namespace headwise {
namespace {

using Json = nlohmann::ordered_json;

/// With six digits: the last bits of a sum depend on the compiler.
Json rounded(double value) {
  if (!std::isfinite(value)) return nullptr;
  return Json::parse(fmt::format("{:.6g}", value));
}

void add_interval(const std::optional<ConfidenceInterval>& interval, Json& to) {
  if (!interval) return;
  to["low"] = rounded(interval->low);
  to["high"] = rounded(interval->high);
}

std::optional<ConfidenceInterval> interval_of(const JsonObject& json) {
  if (!json.has("low") || !json.has("high")) return std::nullopt;
  return ConfidenceInterval{json.number("low"), json.number("high")};
}

ClaimOutcome outcome_of(const JsonObject& json) {
  for (const ClaimOutcome outcome : {ClaimOutcome::confirmed, ClaimOutcome::refuted,
                                     ClaimOutcome::depends, ClaimOutcome::not_decided}) {
    if (json.text("verdict") == to_string(outcome)) return outcome;
  }
  json.refuse("verdict", "the verdict is not known",
              "confirmed, refuted, depends or not decided here");
}

}  // namespace

std::string to_json(const ClaimVerdict& verdict) {
  Json json = {{"experiment", verdict.experiment}, {"verdict", to_string(verdict.outcome)}};
  if (!verdict.depends_on.empty()) json["depends_on"] = verdict.depends_on;
  if (verdict.quick) json["quick"] = true;
  json["why"] = verdict.why;
  if (verdict.figure) {
    json["figure"] = {{"name", verdict.figure_name}, {"value", rounded(*verdict.figure)}};
    add_interval(verdict.interval, json["figure"]);
    json["figure"]["n"] = verdict.n;
  }
  json["family"] = Json::array();
  for (const ClaimTest& test : verdict.family) {
    Json& one =
        json["family"].emplace_back(Json{{"test", test.name}, {"figure", rounded(test.figure)}});
    add_interval(test.interval, one);
    one["n"] = test.n;
    one["p"] = rounded(test.p);
    one["p_holm"] = rounded(test.p_holm);
  }
  json["run"] = {{"trials", verdict.trials},
                 {"left", verdict.left},
                 {"seconds", rounded(verdict.seconds)},
                 {"seed", verdict.seed},
                 {"machine", verdict.machine},
                 {"started", verdict.started},
                 {"version", verdict.version},
                 {"used", verdict.used}};
  return json_text(json, 1);
}

ClaimVerdict claim_verdict_from_json(std::string_view text, const std::string& where) {
  const nlohmann::json document = parse_json(text, where);
  const JsonObject json(document, where);
  const JsonObject run = json.object("run");
  ClaimVerdict verdict{.experiment = json.text("experiment"),
                       .outcome = outcome_of(json),
                       .depends_on = json.optional_text("depends_on").value_or(""),
                       .why = json.text("why"),
                       .quick = json.optional_boolean("quick").value_or(false),
                       .trials = run.integer("trials"),
                       .left = run.integer("left"),
                       .seconds = run.number("seconds"),
                       .seed = static_cast<uint64_t>(run.integer("seed")),
                       .machine = run.text("machine"),
                       .started = run.text("started"),
                       .version = run.text("version"),
                       .used = run.texts("used")};
  if (const auto figure = json.optional_object("figure")) {
    verdict.figure_name = figure->text("name");
    verdict.figure = figure->optional_number("value");
    verdict.interval = interval_of(*figure);
    verdict.n = figure->integer("n");
  }
  for (const JsonObject& test : json.objects("family")) {
    verdict.family.push_back({.name = test.text("test"),
                              .figure = test.optional_number("figure").value_or(NAN),
                              .interval = interval_of(test),
                              .n = test.integer("n"),
                              .p = test.number("p"),
                              .p_holm = test.number("p_holm")});
  }
  return verdict;
}

}  // namespace headwise
