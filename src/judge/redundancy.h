// Redundant heads, and heads that back each other up.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "headwise/judge/verdict.h"
#include "headwise/observe/evidence.h"

namespace headwise {

struct RedundancyLimits {
  double js = 0;       // at most
  double cka = 0;      // at least
  double synergy = 0;  // above it, a pair are backups
};

struct Redundancy {
  std::map<std::string, std::vector<std::string>> redundant{};  // by head, the nearest first
  std::map<std::string, std::vector<std::string>> backups{};    // by head, by synergy
  std::vector<Cluster> clusters{};
};

/// Redundant heads attend to the same tokens and write the same output. In a cluster every head is
/// redundant with every other (complete linkage, the nearest joined first); its representative is
/// the most important one by ablation_zero, else by gradient, else the one nearest to the others.
Redundancy find_redundancy(const Evidence& evidence, const RedundancyLimits& limits);

}  // namespace headwise
