// Tables of evidence for a terminal.
#include "observe_screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "command.h"
#include "headwise/observe/importance.h"

namespace headwise::program {
namespace {

constexpr size_t kShownHeads = 3;  // heads per line

struct Column {
  const char* title;
  const char* measure;
  const char* format;
};

/// A row per layer.
std::string layers(const Evidence& evidence) {
  static constexpr Column kColumns[] = {
      {"entropy", "entropy", "{:.2f}"},        {"distance", "distance", "{:.1f}"},
      {"previous", "mass_previous", "{:.2f}"}, {"itself", "mass_self", "{:.2f}"},
      {"next", "mass_next", "{:.2f}"},         {"first", "mass_first", "{:.2f}"},
      {"special", "mass_special", "{:.2f}"},   {"diagonal", "diagonal", "{:.2f}"},
      {"ablation", "ablation_zero", "{:+.4f}"}};
  std::vector<Column> shown;
  for (const Column& column : kColumns) {
    if (std::ranges::any_of(evidence.layers, [&](const LayerEvidence& layer) {
          return layer.measures.find(column.measure) != nullptr;
        })) {
      shown.push_back(column);
    }
  }
  if (shown.empty()) return "";
  std::string text = fmt::format("{:<10}", "layer");
  for (const Column& column : shown) text += fmt::format("{:>10}", column.title);
  text += "   (means over heads)\n";
  for (const LayerEvidence& layer : evidence.layers) {
    text += fmt::format("{:<10}", layer.layer);
    for (const Column& column : shown) {
      const Measure* const measure = layer.measures.find(column.measure);
      text += fmt::format("{:>10}", measure == nullptr
                                        ? ""
                                        : fmt::format(fmt::runtime(column.format), measure->value));
    }
    text += "\n";
  }
  return text;
}

struct Line {
  const char* title;
  const char* measure;
  double least;                  // below it a head does not stand out
  const char* beside = nullptr;  // a measure that it must exceed by so much
};

/// The heads with the highest values, if they are worth naming.
std::string standing_out(const Evidence& evidence) {
  static constexpr Line kLines[] = {{"previous token", "mass_previous", 0.3},
                                    {"next token", "mass_next", 0.3},
                                    {"itself", "mass_self", 0.3},
                                    {"first token", "mass_first", 0.5},
                                    {"special tokens", "mass_special", 0.7},
                                    {"punctuation", "mass_punctuation", 0.3},
                                    {"rare tokens", "rare_share", 0.25, "rare_chance"},
                                    {"similar meaning", "semantic", 0.2},
                                    {"diagonal", "diagonal", 0.6},
                                    {"induction", "induction", 0.2},
                                    {"duplicate token", "duplicate", 0.2},
                                    {"says the same", "constancy", 0.7},
                                    {"next word's logit", "direct_logit", 0.1}};
  std::string text;
  for (const Line& line : kLines) {
    std::vector<std::pair<double, std::string>> heads;
    for (const HeadEvidence& head : evidence.heads) {
      const Measure* measure = head.measures.find(line.measure);
      if (measure == nullptr) measure = head.probes.find(line.measure);
      const Measure* const beside = line.beside ? head.measures.find(line.beside) : nullptr;
      if (measure != nullptr && measure->value > line.least + (beside ? beside->value : 0)) {
        heads.emplace_back(-measure->value, head.head);
      }
    }
    if (heads.empty()) continue;
    std::ranges::stable_sort(heads, {}, &std::pair<double, std::string>::first);
    text += fmt::format("{:<20}", line.title);
    for (size_t i = 0; i < std::min(kShownHeads, heads.size()); ++i) {
      text += fmt::format("  {} {:.2f}", heads[i].second, -heads[i].first);
    }
    if (heads.size() > kShownHeads)
      text += fmt::format("  and {} more", heads.size() - kShownHeads);
    text += "\n";
  }
  return text.empty() ? text : "\nheads that stand out\n" + text;
}

/// Which heads the model cannot do without, and how many it can.
std::string importance(const Evidence& evidence) {
  if (!evidence.loss) return "";
  const LossTask task = loss_task(evidence.loss->task);
  const double tolerance = tolerance_of(task, evidence.loss->value, tolerated_share(evidence));
  std::map<Standing, std::vector<std::pair<double, std::string>>> heads;
  for (const HeadEvidence& head : evidence.heads) {
    const Measure* const ablation = head.measures.find("ablation_zero");
    if (ablation == nullptr || !ablation->interval) continue;
    heads[standing(*ablation->interval, tolerance, task)].emplace_back(-ablation->value, head.head);
  }
  std::string text;
  for (auto& [standing, all] : heads) {
    std::ranges::stable_sort(all, {}, &std::pair<double, std::string>::first);
    text += fmt::format("{:<14}{:>4} ", to_string(standing), all.size());
    for (size_t i = 0; i < std::min(kShownHeads, all.size()); ++i) {
      text += fmt::format("  {} {:+.4f}", all[i].second, -all[i].first);
    }
    text += all.size() > kShownHeads ? "  …\n" : "\n";
  }
  if (text.empty()) return text;
  return fmt::format(
      "\nhow much heads matter: what ablating one adds to the loss ({}{})\n{}", evidence.loss->task,
      task == LossTask::fidelity ? ", 1 - cosine" : fmt::format(" {:.4f}", evidence.loss->value),
      text);
}

/// What ablating several heads at once does.
std::string groups(const Evidence& evidence) {
  if (evidence.groups.empty()) return "";
  std::string text = fmt::format("\n{:<24}{:>7}{:>12}{:>12}{:>12}\n", "ablated together", "heads",
                                 "adds", "half of it", "at random");
  for (const GroupEvidence& group : evidence.groups) {
    text += fmt::format("{:<24}{:>7}", group.name, group.heads.size());
    for (const char* name : {"ablation_zero", "ablation_zero_half", "ablation_zero_random"}) {
      const Measure* const measure = group.measures.find(name);
      text += fmt::format("{:>12}", measure ? fmt::format("{:+.4f}", measure->value) : "");
    }
    text += "\n";
  }
  return text;
}

/// Per relation the head that was chosen on one half and measured on the other.
std::string best_heads(const std::map<std::string, BestHead>& best, const std::string& title) {
  std::vector<std::pair<std::string, const BestHead*>> lines;
  for (const auto& [name, head] : best) {
    const Measure& measured = head.measured;
    if (measured.baseline && measured.interval && measured.interval->low > *measured.baseline)
      lines.emplace_back(name, &head);
  }
  if (lines.empty()) return "";
  std::ranges::stable_sort(lines, [](const auto& a, const auto& b) {
    const auto gain = [](const BestHead& h) { return h.measured.value - *h.measured.baseline; };
    return gain(*a.second) > gain(*b.second);
  });
  std::string text = fmt::format("\n{:<30}{:>10}{:>10}{:>16}{:>10}{:>8}\n", title, "head",
                                 "accuracy", "interval", "without", "n");
  constexpr size_t kLines = 15;
  for (size_t i = 0; i < std::min(kLines, lines.size()); ++i) {
    const Measure& m = lines[i].second->measured;
    text += fmt::format(
        "{:<30}{:>10}{:>10.2f}{:>16}{:>10.2f}{:>8}\n", lines[i].first, lines[i].second->head,
        m.value,
        m.interval ? fmt::format("{:.2f} to {:.2f}", m.interval->low, m.interval->high) : "",
        *m.baseline, grouped(m.n));
  }
  if (lines.size() > kLines) text += fmt::format("and {} more\n", lines.size() - kLines);
  return text;
}

}  // namespace

std::string to_text(const Evidence& evidence) {
  std::string text = fmt::format("{}: {}, {} heads\n", evidence.model.name,
                                 evidence.model.architecture, evidence.heads.size());
  for (const auto& [kind, corpus] : evidence.corpora) {
    text +=
        fmt::format("{}: {}{}{}\n", kind, corpus.name,
                    corpus.texts > 0 ? fmt::format(", {} texts", grouped(corpus.texts)) : "",
                    corpus.tokens > 0 ? fmt::format(", {} tokens", grouped(corpus.tokens)) : "");
  }
  return text + "\n" + layers(evidence) + standing_out(evidence) + importance(evidence) +
         groups(evidence) + best_heads(evidence.best, "who knows") +
         best_heads(evidence.best_probes, "who knows, on the probes");
}

}  // namespace headwise::program
