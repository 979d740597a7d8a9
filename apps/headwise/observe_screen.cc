// Tables of evidence for a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "command.h"
#include "headwise/observe/importance.h"
#include "screens.h"

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
  std::vector<int> widths(shown.size() + 1, 10);
  widths[0] = -10;
  Table table(std::move(widths));
  std::vector<std::string> cells = {"layer"};
  for (const Column& column : shown) cells.emplace_back(column.title);
  cells.emplace_back("   (means over heads)");
  table.row(cells);
  for (const LayerEvidence& layer : evidence.layers) {
    cells = {layer.layer};
    for (const Column& column : shown) {
      const Measure* const measure = layer.measures.find(column.measure);
      cells.push_back(measure ? fmt::format(fmt::runtime(column.format), measure->value) : "");
    }
    table.row(cells);
  }
  return table.text();
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
                                    {"constant output", "constancy", 0.7},
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
  Standings heads;
  for (const HeadEvidence& head : evidence.heads) {
    const Measure* const ablation = head.measures.find("ablation_zero");
    if (ablation == nullptr || !ablation->interval) continue;
    heads[standing(*ablation->interval, tolerance, task)].emplace_back(ablation->value, head.head);
  }
  if (heads.empty()) return "";
  return fmt::format(
      "\nhow much heads matter: what ablating one adds to the loss ({}{})\n{}", evidence.loss->task,
      task == LossTask::fidelity ? ", 1 - cosine" : fmt::format(" {:.4f}", evidence.loss->value),
      to_text(std::move(heads), kShownHeads));
}

/// What ablating several heads at once does.
std::string groups(const Evidence& evidence) {
  if (evidence.groups.empty()) return "";
  Table table({-24, 7, 12, 12, 12});
  table.row({"ablated together", "heads", "adds", "half of it", "at random"});
  for (const GroupEvidence& group : evidence.groups) {
    table.row({group.name, fmt::format("{}", group.heads.size()),
               signed_value(group.measures, "ablation_zero"),
               signed_value(group.measures, "ablation_zero_half"),
               signed_value(group.measures, "ablation_zero_random")});
  }
  return "\n" + table.text();
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
  Table table({-30, 10, 10, 16, 10, 8});
  table.row({title, "head", "accuracy", "interval", "baseline", "n"});
  constexpr size_t kLines = 15;
  for (size_t i = 0; i < std::min(kLines, lines.size()); ++i) {
    const Measure& m = lines[i].second->measured;
    table.row({lines[i].first, lines[i].second->head, fmt::format("{:.2f}", m.value),
               fmt::format("{:.2f} to {:.2f}", m.interval->low, m.interval->high),
               fmt::format("{:.2f}", *m.baseline), grouped(m.n)});
  }
  const size_t more = lines.size() - std::min(kLines, lines.size());
  return "\n" + table.text() + (more > 0 ? fmt::format("and {} more\n", more) : "");
}

}  // namespace

std::string to_text(Standings standings, size_t most) {
  std::string text;
  for (auto& [standing, heads] : standings) {
    std::ranges::stable_sort(heads, std::ranges::greater(), &std::pair<double, std::string>::first);
    text += fmt::format("{:<14}{:>4} ", to_string(standing), heads.size());
    for (size_t i = 0; i < std::min(most, heads.size()); ++i) {
      text += fmt::format("  {} {:+.4f}", heads[i].second, heads[i].first);
    }
    text += heads.size() > most ? "  …\n" : "\n";
  }
  return text;
}

std::string signed_value(const Measures& measures, const char* name) {
  const Measure* const measure = measures.find(name);
  return measure == nullptr ? "" : fmt::format("{:+.4f}", measure->value);
}

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
         groups(evidence) + best_heads(evidence.best, "relation") +
         best_heads(evidence.best_probes, "relation, on the probes");
}

}  // namespace headwise::program
