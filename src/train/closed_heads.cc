// Names closed heads in a config, and copies what stays as it is.
#include "train/closed_heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "train/stored_tensors.h"

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

void copy_alike(std::span<const StoredTensor> from, std::span<const StoredTensor> to) {
  std::map<std::string_view, const StoredTensor*> known;
  for (const StoredTensor& tensor : from) known[tensor.name] = &tensor;
  for (const StoredTensor& tensor : to) {
    const auto same = known.find(tensor.name);
    if (same == known.end() || same->second->shape != tensor.shape) continue;
    scatter(gather(*same->second, Which::values), tensor);
  }
}

}  // namespace headwise
