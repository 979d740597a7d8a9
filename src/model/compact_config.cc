// Which heads are gone, and which class of transformers loads what is left.
#include "model/compact_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <vector>

#include "headwise/core/error.h"
#include "headwise/io/json_text.h"
#include "io/file.h"
#include "model/config_heads.h"
#include "model/families/family.h"
#include "model/modeling_headwise.h"

namespace headwise {
namespace {

using Json = nlohmann::ordered_json;

/// What names of its classes begin with.
constexpr std::string_view kModule = kModelingFile.substr(0, kModelingFile.find('.') + 1);

bool is_ours(const Json& entry) {
  return entry.is_string() && entry.get_ref<const std::string&>().starts_with(kModule);
}

/// The class of transformers that finds a model by what it is for.
std::string auto_class_of(const ModelClass& named) {
  switch (named.task) {
    case Task::hidden:
      return "AutoModel";
    case Task::causal_lm:
      return "AutoModelForCausalLM";
    case Task::seq2seq_lm:
      return "AutoModelForSeq2SeqLM";
    default:
      return fmt::format("AutoModel{}", named.ending);
  }
}

/// The classes of a model with or without its decoder, in alphabetical order.
Json auto_map(const ModelConfig& config) {
  const Family& family = family_of(config);
  std::vector<ModelClass> classes = family.classes;
  std::ranges::sort(classes, {}, &ModelClass::ending);
  Json map = Json::object();
  for (const ModelClass& named : classes) {
    if (named.encoder_only != is_encoder_only(config)) continue;
    map[auto_class_of(named)] = fmt::format("{}{}{}", kModule, family.name, named.ending);
  }
  return map;
}

/// The config as it is changed; its "auto_map", if any, is an object.
Json parse_with_map(const std::string& text) {
  Json json = Json::parse(text);
  const auto map = json.find("auto_map");
  if (map == json.end() || map->is_object()) return json;
  if (!map->is_null()) {
    throw Error({.what = "the classes that load a model are no object",
                 .where = "config.json: auto_map",
                 .got = map->dump().substr(0, 100),
                 .expected = R"(an object such as {"AutoModel": "modeling.Model"})"});
  }
  json.erase(map);
  return json;
}

/// The config with the heads whose gate is 0 among its "pruned_heads": named as transformers 4
/// does, or by attention.
void name_closed(Json& json, std::span<const AttentionSite> sites, std::span<const float> gates) {
  Json all = Json::object();
  for (const AttentionSite& site : sites) {
    std::set<int64_t> pruned;
    const std::string number = site.name.starts_with('L') ? site.name.substr(1) : site.name;
    for (const std::string& spelling : {site.name, number}) {
      if (!json.contains("pruned_heads") || !json["pruned_heads"].contains(spelling)) continue;
      for (const auto& head : json["pruned_heads"][spelling]) pruned.insert(head.get<int64_t>());
    }
    for (size_t h = 0; h < site.heads.size(); ++h) {
      if (gates[site.first + h] == 0) pruned.insert(site.heads[h]);
    }
    if (!pruned.empty()) all[number] = pruned;
  }
  if (!all.empty()) json["pruned_heads"] = all;
}

}  // namespace

std::string compact_config(const std::string& config_json, const ModelConfig& config,
                           std::span<const AttentionSite> sites, std::span<const float> gates) {
  Json json = parse_with_map(config_json);
  name_closed(json, sites, gates);
  const bool known = !json["model_type"].get<std::string>().starts_with(kHeadwisePrefix);
  if (json.contains("pruned_heads") && !json["pruned_heads"].empty() && known) {
    const Json map = auto_map(config);
    for (const auto& [name, entry] : map.items()) json["auto_map"][name] = entry;
  }
  return json_text(json, 2);
}

std::string auto_class(const std::string& config_json) {
  const Json json = Json::parse(config_json);
  const auto type = json.at("model_type").get<std::string>();
  if (type.starts_with(kHeadwisePrefix)) return "";
  const Family& family = *find_family(type);
  const ModelClass* named = class_for(family, Task::hidden);
  if (const auto names = json.find("architectures"); names != json.end() && !names->empty()) {
    named = find_class(family, names->front().get<std::string>());
  }
  return auto_class_of(*named);
}

bool needs_modeling(const std::string& config_json) {
  const Json json = Json::parse(config_json);
  const auto map = json.find("auto_map");
  return map != json.end() && map->is_object() && std::ranges::any_of(*map, is_ours);
}

std::string without_modeling(const std::string& config_json) {
  Json json = Json::parse(config_json);
  if (json.contains("auto_map")) {
    Json others = Json::object();
    for (const auto& [name, entry] : json["auto_map"].items()) {
      if (!is_ours(entry)) others[name] = entry;
    }
    json["auto_map"] = others;
    if (others.empty()) json.erase("auto_map");
  }
  return json_text(json, 2);
}

void write_config(const std::string& config_json, const std::filesystem::path& folder) {
  if (needs_modeling(config_json)) write_file_whole(folder / kModelingFile, modeling_headwise());
  write_file_whole(folder / "config.json", config_json);
}

}  // namespace headwise
