// Writes records as JSON.
#include "train/train_records.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace headwise {

using nlohmann::ordered_json;

std::string to_record(const StepRecord& r) {
  const auto mean = [&](double sum) {
    return r.loss.scored > 0 ? ordered_json(sum / static_cast<double>(r.loss.scored))
                             : ordered_json();
  };
  ordered_json record = {{"step", r.step},
                         {"epoch", r.epoch},
                         {"loss", mean(r.loss.loss)},
                         {"nll", mean(r.loss.nll)},
                         {"rate", r.rate},
                         {"gradient_norm", r.gradient_norm},
                         {"tokens", r.tokens},
                         {"tokens_per_second", static_cast<double>(r.tokens) / r.step_seconds},
                         {"seconds", r.seconds}};
  for (const auto& [attention, open] : r.open_heads) record["open_heads"][attention] = open;
  return record.dump();
}

std::string to_record(int64_t step, const ordered_json& heads) {
  return ordered_json{{"step", step}, {"heads", heads}}.dump();
}

ordered_json figures_of(const Evaluation& evaluation, TrainTask task) {
  ordered_json figures = {{"loss", evaluation.loss}};
  if (task != TrainTask::similarity && task != TrainTask::classification) {
    figures["perplexity"] = std::exp(evaluation.loss);
  }
  if (evaluation.accuracy) figures["accuracy"] = *evaluation.accuracy;
  if (evaluation.bleu) figures["bleu"] = *evaluation.bleu;
  return figures;
}

std::string to_record(const EvaluationRecord& r) {
  ordered_json record = {
      {"step", r.evaluation.step}, {"epoch", r.epoch}, {"evaluation", "validation"}};
  record.update(figures_of(r.evaluation, r.task));
  record["best"] = r.best;
  record["seconds"] = r.seconds;
  return record.dump();
}

}  // namespace headwise
