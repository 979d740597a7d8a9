// Verdicts in memory, and as the text of verdict.json.
#include "headwise/judge/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/io/json.h"
#include "headwise/io/json_text.h"
#include "headwise/judge/judge.h"
#include "headwise/model/model.h"
#include "io/stage_file.h"

namespace headwise {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kSchema = 1;

/// `value` is the name of the number itself.
Json json_of(const Measure& measure, const char* value = "value") {
  Json json = {{value, measure.value}};
  if (measure.baseline) json["baseline"] = *measure.baseline;
  if (measure.interval) {
    json["low"] = measure.interval->low;
    json["high"] = measure.interval->high;
  }
  json["n"] = measure.n;
  return json;
}

Json json_of(const Role& role) {
  Json json = {{"role", role.role}};
  if (!role.detail.empty()) json["detail"] = role.detail;
  json.update(json_of(role.shown, "score"));
  json["source"] = to_string(role.source);
  return json;
}

Json json_of(const Importance& importance) {
  Json json = Json::object();
  if (importance.gradient) json["gradient"] = *importance.gradient;
  if (importance.ablation_zero) json["ablation_zero"] = json_of(*importance.ablation_zero);
  if (importance.ablation_mean) json["ablation_mean"] = json_of(*importance.ablation_mean);
  if (importance.entropy) json["entropy"] = *importance.entropy;
  if (importance.confidence) json["confidence"] = *importance.confidence;
  return json;
}

Json json_of(const Verdict& verdict, const HeadVerdict& head) {
  Json json = {{"head", head.head}, {"roles", Json::array()}};
  for (const Role& role : head.roles) json["roles"].push_back(json_of(role));
  json["importance"] = json_of(head.importance);
  if (head.standing) json["standing"] = to_string(*head.standing);
  json["redundant_with"] = head.redundant_with;
  json["backups"] = head.backups;
  json["words"] = explain(verdict, head.head);
  return json;
}

Json json_of(const Category& category) {
  Json json = {{"role", category.role}, {"heads", category.heads}};
  if (category.measured) {
    json["measured"] = Json::object();
    for (const auto& [name, measure] : *category.measured) {
      json["measured"][name] = json_of(measure);
    }
  }
  return json;
}

Json json_of(const LayerVerdict& layer) {
  Json json = {{"layer", layer.layer}, {"roles", layer.roles}};
  if (layer.importance) json["importance"] = *layer.importance;
  if (layer.ablated) json["closed"] = json_of(*layer.ablated);
  json["redundant"] = layer.redundant;
  json["advice"] = layer.advice;
  return json;
}

class VerdictReader {
 public:
  VerdictReader(const nlohmann::json& json, const std::string& where) : root_(json, where) {}

  Verdict read() {
    if (const int64_t schema = root_.integer("schema"); schema != kSchema) {
      root_.refuse("schema", "the verdict is of another version", fmt::format("{}", kSchema),
                   "judge the evidence again with this program");
    }
    Verdict verdict;
    const JsonObject model = root_.object("model");
    verdict.model = {.name = model.text("name"),
                     .architecture = model.text("architecture"),
                     .sha256 = model.text("sha256")};
    if (const auto loss = root_.optional_object("loss")) {
      verdict.loss_task = loss->text("task");
      verdict.loss = loss->number("value");
    }
    verdict.tolerance = root_.number("tolerance");
    const JsonObject thresholds = root_.object("thresholds");
    for (const std::string& name : thresholds.names()) {
      verdict.thresholds[name] = thresholds.number(name);
    }
    if (root_.has("measured")) verdict.measured = root_.texts("measured");
    if (root_.has("warnings")) verdict.warnings = root_.texts("warnings");
    for (const JsonObject& head : root_.objects("heads")) {
      verdict.heads.push_back(read_head(head));
      if (!known_.insert(verdict.heads.back().head).second) {
        head.refuse("head", "a head is there twice", "each head once");
      }
    }
    for (const JsonObject& head : root_.objects("heads")) {
      check(head, "redundant_with");
      check(head, "backups");
    }
    verdict.clusters = read_clusters();
    for (const JsonObject& category : root_.objects("categories")) {
      verdict.categories.push_back(read_category(category));
    }
    for (const JsonObject& layer : root_.objects("layers")) {
      verdict.layers.push_back(read_layer(layer));
    }
    if (const auto rankings = root_.optional_object("rankings")) {
      for (const std::string& name : rankings->names()) {
        verdict.rankings[name] = check(*rankings, name);
      }
    }
    if (const auto correlation = root_.optional_object("correlation")) {
      for (const std::string& name : correlation->names()) {
        const JsonObject row = correlation->object(name);
        for (const std::string& other : row.names()) {
          verdict.correlation[name][other] = row.number(other);
        }
      }
    }
    return verdict;
  }

 private:
  static Measure read_measure(const JsonObject& json, const char* value = "value") {
    Measure measure{.value = json.number(value),
                    .n = json.integer("n"),
                    .baseline = json.optional_number("baseline")};
    if (json.has("low")) measure.interval = {json.number("low"), json.number("high")};
    return measure;
  }

  static std::optional<Measure> optional_measure(const JsonObject& json, const char* name) {
    const auto found = json.optional_object(name);
    return found ? std::optional(read_measure(*found)) : std::nullopt;
  }

  static RoleSource read_source(const JsonObject& json) {
    const std::string source = json.optional_text("source").value_or("data");
    for (const RoleSource known : {RoleSource::data, RoleSource::probes}) {
      if (source == to_string(known)) return known;
    }
    json.refuse("source", "there is no such source of a role", "data or probes");
  }

  static Role read_role(const JsonObject& json) {
    const std::string& name = json.text("role");
    if (std::ranges::find(role_kinds(), name, &RoleKind::name) == role_kinds().end()) {
      json.refuse("role", "there is no such role", "a role that headwise judge --roles lists");
    }
    return {.role = name,
            .detail = json.optional_text("detail").value_or(""),
            .shown = read_measure(json, "score"),
            .source = read_source(json)};
  }

  static HeadVerdict read_head(const JsonObject& json) {
    HeadVerdict head{.head = json.text("head")};
    for (const JsonObject& role : json.objects("roles")) head.roles.push_back(read_role(role));
    const JsonObject importance = json.object("importance");
    head.importance = {.gradient = importance.optional_number("gradient"),
                       .entropy = importance.optional_number("entropy"),
                       .confidence = importance.optional_number("confidence"),
                       .ablation_zero = optional_measure(importance, "ablation_zero"),
                       .ablation_mean = optional_measure(importance, "ablation_mean")};
    if (json.has("standing")) head.standing = read_standing(json);
    head.redundant_with = json.texts("redundant_with");
    if (json.has("backups")) head.backups = json.texts("backups");
    return head;
  }

  static Standing read_standing(const JsonObject& json) {
    for (const Standing standing :
         {Standing::essential, Standing::harmful, Standing::replaceable, Standing::undecided}) {
      if (json.text("standing") == to_string(standing)) return standing;
    }
    json.refuse("standing", "there is no such standing",
                "essential, harmful, replaceable or undecided");
  }

  /// A list of heads, if it is there; refused if one of them is none of the verdict.
  std::vector<std::string> check(const JsonObject& json, const std::string& name) const {
    if (!json.has(name)) return {};
    std::vector<std::string> heads = json.texts(name);
    const bool all =
        std::ranges::all_of(heads, [&](const std::string& head) { return known_.contains(head); });
    if (!all) json.refuse(name, "a head is none of the verdict", "heads under \"heads\"");
    return heads;
  }

  std::vector<Cluster> read_clusters() const {
    std::vector<Cluster> clusters;
    const nlohmann::json& lists = root_.value("clusters");
    const auto refuse = [&] {
      root_.refuse("clusters", "clusters are not lists of heads",
                   "lists of at least two heads under \"heads\"");
    };
    if (!lists.is_array()) refuse();
    for (const nlohmann::json& list : lists) {
      if (!list.is_array() || list.size() < 2) refuse();
      Cluster& cluster = clusters.emplace_back();
      for (const nlohmann::json& head : list) {
        if (!head.is_string() || !known_.contains(head.get<std::string>())) refuse();
        cluster.push_back(head.get<std::string>());
      }
    }
    return clusters;
  }

  Category read_category(const JsonObject& json) const {
    Category category{.role = json.text("role"), .heads = check(json, "heads")};
    if (const auto measured = json.optional_object("measured")) {
      category.measured.emplace();
      for (const std::string& name : measured->names()) {
        category.measured->add(name, read_measure(measured->object(name)));
      }
    }
    return category;
  }

  static LayerVerdict read_layer(const JsonObject& json) {
    LayerVerdict layer{.layer = json.text("layer"),
                       .importance = json.optional_number("importance"),
                       .ablated = optional_measure(json, "closed"),
                       .redundant = json.number("redundant"),
                       .advice = json.text("advice")};
    const JsonObject roles = json.object("roles");
    for (const std::string& name : roles.names()) layer.roles[name] = roles.integer(name);
    return layer;
  }

  JsonObject root_;
  std::set<std::string> known_;  // heads
};

}  // namespace

bool HeadVerdict::has(std::string_view role) const {
  return std::ranges::find(roles, role, &Role::role) != roles.end();
}

const HeadVerdict& Verdict::head(std::string_view name) const {
  const auto at = std::ranges::find(heads, name, &HeadVerdict::head);
  if (at != heads.end()) return *at;
  throw Error({.what = "the verdict has no such head",
               .got = std::string(name),
               .expected = heads.empty()
                               ? ""
                               : fmt::format("{} to {}", heads.front().head, heads.back().head)});
}

const Role* HeadVerdict::main_role() const {
  if (roles.empty()) return nullptr;
  const auto on_data = std::ranges::find(roles, RoleSource::data, &Role::source);
  return on_data != roles.end() ? &*on_data : &roles.front();
}

std::vector<RelationHead> best_relation_heads(const Verdict& verdict) {
  const auto above = [](const Measure& shown) {
    return (shown.interval ? shown.interval->low : shown.value) - shown.baseline.value_or(0);
  };
  std::map<std::string, RelationHead> best;
  for (const HeadVerdict& head : verdict.heads) {
    for (const Role& role : head.roles) {
      if (role.role != "relation" || role.source != RoleSource::data) continue;
      RelationHead& one = best[role.detail];
      if (one.head.empty() || above(role.shown) > above(one.shown)) {
        one = {.relation = role.detail, .head = head.head, .shown = role.shown};
      }
    }
  }
  std::vector<RelationHead> sorted;
  for (auto& [relation, one] : best) sorted.push_back(std::move(one));
  std::ranges::stable_sort(sorted, std::ranges::greater(),
                           [&](const RelationHead& one) { return above(one.shown); });
  return sorted;
}

RoleCounts count_roles(const Verdict& verdict) {
  RoleCounts counts;
  for (const HeadVerdict& head : verdict.heads) {
    std::set<std::string> data, probes;  // a head may have a role for several relations
    for (const Role& role : head.roles) {
      if (role_kind(role.role).measured_by.empty()) continue;
      (role.source == RoleSource::data ? data : probes).insert(role.role);
    }
    for (const std::string& role : data) ++counts.data[role];
    for (const std::string& role : probes) {
      if (!data.contains(role)) ++counts.probes[role];
    }
    if (data.empty() && probes.empty()) continue;
    const Role& main = *head.main_role();
    ++(main.source == RoleSource::data ? counts.main_data : counts.main_probes)[main.role];
  }
  return counts;
}

std::string_view to_string(RoleSource source) {
  return source == RoleSource::probes ? "probes" : "data";
}

std::string to_json(const Verdict& verdict) {
  Json json = {{"schema", kSchema},
               {"model",
                {{"name", verdict.model.name},
                 {"architecture", verdict.model.architecture},
                 {"sha256", verdict.model.sha256}}}};
  if (!verdict.loss_task.empty()) {
    json["loss"] = {{"task", verdict.loss_task}, {"value", verdict.loss}};
  }
  json["tolerance"] = verdict.tolerance;
  json["thresholds"] = verdict.thresholds;
  json["measured"] = verdict.measured;
  json["warnings"] = verdict.warnings;
  for (const char* list : {"heads", "clusters", "categories", "layers"}) json[list] = Json::array();
  for (const HeadVerdict& head : verdict.heads) json["heads"].push_back(json_of(verdict, head));
  for (const Cluster& cluster : verdict.clusters) json["clusters"].push_back(cluster);
  for (const Category& category : verdict.categories) {
    json["categories"].push_back(json_of(category));
  }
  for (const LayerVerdict& layer : verdict.layers) json["layers"].push_back(json_of(layer));
  json["rankings"] = verdict.rankings;
  json["correlation"] = verdict.correlation;
  return json_text(json);
}

Verdict verdict_from_json(std::string_view text, const std::string& where) {
  const nlohmann::json json = parse_json(text, where);
  return VerdictReader(json, where).read();
}

Verdict read_verdict(const std::filesystem::path& file) {
  Verdict verdict;
  read_stage_file(Stage::verdict, file, [&](std::string_view text, const std::string& where) {
    verdict = verdict_from_json(text, where);
  });
  return verdict;
}

void check_fits(const Verdict& verdict, const Model& model, const std::string& where,
                const std::function<void()>& check) {
  if (verdict.model.sha256 == model.hash(check)) return;
  throw Error({.what = "the verdict is about another model",
               .where = where,
               .got = verdict.model.name,
               .expected = fmt::format("{}, with the same weights", model.name()),
               .hint = "headwise observe and judge make one of this model"});
}

}  // namespace headwise
