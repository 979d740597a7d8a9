// Heads that could stand in for each other, and heads that back each other up.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "headwise/judge/verdict.h"
#include "headwise/observe/evidence.h"

namespace headwise {

struct TwinLimits {
  double js = 0;       // at most
  double cka = 0;      // at least
  double synergy = 0;  // above it, a pair are backups
};

struct Twins {
  std::map<std::string, std::vector<std::string>> twins{};    // by head, the nearest first
  std::map<std::string, std::vector<std::string>> backups{};  // by head, by synergy
  std::vector<Cluster> clusters{};
};

/// Twins look at the same and say the same. In a cluster every head is a twin of every other
/// (complete linkage, the nearest joined first); its representative is the most important one by
/// ablation_zero, else by gradient, else the one nearest to the others.
Twins find_twins(const Evidence& evidence, const TwinLimits& limits);

}  // namespace headwise
