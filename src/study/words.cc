// A study in sentences.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "headwise/observe/evaluation.h"
#include "headwise/study/study.h"
#include "study/budget.h"

namespace headwise {
namespace {

constexpr int64_t kSoManyAreHopeless = 100000;  // further examples

std::string percent_of(double share) {
  const double value = 100 * share;
  return fmt::format("{:.{}f} %", value, std::abs(value) < 9.95 ? 1 : 0);
}

std::string signed_percent(double share) {
  const double value = 100 * share;
  return fmt::format("{:+.{}f} %", value, std::abs(value) < 9.95 ? 1 : 0);
}

double saved(const BeforeAfter& numbers) {
  return numbers.before > 0 ? 1 - numbers.after / numbers.before : 0;
}

/// What an example of a task is called.
std::string examples_word(const std::string& task) {
  if (task == "similarity" || task == "translate") return "pairs";
  return task == "classify" ? "examples" : "texts";
}

std::string rounded_count(int64_t count) {
  const double unit =
      std::pow(10, std::max(0., std::floor(std::log10(std::max<int64_t>(1, count))) - 1));
  return fmt::format("{:.0f}", std::ceil(static_cast<double>(count) / unit) * unit);
}

std::string support(const Study& study) {
  if (study.plan.supported) return "";
  const std::string written =
      study.prune ? "The model was written because --keep was given." : "No model was written.";
  return fmt::format("The data do not support this plan: {}. {}",
                     fmt::join(study.plan.reasons, "; "), written);
}

std::string help(const Study& study) {
  if (study.plan.supported) return "";
  const HeldOut& held_out = *study.plan.held_out;
  const std::string& task = study.verdict.loss_task;
  const bool labelled = task == "classify" || task == "similarity" || task == "translate";
  const std::string what = labelled ? "examples (--data)" : "sentences (--input)";
  if (held_out.examples == 0) return fmt::format("What would help: 20 {} or more.", what);
  const int64_t more = study.undecided.heads > 0 ? study.undecided.examples_half : 0;
  // Half of what is given is held out.
  const int64_t wanted = 2 * std::max(more, held_out.chosen_on);
  std::string text =
      wanted > kSoManyAreHopeless
          ? fmt::format(
                "What would help: many more {}; most undecided heads are near the tolerance.", what)
          : fmt::format("What would help: about {} more {}.", rounded_count(wanted), what);
  if (held_out.random.draws > 0 && held_out.change >= held_out.random.median) {
    text += " Or remove fewer heads (--keep 0.9).";
  }
  return text;
}

std::string importance(const Study& study) {
  const Verdict& verdict = study.verdict;
  std::map<Standing, int64_t> counts;
  int64_t unmeasured = 0;
  for (const HeadVerdict& head : verdict.heads) {
    if (head.standing) {
      ++counts[*head.standing];
    } else {
      ++unmeasured;
    }
  }
  if (counts.empty()) return "how much the heads matter was not measured";
  std::string text = fmt::format("{} essential, {} replaceable", counts[Standing::essential],
                                 counts[Standing::replaceable]);
  if (counts[Standing::harmful] > 0) text += fmt::format(", {} harmful", counts[Standing::harmful]);
  if (unmeasured > 0) text += fmt::format(", {} not measured", unmeasured);
  if (counts[Standing::undecided] == 0) return text;
  text += fmt::format(", {} undecided: ", counts[Standing::undecided]);
  return text + (study.undecided.out_of_examples
                     ? fmt::format("{} {} are too few", choosing_examples(study.evidence),
                                   examples_word(verdict.loss_task))
                     : fmt::format("{:.0f} passes are too few", study.budget));
}

std::string cost(const HeldOut& held_out, int64_t removed) {
  if (held_out.examples == 0) return "not measured: " + held_out.reason;
  const bool fidelity = held_out.task == "fidelity", ranks = held_out.task == "similarity";
  const double unit = fidelity || ranks ? 1 : held_out.loss.before;
  const auto shown = [&](double change) {
    if (ranks) return fmt::format("{:+.4f}", change);
    return fidelity ? percent_of(change) : signed_percent(change / unit);
  };
  std::string text =
      fidelity ? fmt::format("embeddings move by {} (1 - cosine", percent_of(held_out.change))
               : fmt::format("{} loss {:.4g} -> {:.4g}, {}", held_out.task, held_out.loss.before,
                             held_out.loss.after, shown(held_out.change));
  if (held_out.interval) {
    text += fmt::format("{}95 % interval {} to {})", fidelity ? "; " : " (",
                        shown(held_out.interval->low), shown(held_out.interval->high));
  } else if (fidelity) {
    text += ")";
  }
  text += fmt::format(" on {} {} that did not choose the heads", held_out.examples,
                      examples_word(held_out.task));
  if (held_out.random.draws > 0) {
    text += fmt::format("; {} with {} heads at random (median of {} draws)",
                        shown(held_out.random.median), removed, held_out.random.draws);
  }
  return text;
}

/// Of plans that the data support, see support.h.
std::string comparison(const Study& study) {
  if (!study.plan.supported || study.plan.drop.empty() || !study.plan.held_out) return "";
  const HeldOut& held_out = *study.plan.held_out;
  if (held_out.examples == 0 || held_out.random.draws == 0) return "";
  const std::string text = "on held-out examples the plan costs less than as many heads at random";
  if (!held_out.interval) return text;
  return text + (held_out.interval->high < held_out.random.median
                     ? ", beyond its 95 % interval"
                     : ", but its 95 % interval includes them");
}

std::string meaning(const HeldOut& held_out) {
  std::vector<std::string> parts;
  if (const auto& near = held_out.neighbours) {
    parts.push_back(fmt::format("of {} nearest neighbours {:.1f} stay", near->of, near->kept));
  }
  if (held_out.agreement) {
    parts.push_back(
        fmt::format("{} of the labels are those of the original", percent_of(*held_out.agreement)));
  }
  if (const auto& perplexity = held_out.perplexity) {
    parts.push_back(
        fmt::format("perplexity {:.4g} -> {:.4g}", perplexity->before, perplexity->after));
  }
  if (!held_out.score_name.empty()) {
    parts.push_back(fmt::format("{} {:.4g} -> {:.4g}", held_out.score_name, held_out.score.before,
                                held_out.score.after));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string savings_of(const Savings& savings) {
  std::string text = fmt::format("{} of the parameters", percent_of(saved(savings.parameters)));
  if (savings.bytes) {
    text +=
        fmt::format(" ({:.1f} of {:.1f} MB)", (savings.bytes->before - savings.bytes->after) / 1e6,
                    savings.bytes->before / 1e6);
  }
  if (const auto& speed = savings.speed) {
    const std::string times =
        fmt::format("{:.3g} -> {:.3g} ms for {} x {} tokens", 1e3 * speed->before,
                    1e3 * speed->after, speed->texts, speed->tokens);
    if (speed->saves_time()) {
      return text + fmt::format(", {} of the time ({})",
                                percent_of(saved({speed->before, speed->after})), times);
    }
    const ConfidenceInterval &before = speed->before_interval, &after = speed->after_interval;
    return text + fmt::format(
                      ", and no measurable time ({}; {:.3g} to {:.3g} ms before, {:.3g} to {:.3g} "
                      "ms after)",
                      times, 1e3 * before.low, 1e3 * before.high, 1e3 * after.low,
                      1e3 * after.high);
  }
  return text + fmt::format(
                    " and {} of the multiply-adds of the layers; time is not measured without a "
                    "model",
                    percent_of(saved(savings.multiply_adds)));
}

std::string limit(const Savings& savings) {
  std::string text =
      fmt::format("attention is {} of the parameters and {} of the multiply-adds of the layers",
                  percent_of(savings.most_parameters), percent_of(savings.most_multiply_adds));
  if (savings.most_multiply_adds_long > 0) {
    text += fmt::format(" ({} at {} tokens)", percent_of(savings.most_multiply_adds_long),
                        savings.long_tokens);
  }
  return text + ": removing every head saves no more.";
}

std::string pays(const Study& study) {
  const Savings& savings = study.savings;
  if (!savings.speed) return "Whether that pays was not measured: no model was written.";
  const std::string more =
      fmt::format("To save more than {} of the work, take a model with fewer layers.",
                  percent_of(savings.most_multiply_adds));
  if (!savings.speed->saves_time()) {
    return fmt::format("It does not pay for speed here: it saves no measurable time. {}", more);
  }
  return fmt::format("It pays for a model that runs often, most of all on long texts. {}", more);
}

}  // namespace

StudyWords in_words(const Study& study) {
  const HeldOut held_out = study.plan.held_out.value_or(HeldOut{});
  return {.support = support(study),
          .help = help(study),
          .importance = importance(study),
          .cost = cost(held_out, std::ssize(study.plan.drop)),
          .meaning = meaning(held_out),
          .comparison = comparison(study),
          .savings = savings_of(study.savings),
          .limit = limit(study.savings),
          .pays = pays(study)};
}

}  // namespace headwise
