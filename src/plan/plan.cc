// A plan as the text of plan.json, and back.
#include "headwise/plan/plan.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "headwise/io/json.h"
#include "headwise/io/json_text.h"
#include "io/stage_file.h"
#include "plan/held_out_json.h"

namespace headwise {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kSchema = 1;

void refuse_repeated(const JsonObject& root, const Plan& plan) {
  std::set<std::string> seen;
  for (const auto& [field, heads] :
       {std::pair("drop", &plan.drop), std::pair("keep", &plan.keep)}) {
    for (const std::string& head : *heads) {
      if (seen.insert(head).second) continue;
      root.refuse(field, fmt::format("{} is named twice", quote(head)),
                  "every head once, in keep or in drop");
    }
  }
}

}  // namespace

std::string to_json(const Plan& plan) {
  Json json = {{"schema", kSchema},   {"keep", plan.keep},           {"drop", plan.drop},
               {"order", plan.order}, {"supported", plan.supported}, {"reasons", plan.reasons}};
  if (plan.held_out) json["held_out"] = Json::parse(to_json(*plan.held_out));
  if (!plan.task.empty()) json["task"] = plan.task;
  json["expected"] = plan.expected;
  json["curves"] = Json::object();
  for (const auto& [order, points] : plan.curves) {
    Json& curve = json["curves"][order] = Json::array();
    for (const CurvePoint& point : points) {
      Json entry = {{"removed", point.removed}, {"loss", point.loss}};
      if (point.score) entry["score"] = *point.score;
      curve.push_back(std::move(entry));
    }
  }
  return json_text(json);
}

Plan plan_from_json(std::string_view text, const std::string& where) {
  const nlohmann::json json = parse_json(text, where);
  const JsonObject root(json, where);
  if (const auto schema = root.optional_integer("schema"); schema && *schema != kSchema) {
    root.refuse("schema", "the plan is of another version", fmt::format("{}", kSchema),
                "make the plan again with this program");
  }
  Plan plan{.drop = root.texts("drop"),
            .order = root.optional_text("order").value_or(""),
            .task = root.optional_text("task").value_or("")};
  if (root.has("keep")) plan.keep = root.texts("keep");
  if (root.has("reasons")) plan.reasons = root.texts("reasons");
  plan.supported = plan.reasons.empty();
  if (root.has("held_out")) plan.held_out = held_out_from(root.object("held_out"));
  refuse_repeated(root, plan);
  if (const auto expected = root.optional_object("expected")) {
    for (const std::string& name : expected->names()) plan.expected[name] = expected->number(name);
  }
  if (const auto curves = root.optional_object("curves")) {
    for (const std::string& order : curves->names()) {
      std::vector<CurvePoint>& points = plan.curves[order];
      for (const JsonObject& point : curves->objects(order)) {
        points.push_back({.removed = point.integer("removed"),
                          .loss = point.number("loss"),
                          .score = point.optional_number("score")});
      }
    }
  }
  return plan;
}

Plan read_plan(const std::filesystem::path& file) {
  Plan plan;
  read_stage_file(Stage::plan, file, [&](std::string_view text, const std::string& where) {
    plan = plan_from_json(text, where);
  });
  return plan;
}

}  // namespace headwise
