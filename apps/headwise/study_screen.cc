// Prints what people came for first.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "command.h"
#include "headwise/judge/judge.h"
#include "screens.h"

namespace headwise::program {
namespace {

constexpr int64_t kMostLines = 50;  // unless more are asked for
constexpr size_t kLabelWidth = 14, kLineWidth = 108;

/// "106 of 144 heads have one: relation 12, delimiter 9, …; 7 more on probe sentences only"
std::string counted_roles(const Verdict& verdict) {
  const RoleCounts counts = count_roles(verdict);
  const auto sum = [](const std::map<std::string, int64_t>& roles) {
    int64_t heads = 0;
    for (const auto& [role, count] : roles) heads += count;
    return heads;
  };
  std::vector<std::pair<int64_t, std::string>> sorted;  // the most frequent first
  for (const auto& [role, count] : counts.main_data) sorted.emplace_back(-count, role);
  std::ranges::sort(sorted);
  std::string text =
      fmt::format("{} of {} heads have one", sum(counts.main_data), verdict.heads.size());
  const char* before = ": ";
  for (const auto& [count, role] : sorted) {
    text += fmt::format("{}{} {}", std::exchange(before, ", "), role, -count);
  }
  if (const int64_t more = sum(counts.main_probes); more > 0) {
    text += fmt::format("; {} more on probe sentences only", more);
  }
  return text;
}

/// "case to_head L2.H8 (69 %, offset 38 %), …"; empty without a treebank.
std::string found_relations(const Study& study) {
  constexpr size_t kMost = 6;
  if (!study.evidence.corpora.contains("treebank")) return "";
  const std::vector<RelationHead> best = best_relation_heads(study.verdict);
  if (best.empty()) return "no head is surely better than the best fixed offset at one";
  std::string text;
  for (size_t i = 0; i < std::min(kMost, best.size()); ++i) {
    text +=
        fmt::format("{}{} {} ({}, offset {})", i == 0 ? "" : ", ", best[i].relation, best[i].head,
                    percent(best[i].shown.value), percent(best[i].shown.baseline.value_or(0)));
  }
  return best.size() > kMost ? fmt::format("{}, and {} more", text, best.size() - kMost) : text;
}

/// "Label         text", in lines of at most so many characters.
std::string labelled(const std::string& label, const std::string& text) {
  std::string lines, line = fmt::format("{:<{}}", label, kLabelWidth);
  const std::string indent(kLabelWidth, ' ');
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (line.size() > kLabelWidth && line.size() + 1 + word.size() > kLineWidth) {
      lines += line + "\n";
      line = indent;
    }
    if (line.size() > kLabelWidth) line += " ";
    line += word;
    begin = end + 1;
  }
  return lines + line + "\n";
}

std::string answers(const Study& study) {
  const StudyWords words = in_words(study);
  const Verdict& verdict = study.verdict;
  const size_t heads = verdict.heads.size();
  std::string importance = words.importance;
  if (verdict.tolerance > 0) {
    importance +=
        fmt::format(" (replaceable: alone, {} by at most {:.4g})",
                    verdict.loss_task == "fidelity" ? "it moves the output" : "it raises the loss",
                    verdict.tolerance);
  }
  const std::string plan =
      fmt::format("removes {} of {} heads ({}), in the order: {}", study.plan.drop.size(), heads,
                  percent(static_cast<double>(study.plan.drop.size()) / static_cast<double>(heads)),
                  study.plan.order);
  return labelled("Importance", importance) + labelled("Plan", plan) +
         labelled("Cost", words.cost + (words.meaning.empty() ? "" : "; " + words.meaning)) +
         labelled("Saved", words.savings) + labelled("Limit", words.limit + " " + words.pays);
}

int64_t lines_in(const std::string& text) { return std::ranges::count(text, '\n'); }

}  // namespace

std::string to_text(const StudyProgress& progress) {
  std::string text = fmt::format("{}: ", progress.stage);
  if (progress.total > 1) {
    text += fmt::format("{:.0f} % done, ", 100. * static_cast<double>(progress.done) /
                                               static_cast<double>(progress.total));
  }
  return text + fmt::format("{} left, {} in all", duration(progress.stage_seconds),
                            duration(progress.seconds));
}

std::string to_text(const Study& study, const std::string& out, bool verbose) {
  const Verdict& verdict = study.verdict;
  std::string text = fmt::format("{}: {}, {} layers, {} heads, {} parameters\n\n",
                                 verdict.model.name, verdict.model.architecture,
                                 verdict.layers.size(), grouped(std::ssize(verdict.heads)),
                                 grouped(std::llround(study.savings.parameters.before)));
  const StudyWords words = in_words(study);
  if (!words.support.empty()) text += labelled("", words.support) + labelled("", words.help) + "\n";
  text += labelled("Roles", counted_roles(verdict));
  if (const std::string found = found_relations(study); !found.empty()) {
    text += labelled("Relations", found);
  }
  text += answers(study) + "\n";
  const std::filesystem::path folder = out;
  std::string end = fmt::format("{}: everything on one page, for any browser\n",
                                (folder / "report.html").string());
  if (study.prune) {
    end += fmt::format(
        "{}: the pruned model, equal to the original with these heads ablated\n"
        "  (largest difference {:.1e} of the largest hidden state on {} texts)\n",
        (folder / "model").string(), study.prune->proof.max_difference, study.prune->proof.texts);
  } else {
    end += fmt::format("headwise prune MODEL {} writes the model of this plan all the same\n",
                       (folder / "plan.json").string());
  }
  end += fmt::format(
      "headwise judge {} --explain all: a sentence about every head\n"
      "This took {} ({:.0f} passes){}.\n",
      (folder / "evidence.json").string(), duration(study.seconds()), study.passes(),
      verbose ? "" : "; --verbose prints every table");
  const Color color = choose_color("auto");
  const int64_t width = terminal_width();
  if (verbose) {
    const auto title = [](const char* words) { return fmt::format("\n== {}\n\n", words); };
    text += to_text(verdict, color, width) + title("Plan") + to_text(study.plan);
    if (study.prune) text += title("Before and after") + to_text(*study.prune);
    text += title("Cost");
    for (const StudyStage& stage : study.stages) {
      text += fmt::format("{:<14}{:>8.1f} s{:>10.1f} passes\n", stage.name, stage.seconds,
                          stage.passes);
    }
    return text + "\n" + end;
  }
  const std::string grid = role_grid(verdict, color, width) + "\n";
  const bool fits = lines_in(text) + lines_in(grid) + lines_in(end) <= kMostLines;
  return text + (fits ? grid : "") + end;
}

}  // namespace headwise::program
