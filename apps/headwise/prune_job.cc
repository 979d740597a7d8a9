// Prunes, measures what came of it, and says so.
#include "prune_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/io/output_file.h"
#include "headwise/plan/follow_plan.h"
#include "progress.h"

namespace headwise::program {
namespace {

/// The file of the plan that gates make, beside the folder of the model.
std::string plan_file(std::filesystem::path out) {
  out = out.lexically_normal();
  if (!out.has_filename()) out = out.parent_path();
  const std::string file = out.string() + ".plan.json";
  if (!std::filesystem::exists(file)) return file;
  throw Error({.what = "prune: the plan would overwrite a file",
               .where = file,
               .hint = "move it away, or give another -o"});
}

}  // namespace

PruneOutcome prune_and_measure(PruneJob work, const Session& session, const std::string& out,
                               bool quiet) {
  const Model& model = session.model();
  check_form(model, work.options.form);
  PruneOutcome outcome;
  PartProgress progress(quiet);
  work.options.out = out;
  work.options.evaluation = work.quality ? &*work.quality : nullptr;
  work.options.progress = [&](std::string_view step, int64_t done, int64_t total) {
    throw_if_interrupted();
    if (step == "steps") progress.advance(step, done, total);
  };
  work.options.speed->check = throw_if_interrupted;
  if (!work.gates) {
    outcome.report = prune(model, work.plan, work.options).report();
    return outcome;
  }
  outcome.plan = plan_file(out);
  work.gates->training.progress = [&](int64_t done, int64_t steps, double) {
    progress.advance("gates", done, steps);
  };
  GatedPlan gated = learn_plan(model, work.options.recover->set, *work.gates);
  work.options.original = &model;
  outcome.report = prune(gated.model, gated.plan, work.options).report();
  // A plan without its model would stop every later run.
  write_file_whole(outcome.plan, to_json(gated.plan));
  outcome.gates = std::move(gated.gates);
  return outcome;
}

std::string to_json(const PruneOutcome& outcome) {
  using Json = nlohmann::ordered_json;
  Json json = Json::parse(to_json(outcome.report));
  if (!outcome.plan.empty()) {
    json["gates"] = {{"plan", outcome.plan}, {"values", Json::object()}};
    for (const auto& [head, gate] : outcome.gates) json["gates"]["values"][head] = gate;
  }
  return json.dump(2) + "\n";
}

std::string to_text(const PruneOutcome& outcome) {
  std::string text = to_text(outcome.report);
  if (!outcome.plan.empty()) text += fmt::format("\ngates chose the heads: {}\n", outcome.plan);
  return text;
}

std::string to_text(const PruneReport& report) {
  std::string text = fmt::format("{:<22}{:>16}{:>16}{:>10}\n", "", "before", "after", "ratio");
  for (const ReportRow& row : rows_of(report)) {
    text += fmt::format("{:<22}{:>16}{:>16}{:>10}\n", row.name, row.before, row.after,
                        row.ratio_text());
  }
  const char* const other = report.form == "masked" ? "compact" : "masked";
  text += fmt::format(
      "\n{}{} equals {} on {} {} ({} tokens): largest difference {:.1e} of the "
      "largest hidden state\n",
      report.recovered ? "before training, " : "", report.form, other, report.proof.texts,
      report.proof.random_ids ? "texts of random ids" : "texts", grouped(report.proof.tokens),
      report.proof.max_difference);
  return text;
}

}  // namespace headwise::program
