// The head that a page opens with.
#include "report/first_head.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace headwise {
namespace {

Role role_of(std::string name, double low, double baseline, RoleSource source) {
  return {.role = std::move(name),
          .shown = {.value = low + 0.1,
                    .n = 100,
                    .interval = ConfidenceInterval{low, low + 0.2},
                    .baseline = baseline},
          .source = source};
}

/// Heads L0.H0, L0.H1, … with a role each; those first in `heads` matter most.
Verdict verdict_of(const std::vector<Role>& roles, const std::vector<std::string>& ranking = {}) {
  Verdict verdict;
  for (size_t h = 0; h < roles.size(); ++h) {
    verdict.heads.push_back({.head = "L0.H" + std::to_string(h), .roles = {roles[h]}});
  }
  if (!ranking.empty()) verdict.rankings["ablation_zero"] = ranking;
  return verdict;
}

constexpr RoleSource kData = RoleSource::data, kProbes = RoleSource::probes;

TEST(FirstHead, HasTheRoleFarthestAboveItsBaseline) {
  EXPECT_EQ(first_head(verdict_of({role_of("relation", 0.7, 0.6, kData),
                                   role_of("relation", 0.6, 0.2, kData),
                                   role_of("relation", 0.5, 0.4, kData)})),
            "L0.H1");
}

TEST(FirstHead, PrefersDataThenWordsThenImportance) {
  const Role on_probes = role_of("relation", 0.9, 0.1, kProbes),
             of_places = role_of("previous", 0.95, 0.05, kData),
             strong = role_of("relation", 0.7, 0.2, kData),
             weak = role_of("relation", 0.4, 0.3, kData);
  EXPECT_EQ(first_head(verdict_of({on_probes, of_places})), "L0.H1");
  EXPECT_EQ(first_head(verdict_of({on_probes, of_places, weak})), "L0.H2");
  EXPECT_EQ(first_head(verdict_of({strong, weak}, {"L0.H1", "L0.H0"})), "L0.H1");
  EXPECT_EQ(first_head(verdict_of({strong, weak}, {"L0.H0", "L0.H1"})), "L0.H0");
  // Of three heads two are the first half: importance no longer separates them.
  EXPECT_EQ(first_head(verdict_of({strong, weak, on_probes}, {"L0.H1", "L0.H0", "L0.H2"})),
            "L0.H0");
}

TEST(FirstHead, PrefersSpecialRoles) {
  EXPECT_EQ(first_head(verdict_of({role_of("rare", 0.9, 0.1, kData),
                                   role_of("coreference", 0.6, 0.5, kData),
                                   role_of("relation", 0.9, 0.1, kData)})),
            "L0.H1");
}

TEST(FirstHead, MattersMostWhereNoneHasARole) {
  const Role none = {.role = "unclear"};
  EXPECT_EQ(first_head(verdict_of({none, none}, {"L0.H1", "L0.H0"})), "L0.H1");
  EXPECT_EQ(first_head(verdict_of({none, none})), "L0.H0");
  EXPECT_EQ(first_head({}), "");
}

}  // namespace
}  // namespace headwise
