// What comes out of a training, in figures.
#include <nlohmann/json.hpp>

#include "headwise/core/parallel.h"
#include "headwise/io/json_text.h"
#include "headwise/kernels/simd.h"
#include "headwise/model/model.h"
#include "headwise/train/trainer.h"
#include "train/train_records.h"

namespace headwise {
namespace {

using nlohmann::ordered_json;

ordered_json as_json(const Evaluation& evaluation, TrainTask task) {
  ordered_json result = figures_of(evaluation, task);
  result["scored"] = evaluation.scored;
  return result;
}

}  // namespace

double Evaluation::value(Metric metric) const {
  switch (metric) {
    case Metric::loss:
      return loss;
    case Metric::accuracy:
      return accuracy.value_or(0);
    case Metric::bleu:
      return bleu.value_or(0);
  }
  return loss;
}

std::string_view to_string(Kept kept) {
  switch (kept) {
    case Kept::last:
      return "last";
    case Kept::best:
      return "best";
    case Kept::average:
      return "average";
  }
  return "";
}

std::string to_json(const TrainSummary& summary, const TrainSettings& settings) {
  const TrainPlan& plan = summary.plan;
  ordered_json json = {{"task", to_string(settings.task)},
                       {"architecture", summary.config.model_type},
                       {"parameters", summary.parameters},
                       {"trained_parameters", plan.trained_parameters},
                       {"examples", plan.examples},
                       {"steps", summary.steps},
                       {"planned_steps", plan.steps},
                       {"stopped_early", summary.stopped_early},
                       {"tokens", summary.tokens},
                       {"seconds", summary.seconds},
                       {"tokens_per_second", summary.tokens_per_second},
                       {"threads", threads()},
                       {"simd", simd_target()},
                       {"seed", settings.seed}};
  json["kept"] = {{"state", to_string(summary.kept)}, {"steps", summary.kept_steps}};
  if (summary.validation) json["validation"] = as_json(*summary.validation, settings.task);
  if (summary.test) json["test"] = as_json(*summary.test, settings.task);
  json["files"] = summary.files;
  for (const AttentionSite& site : attention_sites(summary.config)) {
    json["layers"].push_back({{"name", site.name},
                              {"heads", site.heads.size()},
                              {"kv_heads", site.kv_heads},
                              {"head_dim", site.head_dim},
                              {"value_dim", site.value_dim}});
  }
  return json_text(json, 2);
}

}  // namespace headwise
