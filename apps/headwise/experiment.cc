// headwise experiment: claims about heads, put to the test.
#include "headwise/experiment/experiment.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "command.h"
#include "headwise/io/json_text.h"
#include "options.h"
#include "progress.h"

namespace headwise::program {
namespace {

struct ExperimentArgs {
  std::string name{}, judge{}, table{};
  std::string data = ExperimentOptions().data.string();
  std::vector<std::string> models{};
  bool quick = false;
};

/// What the committed result says; none: it was not run yet.
std::optional<ClaimVerdict> committed(const ExperimentInfo& info) {
  if (info.verdict.empty()) return std::nullopt;
  return claim_verdict_from_json(info.verdict,
                                 fmt::format("experiments/{}/result/verdict.json", info.name));
}

std::string known_outcome(const ExperimentInfo& info) {
  if (!info.not_decided.empty()) return std::string(to_string(ClaimOutcome::not_decided));
  const std::optional<ClaimVerdict> verdict = committed(info);
  return verdict ? std::string(to_string(verdict->outcome)) : "not run yet";
}

std::string claims_as_json() {
  Json claims = Json::array();
  for (const ExperimentInfo& info : experiments()) {
    claims.push_back({{"experiment", info.name},
                      {"claim", info.claim},
                      {"source", info.source},
                      {"verdict", known_outcome(info)}});
  }
  return json_text(claims);
}

std::string claims_as_text() {
  std::string text;
  for (const ExperimentInfo& info : experiments()) {
    text += fmt::format("{:<22}  {:<16}  {}\n", info.name, known_outcome(info), info.claim);
  }
  return text;
}

std::string verdict_text(const ClaimVerdict& verdict) {
  std::string text =
      fmt::format("{}: {}{}{}\n{}\n", verdict.experiment, to_string(verdict.outcome),
                  verdict.depends_on.empty() ? "" : ": ", verdict.depends_on, verdict.why);
  if (verdict.quick) text += "A quick run says nothing about the claim.\n";
  if (verdict.figure) {
    text += fmt::format("{:.4g} {}", *verdict.figure, verdict.figure_name);
    if (verdict.interval) {
      text +=
          fmt::format(" (95 %: {:.4g} to {:.4g})", verdict.interval->low, verdict.interval->high);
    }
    text += fmt::format(", n = {}\n", verdict.n);
  }
  return text;
}

void run_named_experiment(const ExperimentArgs& args, const CommonOptions& common) {
  usage_error_if(common.out.empty(), "-o names the folder that the trials are written to");
  Progress progress(common.quiet);
  std::string said;
  const ExperimentOptions options{
      .quick = args.quick,
      .models = args.models,
      .data = args.data,
      .seed = common.seed,
      .progress = [&](std::string_view trial, int64_t number, int64_t trials, int64_t done,
                      int64_t total) {
        throw_if_interrupted();
        if (said != trial) {
          said = trial;
          log_info(common, fmt::format("trial {} of {}: {}", number + 1, trials, trial));
        }
        progress.advance("parts", done, total);
      }};
  const ClaimVerdict verdict = run_experiment(args.name, common.out, options);
  print_result(common.json ? to_json(verdict) : verdict_text(verdict));
  if (verdict.left > 0) {
    log_info(common,
             fmt::format("{} trials are left: their models are not given. docs/claims.md has "
                         "the command with every --model; it goes on where this one ended",
                         verdict.left));
  }
}

void run_experiments(const ExperimentArgs& args, const CommonOptions& common) {
  const bool runs = args.quick || !args.models.empty();
  if (!args.judge.empty() || !args.table.empty()) {
    usage_error_if(!args.name.empty() || runs || (!args.judge.empty() && !args.table.empty()),
                   "--judge and --table read results, and take nothing else");
    if (!args.table.empty()) return write_output(common, claims_table(args.table));
    const ClaimVerdict verdict = judge_experiment(args.judge);
    return write_output(common, common.json ? to_json(verdict) : verdict_text(verdict));
  }
  if (args.name.empty()) {
    usage_error_if(runs, "NAME is missing: headwise experiment lists the claims");
    return write_output(common, common.json ? claims_as_json() : claims_as_text());
  }
  run_named_experiment(args, common);
}

}  // namespace

void add_experiment(CLI::App& app, CommonOptions& common) {
  const auto args = std::make_shared<ExperimentArgs>();
  CLI::App& command = add_command(
      app, "experiment", "Claims about heads, put to the test",
      "Without NAME, the claims and what came out. -o is the folder of a run: the same command\n"
      "again goes on with trials that are not done. See docs/experiments.md and docs/claims.md.\n\n"
      "Example:\n"
      "  headwise experiment\n"
      "  headwise experiment harmful-heads -o ./harmful --model ./stories260k\n"
      "  headwise experiment --judge experiments/harmful-heads/result",
      common, [args, &common] { run_experiments(*args, common); });
  Options declare(command);
  declare.argument("NAME", args->name, "One of the experiments");
  declare.flag("--quick", args->quick,
               "Check the machinery in 10 s, with models that are made on the spot");
  declare.list("--model", args->models, "MODEL",
               "A folder of a model that the settings name; may be given several times");
  declare.add("--data", args->data, "FOLDER", "The folder of the data; default: " + args->data);
  declare.add("--judge", args->judge, "FOLDER",
              "Derive the verdict again from the trials of this folder");
  declare.add("--table", args->table, "FOLDER",
              "The page of all claims, from a folder like experiments/ with results");
}

}  // namespace headwise::program
