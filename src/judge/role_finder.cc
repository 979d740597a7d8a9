// Compares what was measured with baselines and thresholds.
#include "judge/role_finder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <utility>

#include "headwise/judge/judge.h"
#include "observe/accuracy.h"
#include "observe/adaptive_ablation.h"
#include "observe/repeated.h"

namespace headwise {
namespace {

constexpr int64_t kOffsets = 17;          // -8 to 8
constexpr int64_t kWays = 2;              // to show some roles: on data, on probes
constexpr size_t kAgreeingRelations = 4;  // pairs of relation and direction, on probes
// Of an interval of 90 %: the role asks only whether a score is above, which is a test at 5 %.
constexpr double kOneTest = 0.10;
constexpr double kNearDiagonal = 1 - 0.9 * 0.9;  // share of a square within 0.1 of its diagonal

/// "", "enc.", "dec." or "cross." of "cross.L3.H1".
std::string kind_of(const std::string& head) {
  const size_t dot = head.find('.');
  return head.starts_with('L') ? "" : head.substr(0, dot + 1);
}

/// A head that looks back sees no next token.
bool looks_back_only(const HeadEvidence& head) {
  const auto has = [&](const char* name) {
    return head.measures.find(name) != nullptr || head.probes.find(name) != nullptr;
  };
  return has("mass_previous") && !has("mass_next");
}

/// 1 + 1/2 + … + 1/n
double harmonic(double n) { return std::log(n) + std::numbers::egamma + 1 / (2 * n); }

/// What a head that looks everywhere alike would put on one token, and within two tokens.
struct EvenWeights {
  double token = 0, window = 0;
};

/// From the mean length of texts; 0 where that is not known.
EvenWeights even_weights(const Evidence& evidence, const HeadEvidence& head) {
  const auto corpus = evidence.corpora.find("text");
  if (corpus == evidence.corpora.end() || corpus->second.texts == 0) return {};
  const bool cross = kind_of(head.head) == "cross.";
  const double rows = static_cast<double>(cross ? corpus->second.tokens : head.rows);
  const double length = std::max(1., rows / static_cast<double>(corpus->second.texts));
  EvenWeights even;
  if (looks_back_only(head)) {
    even.token = harmonic(length) / length;
    even.window = length < 3 ? 1 : (3 + 3 * (harmonic(length) - harmonic(3))) / length;
  } else {
    even.token = 1 / length;
    even.window = length < 5 ? 1 : (5 * length - 6) / length / length;
  }
  return {std::min(1., even.token), std::min(1., even.window)};
}

/// Weight on special tokens and punctuation, together.
std::optional<Measure> delimiters(const Measures& measures) {
  const Measure* const special = measures.find("mass_special");
  const Measure* const punctuation = measures.find("mass_punctuation");
  if (special == nullptr && punctuation == nullptr) return {};
  Measure both = special != nullptr ? *special : *punctuation;
  if (special != nullptr && punctuation != nullptr) both.value += punctuation->value;
  both.value = std::min(1., both.value);  // rounding
  return both;
}

double value_or_0(const Measures& measures, const char* name) {
  const Measure* const measure = measures.find(name);
  return measure == nullptr ? 0 : measure->value;
}

/// "det to_head" of "relation/det/to_head".
std::string detail_of(std::string name) {
  name.erase(0, name.find('/') + 1);
  std::ranges::replace(name, '/', ' ');
  return name;
}

}  // namespace

RoleFinder::RoleFinder(const Evidence& evidence, const std::map<std::string, double>& thresholds)
    : evidence_(evidence), thresholds_(thresholds) {
  std::set<std::string> relations;
  std::map<std::string, double> broadest;
  for (const HeadEvidence& head : evidence.heads) {
    for (const Measures* measures : {&head.measures, &head.probes}) {
      for (const auto& [name, measure] : *measures) {
        if (name.starts_with("relation/")) relations.insert(name);
      }
    }
    const std::string kind = kind_of(head.head);
    const double ratio = value_or_0(head.measures, "entropy_ratio");
    const auto mass = delimiters(head.measures);
    if (!mass || ratio <= broadest[kind]) continue;
    broadest[kind] = ratio;
    delimiters_of_even_[kind] = mass->value;
  }
  relations_.assign(relations.begin(), relations.end());
}

std::vector<Role> RoleFinder::find(const HeadEvidence& head) const {
  std::vector<Role> roles;
  add_positional(head, roles);
  add_repeated(head, roles);
  add_known(head, roles);
  add_alignment(head, roles);
  add_words(head, roles);
  add_places(head, roles);
  add_dead(head, roles);
  return roles;
}

std::vector<std::string> RoleFinder::measured() const {
  const auto has = [&](std::string_view wanted) {
    const auto is_wanted = [&](const auto& one) {
      return wanted.ends_with('/') ? one.first.starts_with(wanted) : one.first == wanted;
    };
    return !wanted.empty() && std::ranges::any_of(evidence_.heads, [&](const HeadEvidence& head) {
      return std::ranges::any_of(head.measures, is_wanted) ||
             std::ranges::any_of(head.probes, is_wanted);
    });
  };
  std::vector<std::string> names;
  for (const RoleKind& kind : role_kinds()) {
    if (std::ranges::any_of(kind.measures, has)) names.emplace_back(kind.name);
  }
  return names;
}

/// On the data that was given, else on the probes.
std::optional<RoleFinder::Seen> RoleFinder::seen(const HeadEvidence& head,
                                                 std::string_view name) const {
  if (const Measure* const measure = head.measures.find(name)) return Seen{.measure = *measure};
  if (const Measure* const measure = head.probes.find(name)) {
    return Seen{.measure = *measure, .source = RoleSource::probes};
  }
  return {};
}

std::optional<Role> RoleFinder::judged(const Claim& claim, const Seen& seen, double error) const {
  if (seen.measure.n == 0 || seen.measure.value < claim.least) return {};
  const double range = 1 - claim.lowest;
  const double share = std::clamp((seen.measure.value - claim.lowest) / range, 0., 1.);
  const ConfidenceInterval wilson =
      wilson_interval(share, seen.measure.n, normal_quantile(1 - error / 2));
  const ConfidenceInterval interval{claim.lowest + range * wilson.low,
                                    claim.lowest + range * wilson.high};
  if (interval.low <= std::max(claim.baseline, claim.baseline_high)) return {};
  return Role{.role = std::string(claim.role),
              .detail = claim.detail,
              .shown = {.value = seen.measure.value,
                        .n = seen.measure.n,
                        .interval = interval,
                        .baseline = claim.baseline},
              .source = seen.source};
}

void RoleFinder::add(const Claim& claim, const std::optional<Seen>& seen,
                     std::vector<Role>& roles) const {
  if (!seen) return;
  const auto tests = static_cast<double>(std::ssize(evidence_.heads) * claim.choices);
  if (auto role = judged(claim, *seen, threshold("error") / tests)) {
    roles.push_back(*std::move(role));
  }
}

void RoleFinder::add_dead(const HeadEvidence& head, std::vector<Role>& roles) const {
  const auto constancy = seen(head, "constancy");
  if (constancy && constancy->measure.n < kFewTokens) return;
  add({.role = "dead", .least = threshold("dead")}, constancy, roles);
  const auto norm = seen(head, "contribution_norm");
  if (!constancy && norm && norm->measure.value == 0) {
    roles.push_back({.role = "dead",
                     .detail = "adds nothing",
                     .shown = {.value = 1, .n = norm->measure.n, .baseline = 0},
                     .source = norm->source});
  }
}

/// The offset that wins most rows: only few rows have one that is far away.
void RoleFinder::add_positional(const HeadEvidence& head, std::vector<Role>& roles) const {
  const auto rows_won = [](const Seen& share) {
    return share.measure.value * static_cast<double>(share.measure.n);
  };
  int64_t best = 0;
  std::optional<Seen> most;
  for (int64_t offset = -kOffsets / 2; offset <= kOffsets / 2; ++offset) {
    const auto share = seen(head, fmt::format("offset_share/{}", offset));
    if (!share || (most && rows_won(*share) <= rows_won(*most))) continue;
    most = share;
    best = offset;
  }
  Claim claim{.baseline = even_weights(evidence_, head).token,
              .least = threshold("positional"),
              .choices = kOffsets};
  switch (best) {
    case -1:
      claim.role = "previous";
      break;
    case 0:
      claim.role = "self";
      break;
    case 1:
      claim.role = "next";
      break;
    default:
      claim.role = "offset";
      claim.detail = fmt::format("offset {:+}", best);
  }
  add(claim, most, roles);
}

/// Repeated random sequences are probes, wherever they stand in the evidence.
void RoleFinder::add_repeated(const HeadEvidence& head, std::vector<Role>& roles) const {
  for (const char* name : {"induction", "duplicate"}) {
    auto weight = seen(head, name);
    if (weight) weight->source = RoleSource::probes;
    add({.role = name, .baseline = 1. / (2 * kRepeatedLength), .least = threshold(name)}, weight,
        roles);
  }
}

/// What there are answers for.
void RoleFinder::add_known(const HeadEvidence& head, std::vector<Role>& roles) const {
  add_accuracy(head, "coreference", {.role = "coreference", .baseline = 0.5}, roles);
  if (head.measures.find("coreference") == nullptr) add_coreference_on_probes(head, roles);
  std::vector<Role> relations;
  for (const std::string& name : relations_) {
    add_accuracy(head, name,
                 {.role = "relation", .detail = detail_of(name), .choices = std::ssize(relations_)},
                 relations);
  }
  add_relations_on_probes(head, relations);
  std::ranges::stable_sort(relations, std::ranges::greater(), [](const Role& role) {
    return (role.shown.value - *role.shown.baseline) / (1 - *role.shown.baseline);
  });
  roles.insert(roles.end(), relations.begin(), relations.end());
}

/// Every arrangement of the names must be right more often than not: a head that always takes the
/// first, the second, the nearer or the farther name fails one of them. So does a head that looks
/// back only, which sees no name behind the pronoun.
void RoleFinder::add_coreference_on_probes(const HeadEvidence& head,
                                           std::vector<Role>& roles) const {
  const Measure* const all = head.probes.find("coreference");
  if (all == nullptr || !all->baseline) return;
  for (const char* part : {"coreference/before", "coreference/near", "coreference/far"}) {
    const Measure* const measure = head.probes.find(part);
    if (measure == nullptr || measure->value < threshold("coreference_parts")) return;
  }
  const double baseline = std::max(0.5, *all->baseline);
  add({.role = "coreference",
       .baseline = baseline,
       .least = baseline + threshold("coreference_probes")},
      Seen{.measure = *all, .source = RoleSource::probes}, roles);
}

/// Better than the best fixed offset. Several pairs of relation and direction must agree, since
/// each alone says little about real text. Intervals are those of one test: the error over all
/// heads is not controlled here.
void RoleFinder::add_relations_on_probes(const HeadEvidence& head, std::vector<Role>& roles) const {
  std::vector<Role> found;
  for (const std::string& name : relations_) {
    const Measure* const measure = head.probes.find(name);
    if (measure == nullptr || !measure->baseline) continue;
    if (head.measures.find(name) != nullptr) continue;  // data go before probes
    const Claim claim{.role = "relation",
                      .detail = detail_of(name),
                      .baseline = *measure->baseline,
                      .least = *measure->baseline + threshold("relation_probes")};
    auto role = judged(claim, {.measure = *measure, .source = RoleSource::probes}, kOneTest);
    if (role) found.push_back(*std::move(role));
  }
  if (found.size() >= kAgreeingRelations) roles.insert(roles.end(), found.begin(), found.end());
}

/// Two ways lead there, with half of the error each: to have been chosen on one half of the items
/// and to hold on the other, or to hold on all of them as one of all heads.
void RoleFinder::add_accuracy(const HeadEvidence& head, const std::string& name, Claim claim,
                              std::vector<Role>& roles) const {
  const Measure* const all = head.measures.find(name);
  if (all == nullptr || !all->baseline) return;
  const double error = threshold("error") / 2 / static_cast<double>(claim.choices);
  const double floor = claim.baseline;
  const auto judge = [&](const Measure& measure, double allowed) {
    const double baseline = measure.baseline.value_or(0);
    const double z = normal_quantile(1 - allowed / 2);
    claim.baseline = std::max(floor, baseline);
    claim.baseline_high =
        measure.n > 0 ? wilson_interval(std::clamp(baseline, 0., 1.), measure.n, z).high : 0;
    claim.least = claim.baseline + thresholds_.at(std::string(claim.role));
    return judged(claim, {.measure = measure}, allowed);
  };
  std::optional<Role> role;
  const auto at = evidence_.best.find(name);
  if (at != evidence_.best.end() && at->second.head == head.head) {
    role = judge(at->second.measured, error);
  }
  if (!role) {
    role = judge(*all, error / static_cast<double>(std::ssize(evidence_.heads)));
  }
  if (role) roles.push_back(*std::move(role));
}

/// Rare and similar words: in the corpus, or if that does not show it, on the probes.
void RoleFinder::add_words(const HeadEvidence& head, std::vector<Role>& roles) const {
  const auto on_probes = [&](const char* name, Claim claim, double gain) {
    const auto share = seen(head, name);
    if (!share || !share->measure.baseline) return;
    claim.baseline = *share->measure.baseline;
    claim.least = claim.baseline + gain;
    add(claim, share, roles);
  };
  const size_t before_rare = roles.size();
  const auto chance = seen(head, "rare_chance");
  if (chance) {
    add({.role = "rare",
         .baseline = chance->measure.value,
         .least = chance->measure.value + threshold("rare"),
         .choices = kWays},
        seen(head, "rare_share"), roles);
  }
  if (roles.size() == before_rare) {
    on_probes("rare_word", {.role = "rare", .detail = "rare word", .choices = kWays},
              threshold("rare"));
  }
  const size_t before_semantic = roles.size();
  add({.role = "semantic", .least = threshold("semantic"), .choices = kWays, .lowest = -1},
      seen(head, "semantic"), roles);
  if (roles.size() == before_semantic) {
    on_probes("same_field", {.role = "semantic", .detail = "same field", .choices = kWays},
              threshold("same_field"));
  }
}

/// Where a head looks, whatever stands there.
void RoleFinder::add_places(const HeadEvidence& head, std::vector<Role>& roles) const {
  const EvenWeights even = even_weights(evidence_, head);
  RoleSource source = RoleSource::data;
  auto mass = delimiters(head.measures);
  if (!mass) {
    mass = delimiters(head.probes);
    source = RoleSource::probes;
  }
  if (mass) {
    const Measures& from = source == RoleSource::probes ? head.probes : head.measures;
    const bool marks = value_or_0(from, "mass_punctuation") > value_or_0(from, "mass_special");
    const auto even_head = delimiters_of_even_.find(kind_of(head.head));
    add({.role = "delimiter",
         .detail = marks ? "punctuation" : "special tokens",
         .baseline = even_head == delimiters_of_even_.end() ? 0 : even_head->second,
         .least = threshold("delimiter")},
        Seen{.measure = *mass, .source = source}, roles);
  }
  add({.role = "first", .baseline = even.token, .least = threshold("first")},
      seen(head, "mass_first"), roles);
  if (!looks_back_only(head)) {  // only the last row would see it
    add({.role = "last", .baseline = even.token, .least = threshold("last")},
        seen(head, "mass_last"), roles);
  }
  const bool positional = std::ranges::any_of(roles, [](const Role& role) {
    return role.role == "previous" || role.role == "next" || role.role == "self" ||
           role.role == "offset";
  });
  if (!positional) {  // which says more
    add({.role = "window", .baseline = even.window, .least = threshold("window")},
        seen(head, "mass_window"), roles);
  }
  add({.role = "broad", .least = threshold("broad")}, seen(head, "entropy_ratio"), roles);
}

void RoleFinder::add_alignment(const HeadEvidence& head, std::vector<Role>& roles) const {
  const double least = threshold("alignment");
  const auto gold = seen(head, "alignment");
  const size_t before = roles.size();
  if (gold && gold->measure.baseline) {
    add({.role = "alignment",
         .detail = "aligned word",
         .baseline = *gold->measure.baseline,
         .least = least,
         .choices = kWays},
        gold, roles);
  }
  if (roles.size() == before) {
    add({.role = "alignment",
         .detail = "diagonal",
         .baseline = kNearDiagonal,
         .least = least,
         .choices = kWays},
        seen(head, "diagonal"), roles);
  }
}

}  // namespace headwise
