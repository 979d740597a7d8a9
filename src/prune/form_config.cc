// Which fields say how many heads there are, and which class of transformers loads them.
#include "prune/form_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "headwise/core/error.h"
#include "model/config_families.h"
#include "model/config_heads.h"
#include "model/head_tensors.h"
#include "model/pruned_config.h"
#include "prune/modeling_headwise.h"

namespace headwise {
namespace {

using Json = nlohmann::ordered_json;

/// The class of transformers that finds a model by what it is for.
std::string auto_class(std::string_view ending) {
  static const std::map<std::string_view, std::string_view> kOthers = {
      {"Model", "AutoModel"},
      {"LMHeadModel", "AutoModelForCausalLM"},
      {"MTModel", "AutoModelForSeq2SeqLM"},
      {"ForConditionalGeneration", "AutoModelForSeq2SeqLM"}};
  const auto found = kOthers.find(ending);
  return found != kOthers.end() ? std::string(found->second) : fmt::format("AutoModel{}", ending);
}

Json auto_map(const ModelConfig& config) {
  const Family& family = families().at(config.model_type);
  const std::string_view module = kModelingFile.substr(0, kModelingFile.find('.'));
  const auto entry = [&](std::string_view ending) {
    return fmt::format("{}.{}{}", module, family.name, ending);
  };
  if (config.architecture == "T5EncoderModel") return {{"AutoModel", entry("EncoderModel")}};
  // The table of a family has both names of causal language models.
  const std::string_view other = config.model_type == "gpt2" ? "ForCausalLM" : "LMHeadModel";
  Json map = Json::object();
  for (const auto& [ending, task] : family.classes) {
    if (ending != other && ending != "EncoderModel") map[auto_class(ending)] = entry(ending);
  }
  return map;
}

[[noreturn]] void refuse(const ModelConfig& config, std::string got, std::string expected) {
  throw Error({.what = "the uniform form cannot hold this model",
               .where = config.model_type,
               .got = std::move(got),
               .expected = std::move(expected),
               .hint = "the compact form can"});
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

/// Throws Error unless all attentions have as many heads, in equal groups one after the other.
void check_even(const ModelConfig& config, std::span<const AttentionSite> sites) {
  const AttentionSite& first = sites.front();
  if (first.heads.empty()) refuse(config, "no heads are left", "at least one in each layer");
  for (const AttentionSite& site : sites) {
    if (site.heads.size() != first.heads.size() || site.kv_heads != first.kv_heads) {
      refuse(
          config,
          fmt::format("{} heads ({} of keys and values) in {}, {} ({}) in {}", first.heads.size(),
                      first.kv_heads, first.name, site.heads.size(), site.kv_heads, site.name),
          "as many heads in each layer");
    }
    const AttentionConfig& attention = attention_at(config, site);
    const int64_t group = std::ssize(attention.heads) / std::ssize(attention.kv_heads);
    for (int64_t h = 0; h < std::ssize(attention.heads); ++h) {
      if (attention.kv_head[h] == h / group) continue;
      refuse(config, fmt::format("groups of unequal size in {}", site.name),
             "as many query heads for each key/value head");
    }
  }
}

/// A table of relative biases belongs to all layers of a stack.
void check_same_heads(const ModelConfig& config, std::span<const AttentionSite> sites) {
  std::map<Side, const AttentionSite*> firsts;
  for (const AttentionSite& site : sites) {
    if (site.kind == AttentionKind::cross) continue;
    const AttentionSite& first = *firsts.try_emplace(site.side, &site).first->second;
    if (first.heads == site.heads) continue;
    refuse(config, fmt::format("other heads in {} than in {}", site.name, first.name),
           "the same heads in each layer, which share a table of biases");
  }
}

/// Mistral is Llama with heads of any width.
void write_as_mistral(Json& json, const ModelConfig& config) {
  if (config.projection_bias || config.output_bias || config.feed_forward_bias) {
    refuse(config, "biases, which Mistral has not", "a Llama without biases");
  }
  for (const char* field : {"attention_bias", "mlp_bias", "pretraining_tp"}) json.erase(field);
  json["model_type"] = "mistral";
  json["sliding_window"] = nullptr;
  for (Json& name : json["architectures"]) {
    std::string text = name.get<std::string>();
    if (text.starts_with("Llama")) name = "Mistral" + text.substr(5);
  }
}

}  // namespace

std::string compact_config(const std::string& config_json, const ModelConfig& config,
                           std::span<const AttentionSite> sites, std::span<const float> gates) {
  Json json = parse_with_map(config_without_closed(config_json, sites, gates));
  const bool known = !json["model_type"].get<std::string>().starts_with(kHeadwisePrefix);
  if (json.contains("pruned_heads") && !json["pruned_heads"].empty() && known) {
    const Json map = auto_map(config);
    for (const auto& [name, entry] : map.items()) json["auto_map"][name] = entry;
  }
  return json.dump(2) + "\n";
}

bool needs_modeling(const std::string& config_json) {
  const Json json = Json::parse(config_json);
  const std::string_view module = kModelingFile.substr(0, kModelingFile.find('.') + 1);
  return json.contains("auto_map") && json["auto_map"].dump().find(module) != std::string::npos;
}

std::string uniform_config(const std::string& compact_json, const ModelConfig& compact) {
  static const std::set<std::string_view> kOwnWidth = {"llama", "mistral", "qwen2",
                                                       "qwen3", "smollm3", "t5"};
  Json json = parse_with_map(compact_json);
  if (!kOwnWidth.contains(compact.model_type) || json.contains("headwise")) {
    refuse(compact, "an architecture whose heads have no width of their own",
           fmt::format("one of {}", fmt::join(kOwnWidth, ", ")));
  }
  const std::vector<AttentionSite> sites = attention_sites(compact);
  check_even(compact, sites);
  const AttentionSite& first = sites.front();
  if (compact.relative.buckets > 0) {
    check_same_heads(compact, sites);
    json["num_heads"] = first.heads.size();
  } else {
    json["num_attention_heads"] = first.heads.size();
    json["num_key_value_heads"] = first.kv_heads;
    json["head_dim"] = first.head_dim;
  }
  if (compact.model_type == "llama") write_as_mistral(json, compact);
  json.erase("pruned_heads");
  if (json.contains("auto_map")) {
    const Json ours = auto_map(compact);
    for (const auto& [name, entry] : ours.items()) json["auto_map"].erase(name);
    if (json["auto_map"].empty()) json.erase("auto_map");
  }
  return json.dump(2) + "\n";
}

}  // namespace headwise
