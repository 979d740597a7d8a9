// Which fields say how many heads each layer has.
#include "prune/uniform_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "headwise/core/error.h"
#include "model/compact_config.h"
#include "model/head_tensors.h"

namespace headwise {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(const ModelConfig& config, std::string got, std::string expected) {
  throw Error({.what = "the uniform form cannot hold this model",
               .where = config.model_type,
               .got = std::move(got),
               .expected = std::move(expected),
               .hint = "the compact form can"});
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

std::string uniform_config(const std::string& compact_json, const ModelConfig& compact) {
  static const std::set<std::string_view> kOwnWidth = {"llama", "mistral", "qwen2",
                                                       "qwen3", "smollm3", "t5"};
  Json json = Json::parse(without_modeling(compact_json));
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
  return json.dump(2) + "\n";
}

}  // namespace headwise
