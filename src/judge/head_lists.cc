// Heads by their roles and names, as lists on the command line have them.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/trimmed.h"
#include "headwise/core/error.h"
#include "headwise/core/nearest_name.h"
#include "headwise/judge/judge.h"
#include "model/head_names.h"

namespace headwise {
namespace {

constexpr std::string_view kRole = "role:";

/// The roles that a name stands for.
std::set<std::string_view> roles_named(std::string_view name) {
  std::set<std::string_view> roles, groups;
  for (const RoleKind& kind : role_kinds()) {
    if (kind.name == name || (!name.empty() && kind.group == name)) roles.insert(kind.name);
    if (!kind.group.empty()) groups.insert(kind.group);
  }
  if (!roles.empty()) return roles;
  std::vector<std::string_view> names(groups.begin(), groups.end());
  for (const RoleKind& kind : role_kinds()) names.push_back(kind.name);
  throw Error({.what = "there is no such role",
               .got = fmt::format("\"{}\"", name),
               .expected = fmt::format("{}", fmt::join(names, ", ")),
               .hint = did_you_mean(name, names)});
}

std::vector<std::string> heads_named(const Verdict& verdict, std::string_view name) {
  if (name.starts_with(kRole)) return heads_of_role(verdict, name.substr(kRole.size()));
  std::vector<std::string> found;
  for (const HeadVerdict& head : verdict.heads) {
    const std::string_view full = head.head;
    if (name == "all" || full == name || full.substr(0, full.rfind('.')) == name) {
      found.push_back(head.head);
    }
  }
  if (!found.empty()) return found;
  const std::string proper = proper_head_name(name);
  throw Error({.what = proper.empty() ? "the verdict has no such head" : "heads are written L3.H1",
               .where = "the list of heads",
               .got = fmt::format("\"{}\"", name),
               .expected = verdict.heads.empty()
                               ? "none: the verdict has no heads"
                               : fmt::format("{} to {}, a layer, or role:NAME",
                                             verdict.heads.front().head, verdict.heads.back().head),
               .hint = proper.empty() ? "" : fmt::format("did you mean {}?", proper)});
}

std::vector<std::string_view> entries_of(std::string_view list) {
  std::vector<std::string_view> entries;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    entries.push_back(trimmed(list.substr(begin, end - begin)));
    begin = end + 1;
  }
  return entries;
}

}  // namespace

std::vector<std::string> heads_of_role(const Verdict& verdict, std::string_view role) {
  const std::set<std::string_view> roles = roles_named(role);
  std::vector<std::string> heads;
  for (const HeadVerdict& head : verdict.heads) {
    if (std::ranges::any_of(head.roles,
                            [&](const Role& has) { return roles.contains(has.role); })) {
      heads.push_back(head.head);
    }
  }
  return heads;
}

std::string no_head_has(const Verdict& verdict, std::string_view role) {
  const std::set<std::string_view> roles = roles_named(role);
  std::vector<const RoleKind*> missing;
  for (const RoleKind& kind : role_kinds()) {
    const bool measured = std::ranges::find(verdict.measured, kind.name) != verdict.measured.end();
    if (roles.contains(kind.name) && !kind.measured_by.empty() && !measured) {
      missing.push_back(&kind);
    }
  }
  if (missing.size() < roles.size()) return fmt::format("no head has the role {}", role);
  return fmt::format("the role {} was not measured: headwise observe --measure {}", role,
                     missing.front()->measured_by);
}

std::vector<std::string> heads_of_list(const Verdict& verdict, std::string_view list) {
  std::vector<std::string> heads;
  for (const std::string_view entry : entries_of(list)) {
    for (std::string& head : heads_named(verdict, entry)) {
      if (std::ranges::find(heads, head) == heads.end()) heads.push_back(std::move(head));
    }
  }
  return heads;
}

std::vector<std::string> roles_without_heads(const Verdict& verdict, std::string_view list) {
  std::vector<std::string> roles;
  for (const std::string_view entry : entries_of(list)) {
    if (!entry.starts_with(kRole)) continue;
    const std::string_view role = entry.substr(kRole.size());
    if (heads_of_role(verdict, role).empty()) roles.emplace_back(role);
  }
  return roles;
}

}  // namespace headwise
