// A head in plain words.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "headwise/judge/judge.h"

namespace headwise {
namespace {

constexpr size_t kMostRoles = 4;  // in a sentence

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

std::string beside(const Role& role, std::string_view baseline) {
  return fmt::format("; {} {}", baseline, percent(role.shown.baseline.value_or(0)));
}

/// "det" and "to_head" of "det to_head".
std::string relation(const Role& role) {
  const size_t space = role.detail.rfind(' ');
  const std::string name = role.detail.substr(0, space);
  const bool to_head = role.detail.ends_with("to_head");
  const std::string what = to_head ? fmt::format("finds what {} words belong to", name)
                                   : fmt::format("finds the {} of a word", name);
  return fmt::format("{} (right in {} of {}{})", what, percent(role.shown.value), role.shown.n,
                     beside(role, "best fixed offset"));
}

std::string position(const Role& role) {
  std::string where(role_kind(role.role).meaning);
  if (role.role == "offset") where = fmt::format("attends to the token at {}", role.detail);
  return fmt::format("{} (largest weight there in {} of {} rows)", where, percent(role.shown.value),
                     role.shown.n);
}

/// What a role means, and the number that shows it.
std::string words(const Role& role) {
  const RoleKind& kind = role_kind(role.role);
  const std::string share = percent(role.shown.value);
  if (kind.group == "positional") return position(role);
  if (role.role == "relation") return relation(role);
  if (role.role == "coreference") {
    return fmt::format("{} (right in {} of {}{})", kind.meaning, share, role.shown.n,
                       beside(role, "without a head"));
  }
  if (role.role == "rare") {
    return fmt::format("{} ({} of rows{})", kind.meaning, share, beside(role, "chance"));
  }
  if (role.role == "semantic") {
    if (role.detail.empty()) {
      return fmt::format("{} (correlation {:.2f})", kind.meaning, role.shown.value);
    }
    return fmt::format("{} ({} of words find one of their field{})", kind.meaning, share,
                       beside(role, "chance"));
  }
  if (role.role == "delimiter") {
    return fmt::format("rests on {} ({} of its weight is on special tokens and punctuation)",
                       role.detail, share);
  }
  if (role.role == "broad") return fmt::format("{} (entropy {} of the most)", kind.meaning, share);
  if (role.role == "dead") {
    return role.detail.empty() ? fmt::format("says the same everywhere (constancy {})", share)
                               : role.detail;
  }
  if (role.role == "noise" || role.role == "unclear") return "shows none of the roles looked for";
  if (role.role == "alignment" && role.detail != "diagonal") {
    return fmt::format("attends to the aligned word of the source ({} of rows)", share);
  }
  return fmt::format("{} ({} of its weight)", kind.meaning, share);
}

/// A change above 0 means that the loss rises.
std::string standing_words(const Verdict& verdict, const HeadVerdict& head) {
  if (!head.importance.ablation_zero) return "; how much it matters was not measured";
  const Measure& ablation = *head.importance.ablation_zero;
  std::string text = fmt::format("; ablating it changes the {} loss by {:+.4f}", verdict.loss_task,
                                 ablation.value);
  if (const auto& seen = ablation.interval) {
    text += fmt::format(" ({:+.4f} to {:+.4f})", seen->low, seen->high);
  }
  if (head.standing) text += fmt::format(": {}", to_string(*head.standing));
  return text;
}

/// Roles on data before those on probes, then by how many more items are right than by the
/// baseline.
std::vector<const Role*> most_telling_first(const HeadVerdict& head) {
  std::vector<const Role*> roles;
  for (const Role& role : head.roles) roles.push_back(&role);
  std::ranges::stable_sort(roles, {}, [](const Role* role) {
    const double above = role->shown.value - role->shown.baseline.value_or(0);
    return std::pair(role->source == RoleSource::probes,
                     -above * static_cast<double>(role->shown.n));
  });
  return roles;
}

}  // namespace

std::string explain(const Verdict& verdict, std::string_view name) {
  const HeadVerdict& head = verdict.head(name);
  std::vector<std::string> parts;
  for (const Role* role : most_telling_first(head)) {
    if (parts.size() == kMostRoles) break;
    parts.push_back(words(*role) + (role->source == RoleSource::probes ? ", on the probes" : ""));
  }
  std::string text = fmt::format("{} {}", head.head, fmt::join(parts, "; "));
  if (head.roles.size() > parts.size()) {
    text += fmt::format("; and {} more", head.roles.size() - parts.size());
  }
  text += standing_words(verdict, head);
  if (!head.redundant_with.empty()) {
    text += fmt::format("; {} could stand in for it", fmt::join(head.redundant_with, ", "));
  }
  if (!head.backups.empty()) {
    text += fmt::format("; {} {} it up", fmt::join(head.backups, ", "),
                        head.backups.size() == 1 ? "backs" : "back");
  }
  return text + ".";
}

}  // namespace headwise
