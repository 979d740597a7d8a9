// headwise plan: which heads go, for which budget.
#include <fmt/format.h>

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
#include "headwise/judge/verdict.h"
#include "headwise/plan/make_plan.h"
#include "inputs.h"
#include "options.h"
#include "progress.h"
#include "screens.h"

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
  usage_error_if(given.size() > 1,
                 fmt::format("{}: a plan has one budget", fmt::join(given, " and ")));
  usage_error_if(!args.plan.drop.empty() && args.plan.uniform,
                 "--drop names heads, which --uniform would have to choose");
  usage_error_if(!args.plan.drop.empty() && !args.order.empty(),
                 "--drop names heads, which need no --order");
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
  usage_error_if(args.plan.uniform && args.model.empty(),
                 "--uniform: --model says how heads share keys and biases");
  usage_error_if(!args.loss.empty() && args.data.empty(),
                 "--loss: --data names what it is taken over");
  usage_error_if(args.truncate && args.data.empty(),
                 "--truncate: --data names the texts to be cut");
  usage_error_if(args.sample && args.data.empty(), "--sample: --data names what it is drawn from");
  usage_error_if(args.draws && args.curves.empty(),
                 "--draws: of random orders beside those of --curves");
  const bool greedy =
      args.order == "greedy" || std::ranges::find(args.curves, "greedy") != args.curves.end();
  usage_error_if(args.step && !greedy,
                 "--step: of --order greedy, or of its curve: --curves greedy");
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
  Progress progress(common.quiet);
  data.progress = [&](std::string_view step, int64_t done, int64_t total) {
    progress.advance(step, done, total);
  };
  const Plan made =
      session ? plan(session->model(), verdict, args.plan, data) : plan(verdict, args.plan);
  progress.clear();
  write_stage(common, to_json(made), to_text(made), "the plan");
}

void add_budgets(CLI::App& command, PlanArgs& options) {
  Options group(command, "Budget: one of these");
  group.keep(options.keep);
  group.heads_left(options.plan.heads);
  group.add("--speedup", options.plan.speedup, "S",
            "A forward pass gets so many times as fast, measured on this machine", finite(1));
  group.add("--max-loss", options.max_loss, "SHARE",
            "As many go as the loss can bear, which rises by no more than this share: 1%",
            is_share(1e9));
  group.add("--drop", options.plan.drop, "LIST", "These go: role:delimiter, L3.H1, L4");
}

void add_constraints(CLI::App& command, PlanArgs& options) {
  Options group(command, "Constraints");
  group
      .commas("--keep-roles", options.plan.keep_roles,
              "Heads of these roles stay; without a budget, all else goes")
      ->allow_extra_args(false);
  group.at_least(options.plan.at_least);
  group.flag("--uniform", options.plan.uniform,
             "As many heads stay in every layer, in groups of equal size");
}

void add_measuring(CLI::App& command, PlanArgs& options) {
  Options(command).order(options.order);
  Options group(command, "What must be measured");
  group.model("--model", options.model);
  group.data(options.data, "What the loss is taken over");
  group.loss(options.loss, "; default: the verdict's");
  group.sample(options.sample, "examples, drawn by the seed");
  group.truncate(options.truncate);
  group
      .commas("--curves", options.curves,
              "Measure the loss over heads removed in these orders, and at random",
              is_one_of(head_order_names()))
      ->allow_extra_args(false);
  group.add("--draws", options.draws, "N", "Random orders that a curve is the mean of; default: 5",
            whole_number(1, 1 << 20));
  group.add("--step", options.step, "N",
            "Greedy: heads that go before the others are measured again; default: 1",
            whole_number(1));
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
  Options(command)
      .argument("VERDICT", options->verdict, "verdict.json, as headwise judge wrote it")
      ->required();
  add_budgets(command, *options);
  add_constraints(command, *options);
  add_measuring(command, *options);
}

}  // namespace headwise::program
