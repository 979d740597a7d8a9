// How a training is shown.
#include "train_screen.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <set>
#include <utility>

#include "command.h"
#include "headwise/model/model.h"
#include "screen.h"

namespace headwise::program {
namespace {

/// "8 heads of 32", or "4 to 8 heads".
std::string heads_of(const ModelConfig& config) {
  std::set<size_t> counts;
  std::set<int64_t> widths;
  for (const AttentionSite& site : attention_sites(config)) {
    counts.insert(site.heads.size());
    widths.insert(site.head_dim);
  }
  if (counts.empty()) return "no heads";
  if (counts.size() > 1) {
    return fmt::format("{} to {} heads by layer", *counts.begin(), *counts.rbegin());
  }
  const std::string many =
      *counts.begin() == 1 ? "1 head" : fmt::format("{} heads", *counts.begin());
  return widths.size() == 1 ? fmt::format("{} of {}", many, *widths.begin()) : many;
}

std::string layers_of(const ModelConfig& config) {
  return config.encoder_decoder()
             ? fmt::format("{}+{} layers", config.encoder.layers(), config.decoder.layers())
             : fmt::format("{} layers", config.encoder.layers() + config.decoder.layers());
}

}  // namespace

std::string figures(const Evaluation& evaluation, TrainTask task) {
  std::string text = fmt::format("loss {:.4f}", evaluation.loss);
  if (task != TrainTask::similarity && task != TrainTask::classification) {
    text += fmt::format(", perplexity {:.3f}", std::exp(evaluation.loss));
  }
  if (evaluation.accuracy) text += fmt::format(", accuracy {:.2f} %", 100 * *evaluation.accuracy);
  if (evaluation.bleu) text += fmt::format(", BLEU {:.2f}", *evaluation.bleu);
  return text;
}

TrainScreen::TrainScreen(const TrainSettings& settings, bool quiet)
    : settings_(settings), quiet_(quiet), progress_(quiet) {}

void TrainScreen::planned(const TrainPlan& plan) {
  const ModelConfig& config = plan.config;
  const auto row = [&](const char* name, const std::string& text) {
    line(fmt::format("{:<12}{}", name, text));
  };
  row("task", std::string(to_string(settings_.task)));
  row("model", fmt::format("{}{}, width {}, {}, {}, vocabulary {}", settings_.scratch ? "new " : "",
                           config.model_type, config.width, layers_of(config), heads_of(config),
                           grouped(config.vocabulary)));
  row("parameters", plan.trained_parameters == plan.parameters
                        ? grouped(plan.parameters)
                        : fmt::format("{}, of which {} are trained", grouped(plan.parameters),
                                      grouped(plan.trained_parameters)));
  std::string data =
      fmt::format("{} examples, {} tokens", grouped(plan.examples), grouped(plan.tokens_per_epoch));
  if (plan.validation_examples > 0) {
    data += fmt::format("; {} to validate", grouped(plan.validation_examples));
  }
  if (plan.test_examples > 0) data += fmt::format("; {} to test", grouped(plan.test_examples));
  row("data", data);
  row("steps", fmt::format("{} ({:.3g} epochs of {} batches of up to {} tokens)",
                           grouped(plan.steps), plan.epochs, grouped(plan.batches_per_epoch),
                           grouped(settings_.tokens_per_batch)));
  if (plan.resumed_at > 0) row("goes on", fmt::format("after step {}", grouped(plan.resumed_at)));
}

void TrainScreen::stepped(const TrainProgress& progress) {
  const auto now = Clock::now();
  if (!told_time_ && now - start_ > std::chrono::seconds(10)) {
    line(fmt::format("{:<12}{}, at {} tokens/s", "time", duration(progress.seconds_left),
                     grouped(static_cast<int64_t>(progress.tokens_per_second))));
    told_time_ = true;
  }
  if (!progress_.is_terminal() || !progress_.is_due()) return;  // elsewhere, evaluations say enough
  progress_.show(fmt::format("step {} of {}, epoch {:.2f}, loss {:.4f}, {} tokens/s, {} left{}",
                             grouped(progress.step), grouped(progress.steps), progress.epoch,
                             progress.loss,
                             grouped(static_cast<int64_t>(progress.tokens_per_second)),
                             duration(progress.seconds_left), last_evaluation_));
}

void TrainScreen::evaluated(const Evaluation& evaluation, bool best) {
  const std::string text = figures(evaluation, settings_.task);
  line(fmt::format("step {}: {}{}", grouped(evaluation.step), text, best ? " (best)" : ""));
  last_evaluation_ = fmt::format("; step {}: {}", grouped(evaluation.step), text);
}

bool TrainScreen::interrupted() { return was_interrupted(); }

void TrainScreen::line(const std::string& text) {
  if (quiet_) return;
  progress_.clear();
  print_error(fmt::format("{}\n", text));
}

}  // namespace headwise::program
