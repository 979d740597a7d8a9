// Names pruned heads as transformers 4 does, or by attention.
#include "model/pruned_config.h"

#include <nlohmann/json.hpp>
#include <set>

namespace headwise {

std::string config_without_closed(const std::string& config_json,
                                  std::span<const AttentionSite> sites,
                                  std::span<const float> gates) {
  auto json = nlohmann::ordered_json::parse(config_json);
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
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
  return json.dump(2) + "\n";
}

}  // namespace headwise
