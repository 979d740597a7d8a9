// Prints what people came for first.
#include "study_screen.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "headwise/judge/judge.h"
#include "heat_map.h"
#include "judge_screen.h"
#include "plan_screen.h"
#include "prune_verb.h"
#include "verb.h"

namespace headwise::program {
namespace {

constexpr size_t kMostLayers = 30;  // that the grid shows unless it is asked for

std::string percent(double share) {
  const double value = 100 * share;
  return fmt::format("{:.{}f} %", value, std::abs(value) < 9.95 ? 1 : 0);
}

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

std::string standings(const Study& study) {
  const Verdict& verdict = study.verdict;
  std::map<Standing, int64_t> counts;
  for (const HeadVerdict& head : verdict.heads) {
    if (head.standing) ++counts[*head.standing];
  }
  if (counts.empty()) return "How much the heads matter was not measured.\n";
  const auto heads = [&](Standing standing) { return counts[standing]; };
  const bool fidelity = verdict.loss_task == "fidelity";
  std::string text = fmt::format(
      "Importance    {} of {} heads can be removed one at a time ({} {:.4g}), {} are essential",
      heads(Standing::replaceable) + heads(Standing::harmful), verdict.heads.size(),
      fidelity ? "output moves by at most" : "loss rises by at most", verdict.tolerance,
      heads(Standing::essential));
  if (heads(Standing::harmful) > 0) {
    text += fmt::format(", {} are harmful", heads(Standing::harmful));
  }
  text += "\n";
  if (study.undecided.heads > 0) {
    text += fmt::format(
        "              {} are undecided; about {:.0f} passes over more texts would decide half of "
        "them\n",
        study.undecided.heads, study.undecided.passes_half);
  }
  return text;
}

std::string savings(const Study& study) {
  const ModelState &before = study.prune.before, &after = study.prune.after;
  const auto saved = [](int64_t a, int64_t b) {
    return percent(1 - static_cast<double>(b) / static_cast<double>(std::max<int64_t>(1, a)));
  };
  std::string text =
      fmt::format("Pruned        {} of {} heads removed ({}): {} of the parameters",
                  before.heads - after.heads, before.heads, saved(before.heads, after.heads),
                  saved(before.summary.parameters, after.summary.parameters));
  if (!study.prune.speed.empty()) {
    const SpeedComparison& speed = study.prune.speed.back();
    text += fmt::format(" and {} of the time saved ({} x {} tokens)",
                        percent(1 - speed.after / speed.before), speed.texts, speed.tokens);
  }
  text += "\n";
  if (before.loss && after.loss) {
    text += fmt::format("              {} {:.4f} -> {:.4f}",
                        before.loss->task == "fidelity" ? "1 - cosine with the original"
                                                        : before.loss->task + " loss",
                        before.loss->value, after.loss->value);
    const auto random = study.plan.curves.find("random");
    if (random != study.plan.curves.end()) {
      const int64_t removed = before.heads - after.heads;
      const CurvePoint* nearest = nullptr;
      for (const CurvePoint& point : random->second) {
        const auto distance = [&](const CurvePoint& one) {
          return std::abs(one.removed - removed);
        };
        if (nearest == nullptr || distance(point) < distance(*nearest)) nearest = &point;
      }
      if (nearest != nullptr && nearest->removed > 0) {
        text += fmt::format(" ({:.4f} with {} heads removed at random)", nearest->loss,
                            nearest->removed);
      }
    }
    text += ", on the texts that chose the heads\n";
  }
  text += fmt::format(
      "Limit         attention is {} of the parameters and {} of the multiply-adds of the layers:\n"
      "              removing every head could save no more\n",
      percent(static_cast<double>(before.summary.attention_parameters) /
              static_cast<double>(std::max<int64_t>(1, before.summary.parameters))),
      percent(study.attention_share));
  return text;
}

}  // namespace

StudyProgressLine::StudyProgressLine(bool quiet)
    : quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0) {}

void StudyProgressLine::show(const StudyProgress& progress) {
  const auto now = Clock::now();
  const auto pause = terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(10);
  if (quiet_ || now - last_ < pause) return;
  last_ = now;
  std::string text = fmt::format("{}: ", progress.stage);
  if (progress.total > 1) {
    text += fmt::format("{:.0f} % done, ", 100. * static_cast<double>(progress.done) /
                                               static_cast<double>(progress.total));
  }
  text += fmt::format("{} left, {} in all", duration(progress.stage_seconds),
                      duration(progress.seconds));
  complain(terminal_ ? fmt::format("\r\x1b[K{}", text) : fmt::format("headwise: {}\n", text));
  shown_ = true;
}

void StudyProgressLine::clear() {
  if (shown_ && terminal_) complain("\r\x1b[K");
  shown_ = false;
}

std::string to_text(const Study& study, const std::string& out, bool verbose) {
  const Verdict& verdict = study.verdict;
  std::string text = fmt::format("{}: {}, {} layers, {} heads, {} parameters\n\n",
                                 verdict.model.name, verdict.model.architecture,
                                 verdict.layers.size(), grouped(std::ssize(verdict.heads)),
                                 grouped(study.prune.before.summary.parameters));
  text += fmt::format("Roles         {}\n", counted_roles(verdict));
  text += standings(study) + savings(study) + "\n";
  const Color color = choose_color("auto");
  const int64_t width = terminal_width();
  if (verbose) {
    const auto title = [](const char* words) { return fmt::format("\n== {}\n\n", words); };
    text += for_people(verdict, color, width) + title("Plan") + for_people(study.plan) +
            title("Before and after") + for_people(study.prune) + title("Cost");
    for (const StudyStage& stage : study.stages) {
      text += fmt::format("{:<14}{:>8.1f} s{:>10.1f} passes\n", stage.name, stage.seconds,
                          stage.passes);
    }
    text += "\n";
  } else if (verdict.layers.size() <= kMostLayers) {
    text += role_grid(verdict, color, width) + "\n";
  }
  const std::filesystem::path folder = out;
  return text +
         fmt::format(
             "{}: everything on one page, for any browser\n"
             "{}: the pruned model, equal to the original with these heads ablated (largest\n"
             "  difference {:.1e} of the largest hidden state on {} texts)\n"
             "headwise judge {} --explain all: a sentence about every head\n"
             "This took {} ({:.0f} passes){}.\n",
             (folder / "report.html").string(), (folder / "model").string(),
             study.prune.proof.max_difference, study.prune.proof.texts,
             (folder / "evidence.json").string(), duration(study.seconds()), study.passes(),
             verbose ? "" : "; --verbose prints every table");
}

}  // namespace headwise::program
