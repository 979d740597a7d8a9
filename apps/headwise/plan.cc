// headwise plan: which heads go, for which budget.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "corpus.h"
#include "headwise/core/error.h"
#include "headwise/io/output_file.h"
#include "headwise/judge/verdict.h"
#include "headwise/plan/make_plan.h"
#include "inputs.h"
#include "options.h"
#include "plan_screen.h"
#include "progress.h"

namespace headwise::program {
namespace {

struct PlanArgs {
  std::string verdict{}, model{}, loss{}, order{}, keep{}, max_loss{};
  std::vector<std::string> data{}, curves{};
  std::optional<int64_t> sample{}, draws{}, step{};
  bool truncate = false;
  PlanOptions plan{};
};

/// The budgets that were asked for, by their options.
std::vector<const char*> budgets(const PlanArgs& args) {
  std::vector<const char*> given;
  if (!args.keep.empty()) given.push_back("--keep");
  if (args.plan.heads) given.push_back("--heads");
  if (args.plan.speedup) given.push_back("--speedup");
  if (!args.max_loss.empty()) given.push_back("--max-loss");
  if (!args.plan.drop.empty()) given.push_back("--drop");
  return given;
}

void check(const PlanArgs& args) {
  const std::vector<const char*> given = budgets(args);
  if (given.empty() && args.plan.keep_roles.empty()) {
    usage_error(
        "a budget is missing: --keep, --heads, --speedup, --max-loss or --drop; or --keep-roles, "
        "and all else goes");
  }
  if (given.size() > 1) {
    usage_error(fmt::format("{}: a plan has one budget", fmt::join(given, " and ")));
  }
  if (!args.plan.drop.empty() && args.plan.uniform) {
    usage_error("--drop names heads, which --uniform would have to choose");
  }
  if (!args.plan.drop.empty() && !args.order.empty()) {
    usage_error("--drop names heads, which need no --order");
  }
  const auto needs = [&](bool asked, const char* option, bool data) {
    if (asked && (args.model.empty() || (data && args.data.empty()))) {
      usage_error(fmt::format("{}: this must be measured: give --model{}", option,
                              data ? " and --data" : ""));
    }
  };
  needs(args.order == "greedy", "--order greedy", true);
  needs(!args.curves.empty(), "--curves", true);
  needs(!args.max_loss.empty(), "--max-loss", true);
  needs(args.plan.speedup.has_value(), "--speedup", false);
  needs(!args.data.empty(), "--data", false);
  if (args.plan.uniform && args.model.empty()) {
    usage_error("--uniform: --model says how heads share keys and biases");
  }
  if (!args.loss.empty() && args.data.empty())
    usage_error("--loss: --data names what it is taken over");
  if (args.truncate && args.data.empty())
    usage_error("--truncate: --data names the texts to be cut");
  if (args.sample && args.data.empty()) usage_error("--sample: --data names what it is drawn from");
  if (args.draws && args.curves.empty())
    usage_error("--draws: of random orders beside those of --curves");
  const bool greedy =
      args.order == "greedy" || std::ranges::find(args.curves, "greedy") != args.curves.end();
  if (args.step && !greedy)
    usage_error("--step: of --order greedy, or of its curve: --curves greedy");
}

EvaluationSet read_data(const PlanArgs& args, const Session& session, const Verdict& verdict,
                        const CommonOptions& common) {
  LossTask task = default_task(session.config());
  if (!verdict.loss_task.empty()) task = loss_task(verdict.loss_task);
  if (!args.loss.empty()) task = loss_task(args.loss);
  EvaluationSet set = read_examples("--data", args.data, task, args.truncate, session);
  if (args.sample) sample_examples(set, *args.sample, common.seed);
  return set;
}

void make_plan(PlanArgs args, const CommonOptions& common) {
  check(args);
  const Verdict verdict = read_verdict(args.verdict);
  if (!args.keep.empty()) args.plan.keep = parse_share(args.keep);
  if (!args.max_loss.empty()) args.plan.max_loss = parse_share(args.max_loss);
  if (!args.order.empty()) args.plan.order = head_order(args.order);
  for (const std::string& order : args.curves) args.plan.curves.push_back(head_order(order));
  args.plan.draws = args.draws.value_or(args.plan.draws);
  args.plan.step = args.step.value_or(args.plan.step);
  args.plan.seed = common.seed;

  PlanData data;
  std::optional<Session> session;
  std::optional<EvaluationSet> set;
  if (!args.model.empty()) {
    session.emplace(InputOptions{.model = args.model});
    check_fits(verdict, session->model(), args.verdict, throw_if_interrupted);
  }
  if (!args.data.empty()) {
    set = read_data(args, *session, verdict, common);
    data.evaluation = &*set;
  }
  std::optional<PartProgress> progress(common.quiet);
  data.progress = [&](std::string_view step, int64_t done, int64_t total) {
    progress->advance(step, done, total);
  };
  const Plan made =
      session ? plan(session->model(), verdict, args.plan, data) : plan(verdict, args.plan);
  progress.reset();
  const std::string json = to_json(made);
  if (!common.out.empty()) write_file_whole(common.out, json);
  CommonOptions screen = common;
  screen.out.clear();
  write_output(screen, common.json ? json : to_text(made));
  if (!common.out.empty()) log_info(common, fmt::format("{} has the plan", common.out));
}

void add_budgets(CLI::App& command, PlanArgs& options) {
  const char* const group = "Budget: one of these";
  add_keep(command, options.keep)->group(group);
  add_heads_left(command, options.plan.heads)->group(group);
  command
      .add_option("--speedup", options.plan.speedup,
                  "A forward pass gets so many times as fast, measured on this machine")
      ->check(finite(1))
      ->type_name("S")
      ->group(group);
  command
      .add_option("--max-loss", options.max_loss,
                  "As many go as the loss can bear, which rises by no more than this share: 1%")
      ->check(is_share(1e9))
      ->type_name("SHARE")
      ->group(group);
  command.add_option("--drop", options.plan.drop, "These go: role:delimiter, L3.H1, L4")
      ->type_name("LIST")
      ->group(group);
}

void add_constraints(CLI::App& command, PlanArgs& options) {
  const char* const group = "Constraints";
  command
      .add_option("--keep-roles", options.plan.keep_roles,
                  "Heads of these roles stay; without a budget, all else goes")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("LIST")
      ->group(group);
  add_at_least(command, options.plan.at_least)->group(group);
  command
      .add_flag("--uniform", options.plan.uniform,
                "As many heads stay in every layer, in groups of equal size")
      ->group(group);
}

void add_measuring(CLI::App& command, PlanArgs& options) {
  const char* const group = "What must be measured";
  add_order(command, options.order);
  add_model(command, "--model", options.model)->group(group);
  add_data(command, options.data, "What the loss is taken over")->group(group);
  add_loss(command, options.loss, "; default: the verdict's")->group(group);
  add_sample(command, options.sample, "examples, drawn by the seed")->group(group);
  add_truncate(command, options.truncate)->group(group);
  command
      .add_option("--curves", options.curves,
                  "Measure the loss over heads removed in these orders, and at random")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(is_one_of(head_order_names()))
      ->type_name("LIST")
      ->group(group);
  command
      .add_option("--draws", options.draws, "Random orders that a curve is the mean of; default: 5")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20).description(""))
      ->type_name("N")
      ->group(group);
  command
      .add_option("--step", options.step,
                  "Greedy: heads that go before the others are measured again; default: 1")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40).description(""))
      ->type_name("N")
      ->group(group);
}

}  // namespace

void add_plan(CLI::App& app, CommonOptions& common) {
  const auto options = std::make_shared<PlanArgs>();
  CLI::App& command = add_command(
      app, "plan", "Which heads go, for which budget",
      "A verdict says how much heads matter; with a model and data, the plan says what it costs.\n"
      "-o FILE gets the plan as JSON, for prune: see docs/formats.md.\n\n"
      "Example:\n"
      "  headwise plan verdict.json --keep 0.6 --model ./minilm --data reviews.txt -o plan.json",
      common, [options, &common] { make_plan(*options, common); });
  command.add_option("VERDICT", options->verdict, "verdict.json, as headwise judge wrote it")
      ->required()
      ->type_name("");
  add_budgets(command, *options);
  add_constraints(command, *options);
  add_measuring(command, *options);
}

}  // namespace headwise::program
