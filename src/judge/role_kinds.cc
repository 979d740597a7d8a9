// The tables of roles, standings and thresholds.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "headwise/core/error.h"
#include "headwise/core/nearest_name.h"
#include "headwise/judge/judge.h"
#include "judge/thresholds.h"

namespace headwise {
namespace {

// Related roles have related colours, which the colour-blind can tell from the others.
constexpr RoleKind kRoles[] = {
    {"previous",
     'P',
     0x2f6ea8,
     "positional",
     true,
     "attends to the previous token",
     {"offset_share/"},
     "attention"},
    {"next",
     'N',
     0x5d9ad0,
     "positional",
     true,
     "attends to the next token",
     {"offset_share/"},
     "attention"},
    {"self",
     'S',
     0x2f95a8,
     "positional",
     true,
     "attends to the token itself",
     {"offset_share/"},
     "attention"},
    {"offset",
     'O',
     0x5566bd,
     "positional",
     true,
     "attends to one other fixed offset",
     {"offset_share/"},
     "attention"},
    {"induction",
     'I',
     0x7d55a0,
     "",
     false,
     "attends to what followed the same token before",
     {"induction"},
     "attention"},
    {"duplicate",
     'U',
     0xb08cc8,
     "",
     false,
     "attends to an earlier copy of the same token",
     {"duplicate"},
     "attention"},
    {"coreference",
     'C',
     0xc3553f,
     "",
     false,
     "finds the name behind a pronoun",
     {"coreference"},
     "linguistic"},
    {"relation",
     'R',
     0xe3a32b,
     "syntactic",
     false,
     "finds a syntactic relation, better than any fixed offset",
     {"relation/"},
     "linguistic"},
    {"alignment",
     'A',
     0x8bbf4a,
     "",
     false,
     "follows the order of the source, in cross attention",
     {"alignment", "diagonal"},
     "attention"},
    {"rare",
     'T',
     0x2f9a7c,
     "",
     false,
     "attends most to the rarest of the ordinary tokens",
     {"rare_share", "rare_word"},
     "attention"},
    {"semantic",
     'M',
     0x85c7ae,
     "",
     false,
     "attends to words of similar meaning",
     {"semantic", "same_field"},
     "attention"},
    {"delimiter",
     'D',
     0xb79f70,
     "",
     true,
     "rests on special tokens and punctuation",
     {"mass_special", "mass_punctuation"},
     "attention"},
    {"first", 'F', 0x94805a, "", true, "attends to the first token", {"mass_first"}, "attention"},
    {"last", 'L', 0xd6c6a0, "", true, "attends to the last token", {"mass_last"}, "attention"},
    {"window", 'W', 0xa5cbe8, "", true, "stays within two tokens", {"mass_window"}, "attention"},
    {"broad",
     'B',
     0xbfc8d2,
     "",
     true,
     "attends to all tokens nearly equally",
     {"entropy_ratio"},
     "attention"},
    {"dead",
     'X',
     0x8a8f98,
     "",
     true,
     "says the same everywhere, or adds nothing",
     {"constancy", "contribution_norm"},
     "attention"},
    {"noise", '-', 0xd9dee4, "", false, "no role, and the model does without it"},
    {"unclear", '?', 0xeceff2, "", false, "no role, yet it matters, or that is not known"},
};

constexpr StandingKind kStandings[] = {
    {Standing::essential, false, "the loss rises by more than the tolerance without it"},
    {Standing::undecided, false, "the data do not say whether it is needed"},
    {Standing::replaceable, true, "the loss stays within the tolerance without it"},
    {Standing::harmful, true, "the loss falls without it"},
};

constexpr Threshold kThresholds[] = {
    {"positional", 0.9, "share of rows whose largest weight is at one offset"},
    {"window", 0.6, "weight on tokens at most 2 away"},
    {"first", 0.6, "weight on the first token"},
    {"last", 0.6, "weight on the last token"},
    {"delimiter", 0.6, "weight on special tokens and punctuation"},
    {"broad", 0.85, "entropy, of the most that there could be"},
    {"relation", 0.1, "accuracy above that of the best fixed offset"},
    {"relation_probes", 0.05,
     "the same on probes, weighted as far apart as in real text, for four pairs of relation and "
     "direction"},
    {"coreference", 0.15, "accuracy above that of the nearest name, and above a half"},
    {"coreference_probes", 0.26, "the same on probe sentences"},
    {"coreference_parts", 0.50, "accuracy on probe sentences of every arrangement of the names"},
    {"rare", 0.25, "share of rows above chance whose largest weight is on the rarest token"},
    {"semantic", 0.25, "correlation of weights with the likeness of tokens"},
    {"same_field", 0.25, "share above chance of probe words that find one of their field"},
    {"induction", 0.2, "weight on what followed the same token before, in random sequences"},
    {"duplicate", 0.2, "weight on the same token before, in random sequences"},
    {"alignment", 0.6, "weight near the diagonal, or share of rows on an aligned token"},
    {"dead", 0.9, "constancy"},
    {"error", 0.05,
     "chance that any head has a role of one kind by luck; not of relations on probes"},
    {"redundant_js", 0.1, "redundant heads: js at most"},
    {"redundant_cka", 0.5, "redundant heads: output_cka at least"},
    {"thin", 0.5, "layers: more than this share of heads could go one by one"},
    {"freeze", 0.5, "layers: more than this share of heads have fixed roles only"},
};

/// An error that lists the names of a table, with the one that was probably meant.
template <class Table>
ErrorDetail unknown_name(const char* what, std::string_view got, const Table& table) {
  std::vector<std::string_view> names;
  for (const auto& entry : table) names.push_back(entry.name);
  return {.what = what,
          .got = fmt::format("\"{}\"", got),
          .expected = fmt::format("{}", fmt::join(names, ", ")),
          .hint = did_you_mean(got, names)};
}

}  // namespace

std::span<const RoleKind> role_kinds() { return kRoles; }

const RoleKind& role_kind(std::string_view name) {
  const auto at = std::ranges::find(kRoles, name, &RoleKind::name);
  if (at != std::end(kRoles)) return *at;
  throw Error(unknown_name("there is no such role", name, kRoles));
}

std::span<const StandingKind> standing_kinds() { return kStandings; }

bool can_be_removed(const HeadVerdict& head) {
  return head.standing &&
         std::ranges::find(kStandings, *head.standing, &StandingKind::standing)->removable;
}

std::span<const Threshold> thresholds() { return kThresholds; }

std::map<std::string, double> threshold_values(const std::map<std::string, double>& changed) {
  std::map<std::string, double> values;
  for (const Threshold& threshold : kThresholds) {
    values[std::string(threshold.name)] = threshold.value;
  }
  for (const auto& [name, value] : changed) {
    const auto at = values.find(name);
    if (at == values.end()) {
      throw Error(unknown_name("there is no such threshold", name, kThresholds));
    }
    if (!(value >= 0 && value <= 1)) {
      throw Error({.what = "a threshold is out of range",
                   .where = name,
                   .got = fmt::format("{}", value),
                   .expected = "a number from 0 to 1"});
    }
    at->second = value;
  }
  return values;
}

}  // namespace headwise
