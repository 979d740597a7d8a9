// Verdicts that tests of plans are made from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headwise/core/random.h"
#include "headwise/judge/verdict.h"
#include "headwise/model/model.h"

namespace headwise {

/// Heads of these names, about which nothing is known.
inline Verdict verdict_of(const std::vector<std::string>& heads) {
  Verdict verdict;
  for (const std::string& head : heads) verdict.heads.push_back({.head = head});
  return verdict;
}

inline std::vector<std::string> head_names(std::span<const AttentionSite> sites) {
  std::vector<std::string> names;
  for (const AttentionSite& site : sites) {
    for (int64_t h = 0; h < std::ssize(site.heads); ++h) names.push_back(site.head_name(h));
  }
  return names;
}

/// L0.H0 to L(layers-1).H(heads-1).
inline std::vector<std::string> grid_names(int64_t layers, int64_t heads) {
  std::vector<std::string> names;
  for (int64_t l = 0; l < layers; ++l) {
    for (int64_t h = 0; h < heads; ++h) {
      names.push_back("L" + std::to_string(l) + ".H" + std::to_string(h));
    }
  }
  return names;
}

/// Importance, roles and clusters by chance.
inline Verdict random_verdict(const std::vector<std::string>& heads, uint64_t seed) {
  Random random(seed);
  Verdict verdict = verdict_of(heads);
  verdict.loss_task = "lm";
  for (HeadVerdict& head : verdict.heads) {
    head.importance = {.gradient = random.uniform(), .entropy = 3 * random.uniform()};
    head.importance.ablation_zero = Measure{.value = random.normal()};
    if (random.below(4) == 0) head.roles.push_back({.role = "previous"});
    if (random.below(5) == 0) head.roles.push_back({.role = "delimiter"});
    if (random.below(3) > 0) continue;
    if (verdict.clusters.empty() || random.below(2) == 0) verdict.clusters.emplace_back();
    verdict.clusters.back().push_back(head.head);
  }
  std::erase_if(verdict.clusters, [](const Cluster& cluster) { return cluster.size() < 2; });
  return verdict;
}

}  // namespace headwise
