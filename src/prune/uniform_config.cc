// Which fields say how many heads each layer has.
#include "prune/uniform_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/core/error.h"
#include "headwise/io/json_text.h"
#include "model/compact_config.h"
#include "model/families/family.h"
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

}  // namespace

std::string uniform_config(const std::string& compact_json, const ModelConfig& compact) {
  Json json = Json::parse(without_modeling(compact_json));
  const Family& family = family_of(compact);
  if (family.write_uniform == nullptr || json.contains("headwise")) {
    std::vector<std::string_view> able;
    for (const Family& other : families()) {
      if (other.write_uniform != nullptr) able.push_back(other.type);
    }
    refuse(compact, "an architecture whose heads have no width of their own",
           fmt::format("one of {}", fmt::join(able, ", ")));
  }
  const std::vector<AttentionSite> sites = attention_sites(compact);
  check_even(compact, sites);
  const AttentionSite& first = sites.front();
  if (compact.relative.buckets > 0) check_same_heads(compact, sites);
  family.write_uniform(json, compact, {std::ssize(first.heads), first.kv_heads, first.head_dim});
  json.erase("pruned_heads");
  return json_text(json, 2);
}

}  // namespace headwise
