// Chooses the head that a page opens with.
#include "report/first_head.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <tuple>

#include "headwise/judge/judge.h"

namespace headwise {
namespace {

/// Data, words, matters, how special, how far above the baseline.
using Interest = std::tuple<bool, bool, bool, int64_t, double>;

Interest interest_of(const Role& role, bool matters) {
  const RoleKind& kind = role_kind(role.role);
  const int64_t rank = &kind - role_kinds().data();  // from the special to the general
  return {role.source == RoleSource::data, !kind.fixed, matters, -rank,
          role.shown.value - role.shown.baseline.value_or(0)};
}

/// Heads by how much they matter; empty where that was not measured.
std::vector<std::string> ranking_of(const Verdict& verdict) {
  for (const char* name : {"ablation_zero", "gradient"}) {
    const auto at = verdict.rankings.find(name);
    if (at != verdict.rankings.end() && !at->second.empty()) return at->second;
  }
  return {};
}

}  // namespace

std::string first_head(const Verdict& verdict) {
  const std::vector<std::string> ranking = ranking_of(verdict);
  const std::set<std::string> first_half(ranking.begin(),
                                         ranking.begin() + (std::ssize(ranking) + 1) / 2);
  std::string best;
  Interest most;
  for (const HeadVerdict& head : verdict.heads) {
    for (const Role& role : head.roles) {
      if (role_kind(role.role).none()) continue;
      const Interest interest = interest_of(role, first_half.contains(head.head));
      if (!best.empty() && interest <= most) continue;
      best = head.head;
      most = interest;
    }
  }
  if (!best.empty()) return best;
  if (!ranking.empty()) return ranking.front();
  return verdict.heads.empty() ? "" : verdict.heads.front().head;
}

}  // namespace headwise
