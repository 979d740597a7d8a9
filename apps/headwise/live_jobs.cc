// How the live page's jobs are done: as headwise observe, judge and plan do it.
#include "live_jobs.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/judge/judge.h"
#include "headwise/observe/importance.h"
#include "headwise/observe/text_data.h"
#include "headwise/plan/make_plan.h"
#include "headwise/text/lines.h"
#include "headwise/text/sample_text.h"
#include "interrupt.h"

namespace headwise::program {
namespace {

EvaluationSet read_loss(const Model& model, const JobRequest& request) {
  const std::vector<std::string> lines = lines_of(request.text ? *request.text : sample_text());
  TextOptions options{.truncate = true,
                      .progress = [](int64_t, int64_t) { throw_if_interrupted(); }};
  std::optional<EvaluationSet> set = text_data(model, lines, options).evaluation;
  if (!set) {
    options.loss = LossTask::fidelity;  // which needs no output
    set = text_data(model, lines, options).evaluation;
  }
  if (set && set->size() > 0) return std::move(*set);
  throw Error(
      {.what = "there is no text to measure on", .where = "text", .expected = "lines with words"});
}

std::string in_words(std::string_view step) {
  if (step == "ablation") return "ablating heads one by one";
  if (step == "gradient") return "taking gradients of gates";
  if (step == "loss") return "measuring the loss";
  return std::string(step);
}

}  // namespace

Json run_job(const Session& session, const JobRequest& request, const Engine::Report& report) {
  const Model& model = session.model();
  report("reading", 0, 1);
  const EvaluationSet set = read_loss(model, request);
  const auto progress = [&](std::string_view step, int64_t done, int64_t total) {
    report(in_words(step), done, total);
  };
  const bool plans = request.kind == "plan";
  Evidence evidence = no_evidence(model);
  evidence.model.name = model.name();
  ImportanceOptions options{.gradient = plans && request.order == "gradient",
                            .ablation_zero = !plans || request.order == "ablation",
                            .ablation_mean = false};
  options.progress = progress;
  observe_importance(model, set, options, evidence);
  if (plans) {
    const Plan made =
        plan(model, judge(evidence), {.keep = request.keep, .order = head_order(request.order)},
             {.evaluation = &set, .progress = progress});
    return Json::parse(to_json(made));
  }
  Json heads = Json::array();
  for (const HeadEvidence& head : evidence.heads) {
    const Measure* const ablated = head.measures.find("ablation_zero");
    if (ablated == nullptr) continue;
    Json row = {{"head", head.head}, {"value", ablated->value}};
    if (ablated->interval) {
      row["low"] = ablated->interval->low;
      row["high"] = ablated->interval->high;
    }
    heads.push_back(std::move(row));
  }
  return {{"heads", std::move(heads)},
          {"loss", {{"task", to_string(set.task)}, {"value", evidence.loss->value}}}};
}

}  // namespace headwise::program
