// Draws verdicts.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "command.h"
#include "headwise/judge/judge.h"
#include "screens.h"

namespace headwise::program {
namespace {

constexpr size_t kShown = 6;  // heads per line

/// In the color of a role.
std::string colored(const std::string& text, const RoleKind& kind, Color color) {
  const uint32_t r = kind.color >> 16, g = kind.color >> 8 & 0xff, b = kind.color & 0xff;
  const Rgb background = {static_cast<double>(r), static_cast<double>(g), static_cast<double>(b)};
  return painted(text, background, 2 * r + 5 * g + b > 8 * 110, color);
}

const RoleKind& main_role(const HeadVerdict& head) {
  const Role* const role = head.main_role();
  return role_kind(role == nullptr ? "unclear" : role->role);
}

bool on_probes_only(const HeadVerdict& head) {
  const Role* const role = head.main_role();
  return role != nullptr && role->source == RoleSource::probes;
}

/// The cell of a head: its letter, filled with the color of its role, or hollow behind a tilde.
std::string cell(const HeadVerdict& head, Color color) {
  const RoleKind& kind = main_role(head);
  const char letter =
      can_be_removed(head) ? static_cast<char>(std::tolower(kind.letter)) : kind.letter;
  if (on_probes_only(head)) return fmt::format("~{}", letter);
  return colored(fmt::format(" {}", letter), kind, color);
}

constexpr const char* kHollow = "~ before a letter: seen on probe sentences only.";

/// 1 of "L3.H1".
int64_t number_of(const std::string& head) {
  int64_t number = 0;
  const size_t at = head.rfind('H') + 1;
  std::from_chars(head.data() + at, head.data() + head.size(), number);
  return number;
}

/// The most frequent roles of a layer.
std::string story(const LayerVerdict& layer) {
  std::vector<std::pair<int64_t, std::string>> roles;
  for (const RoleKind& kind : role_kinds()) {
    const auto at = layer.roles.find(std::string(kind.name));
    if (at != layer.roles.end()) roles.emplace_back(-at->second, at->first);
  }
  std::ranges::stable_sort(roles, {}, &std::pair<int64_t, std::string>::first);
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(3, roles.size()); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", roles[i].second, -roles[i].first);
  }
  return text;
}

std::string grid(const Verdict& verdict, Color color, int64_t width) {
  int64_t columns = 0;
  std::map<std::string, std::map<int64_t, const HeadVerdict*>> rows;
  for (const HeadVerdict& head : verdict.heads) {
    const int64_t number = std::clamp<int64_t>(number_of(head.head), 0, 999);
    rows[layer_of(head.head)][number] = &head;
    columns = std::max(columns, number + 1);
  }
  constexpr int64_t kLayer = 9, kStory = 48;
  const bool narrow = kLayer + 3 * columns + kStory > width;
  std::string text(kLayer, ' ');
  for (int64_t h = 0; h < columns; ++h) {
    text += narrow ? fmt::format("{:>2}", h % 10) : fmt::format("{:>3}", h);
  }
  text += "   mostly (a head may have several roles); what ablating one head adds; advice\n";
  for (const LayerVerdict& layer : verdict.layers) {
    text += fmt::format("{:<{}}", layer.layer, kLayer);
    const auto& heads = rows[layer.layer];
    for (int64_t h = 0; h < columns; ++h) {
      const auto at = heads.find(h);
      text += narrow ? "" : " ";
      if (at == heads.end()) {
        text += "  ";
        continue;
      }
      text += cell(*at->second, color);
    }
    text += fmt::format("   {}", story(layer));
    if (layer.importance) text += fmt::format("; {:+.4f}", *layer.importance);
    if (layer.ablated) text += fmt::format(", all together {:+.4f}", layer.ablated->value);
    if (!layer.advice.empty()) text += fmt::format("; {}", layer.advice);
    text += "\n";
  }
  return text;
}

/// The letters that the grid has.
std::string legend(const Verdict& verdict, Color color) {
  struct Counts {
    int64_t filled = 0, hollow = 0;
  };
  std::map<std::string_view, Counts> heads;
  bool any_small = false, any_hollow = false;
  for (const HeadVerdict& head : verdict.heads) {
    Counts& counts = heads[main_role(head).name];
    ++(on_probes_only(head) ? counts.hollow : counts.filled);
    any_small = any_small || can_be_removed(head);
    any_hollow = any_hollow || on_probes_only(head);
  }
  std::string text = "\n";
  for (const RoleKind& kind : role_kinds()) {
    const auto at = heads.find(kind.name);
    if (at == heads.end()) continue;
    const auto& [filled, hollow] = at->second;
    text += fmt::format("{} {:<12}{:>4} {:<5} {}\n",
                        colored(fmt::format(" {} ", kind.letter), kind, color), kind.name, filled,
                        hollow == 0 ? "" : fmt::format("+ {}~", hollow), kind.meaning);
  }
  text += "Each head by its most special role; --explain LIST tells the others.";
  if (any_small) text += " Lower case: the model\ndoes without this head.";
  if (any_hollow) text += fmt::format("\n{} These are not counted with the others.", kHollow);
  return text + "\n";
}

/// Why the verdict may be wrong, and which roles the evidence could not show.
std::string cautions(const Verdict& verdict) {
  std::string text;
  for (const std::string& warning : verdict.warnings) text += fmt::format("\nwarning: {}", warning);
  std::map<std::string_view, std::vector<std::string_view>> missing;  // by --measure
  for (const RoleKind& kind : role_kinds()) {
    const bool measured = std::ranges::find(verdict.measured, kind.name) != verdict.measured.end();
    if (measured || kind.measured_by.empty() || kind.name == "alignment") continue;
    missing[kind.measured_by].push_back(kind.name);
  }
  for (const auto& [measure, roles] : missing) {
    text += fmt::format("\nnot measured: {} (headwise observe --measure {})",
                        fmt::join(roles, ", "), measure);
  }
  return text.empty() ? text : text + "\n";
}

std::string standings(const Verdict& verdict) {
  Standings heads;
  for (const HeadVerdict& head : verdict.heads) {
    if (!head.standing) continue;
    heads[*head.standing].emplace_back(head.importance.ablation_zero->value, head.head);
  }
  if (heads.empty()) {
    const bool measured = std::ranges::any_of(
        verdict.heads, [](const HeadVerdict& head) { return !!head.importance.ablation_zero; });
    return measured
               ? "\nhow much heads matter cannot be told by one example: observe more texts\n"
               : "\nhow much heads matter was not measured: headwise observe MODEL --input TEXTS\n";
  }
  return fmt::format("\nhow much heads matter: {}{}, {:.4g} tolerated\n", verdict.loss_task,
                     verdict.loss_task == "fidelity" ? " (1 - cosine)"
                                                     : fmt::format(" loss {:.4f}", verdict.loss),
                     verdict.tolerance) +
         to_text(std::move(heads), kShown);
}

/// Heads side by side, by each ranking, and how far the rankings agree.
std::string rankings(const Verdict& verdict) {
  constexpr std::pair<const char*, const char*> kOrders[] = {{"ablation_zero", "ablation"},
                                                             {"ablation_mean", "by its mean"},
                                                             {"gradient", "gradient"},
                                                             {"entropy", "low entropy"},
                                                             {"confidence", "high confidence"}};
  const auto reference = verdict.rankings.contains("ablation_zero") ? "ablation_zero" : "gradient";
  const auto row = verdict.correlation.find(reference);
  size_t longest = 9;
  for (const HeadVerdict& head : verdict.heads) longest = std::max(longest, head.head.size());
  std::string text;
  for (const auto& [name, title] : kOrders) {
    const auto at = verdict.rankings.find(name);
    if (at == verdict.rankings.end()) continue;
    text += fmt::format("{:<18}", title);
    for (size_t i = 0; i < std::min(kShown, at->second.size()); ++i) {
      text += fmt::format("{:<{}}", at->second[i], longest + 2);
    }
    if (row != verdict.correlation.end() && row->second.contains(name)) {
      text += fmt::format("{:+.2f}", row->second.at(name));
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  if (text.empty()) return text;
  return fmt::format(
      "\nrankings, the first heads of each{}\n{}",
      row == verdict.correlation.end()
          ? ""
          : fmt::format("; last: rank correlation with {}",
                        reference == std::string("gradient") ? "gradient" : "ablation"),
      text);
}

std::string redundant(const Verdict& verdict) {
  std::string text;
  for (const Cluster& cluster : verdict.clusters) {
    text += fmt::format("{:<14}{} could stand in for it\n", cluster.front(),
                        fmt::join(cluster.begin() + 1, cluster.end(), ", "));
  }
  std::string backups;
  for (const HeadVerdict& head : verdict.heads) {
    for (const std::string& other : head.backups) {
      const auto& back = verdict.head(other).backups;
      const bool told = std::ranges::find(back, head.head) != back.end() &&
                        std::ranges::find(verdict.heads, other, &HeadVerdict::head) <
                            std::ranges::find(verdict.heads, head.head, &HeadVerdict::head);
      if (!told) backups += fmt::format("{:<14}{} and it back each other up\n", head.head, other);
    }
  }
  if (text.empty() && backups.empty()) return "";
  return "\nredundant heads and backups\n" + text + backups;
}

/// What ablating all heads of a role did.
std::string categories(const Verdict& verdict) {
  Table table({-14, 6, 12, 12, 12, 12});
  table.row({"role", "heads", "all ablated", "half", "as many", "of draws"});
  table.row({"", "", "", "of them", "at random", "below"});
  bool any = false;
  for (const Category& category : verdict.categories) {
    if (!category.measured) continue;
    any = true;
    const Measures& measured = *category.measured;
    const Measure* const share = measured.find("above_random");
    table.row({category.role, fmt::format("{}", category.heads.size()),
               signed_value(measured, "ablation_zero"),
               signed_value(measured, "ablation_zero_half"),
               signed_value(measured, "ablation_zero_random"),
               share == nullptr ? "" : fmt::format("{:>10.0f} %", 100 * share->value)});
  }
  return any ? "\n" + table.text() : "";
}

}  // namespace

std::string to_text(const Verdict& verdict, Color color, int64_t width) {
  return fmt::format("{}: {}, {} heads\n\n", verdict.model.name, verdict.model.architecture,
                     grouped(std::ssize(verdict.heads))) +
         grid(verdict, color, width) + legend(verdict, color) + cautions(verdict) +
         standings(verdict) + rankings(verdict) + redundant(verdict) + categories(verdict);
}

std::string role_grid(const Verdict& verdict, Color color, int64_t width) {
  constexpr size_t kLine = 100;
  std::string text = grid(verdict, color, width), line;
  for (const RoleKind& kind : role_kinds()) {
    const bool there = std::ranges::any_of(
        verdict.heads, [&](const HeadVerdict& head) { return main_role(head).name == kind.name; });
    if (!there) continue;
    const std::string entry = fmt::format("{} {}", kind.letter, kind.name);
    if (line.size() + entry.size() > kLine) {
      text += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : "   ") + entry;
  }
  const bool any_hollow = std::ranges::any_of(verdict.heads, on_probes_only);
  return text + line +
         "\nLower case: the model does without this head alone. Each head by its most special "
         "role.\n" +
         (any_hollow ? fmt::format("{}\n", kHollow) : "");
}

std::string role_table(Color color) {
  std::string text = "roles, from the special to the general\n";
  for (const RoleKind& kind : role_kinds()) {
    text +=
        fmt::format("{} {:<13}{:<12}{}\n", colored(fmt::format(" {} ", kind.letter), kind, color),
                    kind.name, kind.group, kind.meaning);
  }
  text +=
      "\nNot claimed: roles in discourse, and roles for one task. Nothing that is measured shows "
      "them.\n\nthresholds, changed by --threshold NAME=VALUE\n";
  for (const Threshold& threshold : thresholds()) {
    text += fmt::format("{:<14}{:>6}  {}\n", threshold.name, threshold.value, threshold.meaning);
  }
  return text;
}

}  // namespace headwise::program
