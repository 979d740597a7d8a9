// Which roles the evidence shows.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/judge/verdict.h"
#include "headwise/observe/evidence.h"

namespace headwise {

/// Texts with fewer tokens than this are some forty sentences at most. Within one sentence many
/// heads have much the same output everywhere, since all of its tokens attend to the same keys.
inline constexpr int64_t kFewTokens = 1000;

/// Gives a role where its score reaches the threshold, and where the interval of the score lies
/// above the baseline. Intervals are wide enough for all heads and choices of one kind of role
/// together (Bonferroni), except for relations on probes.
class RoleFinder {
 public:
  /// Both must outlive it.
  RoleFinder(const Evidence& evidence, const std::map<std::string, double>& thresholds);

  /// In the order of role_kinds(); relations by how much of what the baseline
  /// gets wrong they get right.
  std::vector<Role> find(const HeadEvidence& head) const;

  /// The names of the roles that the evidence has measures for.
  std::vector<std::string> measured() const;

 private:
  struct Seen {
    Measure measure{};
    RoleSource source = RoleSource::data;
  };
  struct Claim {
    std::string_view role{};
    std::string detail{};
    double baseline = 0, least = 0;  // of the score
    double baseline_high = 0;        // the end of its interval, where it was measured
    int64_t choices = 1;             // that there were, beside that of the head
    double lowest = 0;               // value that the measure could have; the highest is 1
  };

  double threshold(const char* name) const { return thresholds_.at(name); }
  std::optional<Seen> seen(const HeadEvidence& head, std::string_view name) const;
  std::optional<Role> judged(const Claim& claim, const Seen& seen, double error) const;
  void add(const Claim& claim, const std::optional<Seen>& seen, std::vector<Role>& roles) const;

  void add_dead(const HeadEvidence& head, std::vector<Role>& roles) const;
  void add_positional(const HeadEvidence& head, std::vector<Role>& roles) const;
  void add_repeated(const HeadEvidence& head, std::vector<Role>& roles) const;
  void add_known(const HeadEvidence& head, std::vector<Role>& roles) const;
  void add_coreference_on_probes(const HeadEvidence& head, std::vector<Role>& roles) const;
  void add_relations_on_probes(const HeadEvidence& head, std::vector<Role>& roles) const;
  void add_accuracy(const HeadEvidence& head, const std::string& name, Claim claim,
                    std::vector<Role>& roles) const;
  void add_words(const HeadEvidence& head, std::vector<Role>& roles) const;
  void add_places(const HeadEvidence& head, std::vector<Role>& roles) const;
  void add_alignment(const HeadEvidence& head, std::vector<Role>& roles) const;

  const Evidence& evidence_;
  const std::map<std::string, double>& thresholds_;
  std::vector<std::string> relations_;                // "relation/det/to_head", of all heads
  std::map<std::string, double> delimiters_of_even_;  // by kind of attention: of the broadest head
};

}  // namespace headwise
