// Turns evidence into a verdict: roles of every head, redundant heads, and layers.
//
// docs/judge.md says how each verdict is reached.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/judge/verdict.h"
#include "headwise/observe/evidence.h"

namespace headwise {

/// A role that heads can have.
struct RoleKind {
  std::string_view name{};
  char letter = '?';         // in grids
  uint32_t color = 0;        // 0xRRGGBB
  std::string_view group{};  // "positional", "syntactic"; empty: none
  bool fixed = false;        // depends on positions and special tokens, not on the words
  std::string_view meaning{};
  std::array<std::string_view, 2> measures{};  // any of these shows it; "relation/": a prefix
  std::string_view measured_by{};  // the value of observe --measure; empty: nothing shows it

  bool none() const { return measured_by.empty(); }  // says that the head has no role
};

/// All of them, from the special to the general: the order in which a head's roles are listed.
/// Discourse and task-specific roles are not claimed: nothing in the evidence shows them.
std::span<const RoleKind> role_kinds();

/// By its name; throws Error that lists the names.
const RoleKind& role_kind(std::string_view name);

/// A class of importance, in the order of legends.
struct StandingKind {
  Standing standing = Standing::undecided;
  bool removable = false;  // a head of this standing can be removed alone
  std::string_view meaning{};
};
std::span<const StandingKind> standing_kinds();

/// Whether the head can be removed while all others stay. False where its ablation was not
/// measured.
bool can_be_removed(const HeadVerdict& head);

/// A threshold of the verdict.
struct Threshold {
  std::string_view name{};
  double value = 0;  // unless JudgeOptions has another
  std::string_view meaning{};
};
std::span<const Threshold> thresholds();

struct JudgeOptions {
  std::map<std::string, double> thresholds{};  // by name, in [0, 1]: those that are not as usual

  /// Tolerated rise of the loss for standings, see tolerance_of. None: the tolerance of the
  /// adaptive ablations of the evidence, or 0.005.
  std::optional<double> tolerance{};
};

/// Throws Error for unknown threshold names.
Verdict judge(const Evidence& evidence, const JudgeOptions& options = {});

/// One sentence in plain words; throws Error if there is no such head.
std::string explain(const Verdict& verdict, std::string_view head);

/// Why no head of the verdict has a role or a group of roles: none has it, or it was not measured,
/// and how to measure it. Throws Error like heads_of_role.
std::string no_head_has(const Verdict& verdict, std::string_view role);

/// The heads that have a role, or one of a group of roles ("positional"). Throws Error that lists
/// the names.
std::vector<std::string> heads_of_role(const Verdict& verdict, std::string_view role);

/// "L3.H1", "L3" (its whole layer), "role:positional" and "all", separated by commas; each head
/// once. Throws Error for unknown heads.
std::vector<std::string> heads_of_list(const Verdict& verdict, std::string_view list);

/// The roles of such a list that no head has.
std::vector<std::string> roles_without_heads(const Verdict& verdict, std::string_view list);

}  // namespace headwise
