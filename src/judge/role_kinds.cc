// The tables of roles and of thresholds.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/closest_name.h"
#include "headwise/core/error.h"
#include "headwise/judge/judge.h"
#include "judge/thresholds.h"

namespace headwise {
namespace {

constexpr RoleKind kRoles[] = {
    {"previous",
     'P',
     0x1f77b4,
     "positional",
     true,
     "looks at the previous token",
     {"offset_share/"},
     "attention"},
    {"next",
     'N',
     0x4aa3df,
     "positional",
     true,
     "looks at the next token",
     {"offset_share/"},
     "attention"},
    {"self",
     'S',
     0x17becf,
     "positional",
     true,
     "looks at the token itself",
     {"offset_share/"},
     "attention"},
    {"offset",
     'O',
     0x3b5bdb,
     "positional",
     true,
     "looks at one other fixed offset",
     {"offset_share/"},
     "attention"},
    {"induction",
     'I',
     0xd62728,
     "",
     false,
     "looks at what followed the same token before",
     {"induction"},
     "attention"},
    {"duplicate",
     'U',
     0xe8743b,
     "",
     false,
     "looks at an earlier copy of the same token",
     {"duplicate"},
     "attention"},
    {"coreference",
     'C',
     0xc2185b,
     "",
     false,
     "finds the name behind a pronoun",
     {"coreference"},
     "linguistic"},
    {"relation",
     'R',
     0x2ca02c,
     "syntactic",
     false,
     "finds a syntactic relation, better than any fixed offset",
     {"relation/"},
     "linguistic"},
    {"alignment",
     'A',
     0x8bc34a,
     "",
     false,
     "follows the order of the source, in cross attention",
     {"alignment", "diagonal"},
     "attention"},
    {"rare",
     'T',
     0xf2c230,
     "",
     false,
     "looks at the rarest token",
     {"rare_share", "rare_word"},
     "attention"},
    {"semantic",
     'M',
     0x9467bd,
     "",
     false,
     "looks at words of similar meaning",
     {"semantic", "same_field"},
     "attention"},
    {"delimiter",
     'D',
     0xa1887f,
     "",
     true,
     "rests on special tokens and punctuation",
     {"mass_special", "mass_punctuation"},
     "attention"},
    {"first", 'F', 0x8c6d4f, "", true, "looks at the first token", {"mass_first"}, "attention"},
    {"last", 'L', 0xc49c6b, "", true, "looks at the last token", {"mass_last"}, "attention"},
    {"window", 'W', 0x6baed6, "", true, "stays within two tokens", {"mass_window"}, "attention"},
    {"broad",
     'B',
     0x9edae5,
     "",
     true,
     "looks nearly everywhere alike",
     {"entropy_ratio"},
     "attention"},
    {"dead",
     'X',
     0x8a8a8a,
     "",
     true,
     "says the same everywhere, or adds nothing",
     {"constancy", "contribution_norm"},
     "attention"},
    {"noise", '-', 0x777777, "", false, "no role, and the model does without it"},
    {"unclear", '?', 0xe0e0e0, "", false, "no role, yet it matters, or that is not known"},
};

constexpr Threshold kThresholds[] = {
    {"positional", 0.9, "share of rows whose largest weight is at one offset"},
    {"window", 0.6, "weight on tokens at most 2 away"},
    {"first", 0.6, "weight on the first token"},
    {"last", 0.6, "weight on the last token"},
    {"delimiter", 0.6, "weight on special tokens and punctuation"},
    {"broad", 0.85, "entropy, of the most that there could be"},
    {"relation", 0.1, "accuracy above that of the best fixed offset"},
    {"relation_probes", 0.03, "the same on probe sentences, for each of at least four relations"},
    {"coreference", 0.15, "accuracy above that of the nearest name, and above a half"},
    {"coreference_probes", 0.28, "the same on probe sentences"},
    {"coreference_parts", 0.55, "accuracy on probe sentences of every arrangement of the names"},
    {"rare", 0.25, "share of rows above chance whose largest weight is on the rarest token"},
    {"semantic", 0.25, "correlation of weights with the likeness of tokens"},
    {"same_field", 0.25, "share above chance of probe words that find one of their field"},
    {"induction", 0.2, "weight on what followed the same token before, in random sequences"},
    {"duplicate", 0.2, "weight on the same token before, in random sequences"},
    {"alignment", 0.6, "weight near the diagonal, or share of rows on an aligned token"},
    {"dead", 0.9, "constancy"},
    {"error", 0.05, "chance that any head at all has a role of one kind by luck"},
    {"twin_js", 0.1, "twins: js at most"},
    {"twin_cka", 0.5, "twins: output_cka at least"},
    {"thin", 0.5, "layers: more than this share of heads could go one by one"},
    {"freeze", 0.5, "layers: more than this share of heads have fixed roles only"},
};

/// An error that lists the names of a table, with the one that was probably meant.
template <class Table>
ErrorDetail unknown_name(const char* what, std::string_view got, const Table& table) {
  std::vector<std::string_view> names;
  for (const auto& entry : table) names.push_back(entry.name);
  const std::string_view meant = closest_name(got, names);
  return {.what = what,
          .got = fmt::format("\"{}\"", got),
          .expected = fmt::format("{}", fmt::join(names, ", ")),
          .hint = meant.empty() ? "" : fmt::format("did you mean {}?", meant)};
}

}  // namespace

std::span<const RoleKind> role_kinds() { return kRoles; }

const RoleKind& role_kind(std::string_view name) {
  const auto at = std::ranges::find(kRoles, name, &RoleKind::name);
  if (at != std::end(kRoles)) return *at;
  throw Error(unknown_name("there is no such role", name, kRoles));
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
