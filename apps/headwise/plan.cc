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
#include "headwise/io/model_folder.h"
#include "headwise/judge/verdict.h"
#include "headwise/plan/make_plan.h"
#include "inputs.h"
#include "io/file.h"
#include "observe_verb.h"
#include "plan_screen.h"
#include "progress.h"
#include "stage_files.h"

namespace headwise::program {
namespace {

struct PlanVerb {
  std::string verdict{}, model{}, loss{}, order{}, keep{}, max_loss{};
  std::vector<std::string> data{}, curves{};
  std::optional<int64_t> sample{}, draws{}, step{};
  bool truncate = false;
  PlanOptions plan{};
};

/// The budgets that were asked for, by their options.
std::vector<const char*> budgets(const PlanVerb& verb) {
  std::vector<const char*> given;
  if (!verb.keep.empty()) given.push_back("--keep");
  if (verb.plan.heads) given.push_back("--heads");
  if (verb.plan.speedup) given.push_back("--speedup");
  if (!verb.max_loss.empty()) given.push_back("--max-loss");
  if (!verb.plan.drop.empty()) given.push_back("--drop");
  return given;
}

void check(const PlanVerb& verb) {
  const std::vector<const char*> given = budgets(verb);
  if (given.empty() && verb.plan.keep_roles.empty()) {
    misuse(
        "a budget is missing: --keep, --heads, --speedup, --max-loss or --drop; or --keep-roles, "
        "and all else goes");
  }
  if (given.size() > 1) {
    misuse(fmt::format("{}: a plan has one budget", fmt::join(given, " and ")));
  }
  if (!verb.plan.drop.empty() && verb.plan.uniform) {
    misuse("--drop names heads, which --uniform would have to choose");
  }
  if (!verb.plan.drop.empty() && !verb.order.empty()) {
    misuse("--drop names heads, which need no --order");
  }
  const auto needs = [&](bool asked, const char* option, bool data) {
    if (asked && (verb.model.empty() || (data && verb.data.empty()))) {
      misuse(fmt::format("{}: this must be measured: give --model{}", option,
                         data ? " and --data" : ""));
    }
  };
  needs(verb.order == "greedy", "--order greedy", true);
  needs(!verb.curves.empty(), "--curves", true);
  needs(!verb.max_loss.empty(), "--max-loss", true);
  needs(verb.plan.speedup.has_value(), "--speedup", false);
  needs(!verb.data.empty(), "--data", false);
  if (verb.plan.uniform && verb.model.empty()) {
    misuse("--uniform: --model says how heads share keys and biases");
  }
  if (!verb.loss.empty() && verb.data.empty()) misuse("--loss: --data names what it is taken over");
  if (verb.truncate && verb.data.empty()) misuse("--truncate: --data names the texts to be cut");
  if (verb.sample && verb.data.empty()) misuse("--sample: --data names what it is drawn from");
  if (verb.draws && verb.curves.empty())
    misuse("--draws: of random orders beside those of --curves");
  const bool greedy =
      verb.order == "greedy" || std::ranges::find(verb.curves, "greedy") != verb.curves.end();
  if (verb.step && !greedy) misuse("--step: of --order greedy, or of its curve: --curves greedy");
}

EvaluationSet read_data(const PlanVerb& verb, const Session& session, const Verdict& verdict,
                        const CommonOptions& common) {
  LossTask task = natural_loss(session.config());
  if (!verdict.loss_task.empty()) task = loss_task(verdict.loss_task);
  if (!verb.loss.empty()) task = loss_task(verb.loss);
  EvaluationSet set = read_examples("--data", verb.data, task, verb.truncate, session);
  if (verb.sample) sample_examples(set, *verb.sample, common.seed);
  return set;
}

void make_plan(PlanVerb verb, const CommonOptions& common) {
  check(verb);
  const Verdict verdict = read_verdict(verb.verdict);
  if (!verb.keep.empty()) verb.plan.keep = parse_share(verb.keep);
  if (!verb.max_loss.empty()) verb.plan.max_loss = parse_share(verb.max_loss);
  if (!verb.order.empty()) verb.plan.order = head_order(verb.order);
  for (const std::string& order : verb.curves) verb.plan.curves.push_back(head_order(order));
  verb.plan.draws = verb.draws.value_or(verb.plan.draws);
  verb.plan.step = verb.step.value_or(verb.plan.step);
  verb.plan.seed = common.seed;

  PlanData data;
  std::optional<Session> session;
  std::optional<EvaluationSet> set;
  if (!verb.model.empty()) {
    data.folder = find_model(verb.model);
    check_about(verdict, verb.verdict, verb.model, hash_of_weights(data.folder));
  }
  if (!verb.data.empty() || verb.plan.speedup) {
    session.emplace(InputOptions{.model = verb.model});
    data.model = &session->model();
    data.tokenizer = session->tokenizer();
  }
  if (!verb.data.empty()) {
    set = read_data(verb, *session, verdict, common);
    data.evaluation = &*set;
  }
  std::optional<PartProgress> progress(common.quiet);
  data.progress = [&](std::string_view step, int64_t done, int64_t total) {
    progress->advance(step, done, total);
  };
  const Plan made = plan(verdict, verb.plan, data);
  progress.reset();
  const std::string json = to_json(made);
  if (!common.out.empty()) write_file_whole(common.out, json);
  CommonOptions screen = common;
  screen.out.clear();
  deliver(screen, common.json ? json : for_people(made));
  if (!common.out.empty()) note(common, fmt::format("{} has the plan", common.out));
}

void add_budgets(CLI::App& verb, PlanVerb& options) {
  const char* const group = "Budget: one of these";
  verb.add_option("--keep", options.keep, "At most this share of the heads stays: 0.6 or 60%")
      ->check(is_share())
      ->type_name("SHARE")
      ->group(group);
  verb.add_option("--heads", options.plan.heads, "At most so many heads stay")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40).description(""))
      ->type_name("N")
      ->group(group);
  verb.add_option("--speedup", options.plan.speedup,
                  "A forward pass gets so many times as fast, measured on this machine")
      ->check(finite(1))
      ->type_name("S")
      ->group(group);
  verb.add_option("--max-loss", options.max_loss,
                  "As many go as the loss can bear, which rises by no more than this share: 1%")
      ->check(is_share(1e9))
      ->type_name("SHARE")
      ->group(group);
  verb.add_option("--drop", options.plan.drop, "These go: role:delimiter, L3.H1, L4")
      ->type_name("LIST")
      ->group(group);
}

void add_constraints(CLI::App& verb, PlanVerb& options) {
  const char* const group = "Constraints";
  verb.add_option("--keep-roles", options.plan.keep_roles,
                  "Heads of these roles stay; without a budget, all else goes")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("LIST")
      ->group(group);
  verb.add_option("--at-least", options.plan.at_least,
                  "So many heads stay in every layer; default: 1")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40).description(""))
      ->type_name("K")
      ->group(group);
  verb.add_flag("--uniform", options.plan.uniform,
                "As many heads stay in every layer, in groups of equal size")
      ->group(group);
}

void add_measuring(CLI::App& verb, PlanVerb& options) {
  const char* const group = "What must be measured";
  verb.add_option("--order", options.order,
                  "Which heads go first: ablation (default where it was measured), else gradient; "
                  "entropy, random, "
                  "twins-first or greedy, which measures again after each step")
      ->check(is_order())
      ->type_name("ORDER");
  verb.add_option("--model", options.model, "A Hugging Face folder, or an id in the local cache")
      ->type_name("MODEL")
      ->group(group);
  add_list(verb, "--data", options.data,
           "What the loss is taken over, as in docs/data.md; translate takes two")
      ->type_name("FILE")
      ->group(group);
  verb.add_option("--loss", options.loss,
                  "lm, mlm, classify, translate, similarity or fidelity; default: the verdict's")
      ->check(is_loss())
      ->type_name("TASK")
      ->group(group);
  verb.add_option("--sample", options.sample, "At most so many examples, drawn by the seed")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40).description(""))
      ->type_name("N")
      ->group(group);
  verb.add_flag("--truncate", options.truncate, "Cut texts that are too long for the model")
      ->group(group);
  verb.add_option("--curves", options.curves,
                  "Measure the loss over heads removed in these orders, and at random")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(is_order())
      ->type_name("LIST")
      ->group(group);
  verb.add_option("--draws", options.draws, "Random orders that a curve is the mean of; default: 5")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20).description(""))
      ->type_name("N")
      ->group(group);
  verb.add_option("--step", options.step,
                  "Greedy: heads that go before the others are measured again; default: 1")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40).description(""))
      ->type_name("N")
      ->group(group);
}

}  // namespace

void add_plan(CLI::App& app, CommonOptions& common) {
  const auto options = std::make_shared<PlanVerb>();
  CLI::App& verb = add_verb(
      app, "plan", "Which heads go, for which budget",
      "A verdict says how much heads matter; with a model and data, the plan says what it costs.\n"
      "-o FILE gets the plan as JSON, for prune: see docs/formats.md.\n\n"
      "Example:\n"
      "  headwise plan verdict.json --keep 0.6 --model ./minilm --data reviews.txt -o plan.json",
      common, [options, &common] { make_plan(*options, common); });
  verb.add_option("VERDICT", options->verdict, "verdict.json, as headwise judge wrote it")
      ->required()
      ->type_name("");
  add_budgets(verb, *options);
  add_constraints(verb, *options);
  add_measuring(verb, *options);
}

}  // namespace headwise::program
