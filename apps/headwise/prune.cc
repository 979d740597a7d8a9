// headwise prune: cuts heads out of a model, and shows what that cost and what it gained.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "corpus.h"
#include "headwise/core/error.h"
#include "headwise/io/json_text.h"
#include "headwise/io/output_file.h"
#include "headwise/observe/evaluation.h"
#include "headwise/plan/follow_plan.h"
#include "headwise/plan/gated_plan.h"
#include "headwise/plan/plan.h"
#include "headwise/text/probes.h"
#include "inputs.h"
#include "options.h"
#include "progress.h"
#include "screens.h"

namespace headwise::program {
namespace {

struct PruneArgs {
  InputOptions input{};
  std::string plan{}, drop{};
  std::string form = "compact", compensate = "none", loss{};
  std::vector<std::string> data{}, recover{};
  std::optional<int64_t> sample{};
  int64_t tokens = 128;
  int64_t rounds = 1;
  std::optional<int64_t> epochs{};
  std::optional<double> rate{};
  float dropout = 0, label_smoothing = 0;

  bool gates = false;
  std::string keep{}, weights{};
  std::optional<int64_t> heads{}, at_least{}, gate_epochs{};
};

constexpr int64_t kProbes = 40, kTranslated = 8;  // sentences, where no text is given

/// The heads to remove, and the order that chose them.
Plan plan_to_follow(const PruneArgs& args, const Session& session) {
  if (!args.drop.empty()) return {.drop = {args.drop}};
  if (args.gates) return {.order = "gates"};
  Plan plan = read_plan(args.plan);
  check_fits(plan, session.model(), args.plan);
  return plan;
}

/// The texts that were given; else built-in ones, if the model reads text.
void add_texts(const PruneArgs& args, const Session& session, const CommonOptions& common,
               PruneOptions& options) {
  InputOptions input = args.input;
  const bool two = session.config().encoder_decoder();
  if (!input.has_input()) {
    if (session.tokenizer() == nullptr) return;
    input.truncate = true;
    for (const TreeSentence& probe :
         probe_sentences(ProbeLexicon::english(), two ? kTranslated : kProbes, common.seed)) {
      input.texts.push_back(probe.text);
    }
  }
  std::vector<Input> inputs = read_inputs(input, session, {.start_decoder = true});
  for (size_t i = 0; i < inputs.size(); ++i) {
    Input& text = inputs[i];
    if (text.encoding.ids.empty()) continue;
    throw_if_interrupted();
    options.source.add(text.encoding.ids, text.encoding.type_ids);
    if (!two) continue;
    prepare_decoder(session, common.seed, i, text);
    options.target.add(text.decoder_ids);
  }
}

/// What --data or --recover name; nothing without.
std::optional<EvaluationSet> read_set(const PruneArgs& args, const char* option,
                                      const std::vector<std::string>& files,
                                      const Session& session) {
  if (files.empty()) return std::nullopt;
  usage_error_if(
      args.loss.empty() && session.config().task == Task::classify,
      fmt::format("{}: give --loss classify for lines with labels, or fidelity for texts", option));
  const LossTask task = args.loss.empty() ? default_task(session.config()) : loss_task(args.loss);
  return read_examples(option, files, task, args.input.truncate, session);
}

void check(const PruneArgs& args, const CommonOptions& common) {
  check_options(args.input, false);
  usage_error_if(!args.input.gates.empty(), "--gate: heads are dropped by a plan, or by --drop");
  usage_error_if(!args.plan.empty() && !args.drop.empty(),
                 "--drop: instead of a plan, not beside it");
  usage_error_if(args.plan.empty() && args.drop.empty() && !args.gates,
                 "prune: give a plan.json, or --drop L3.H1,L4, or --gates");
  usage_error_if(common.out.empty(), "prune: -o names the folder of the pruned model");
  usage_error_if(!args.loss.empty() && args.data.empty() && args.recover.empty(),
                 "--loss: --data names what it is taken over, --recover what is learned from");
  if (!args.recover.empty() && args.form == "masked") {
    usage_error("--recover: training would fill the zeros of the masked form; choose compact");
  }
  usage_error_if(args.sample && args.data.empty(), "--sample: --data names what it is drawn from");
  const bool trains =
      args.rounds > 1 || args.epochs || args.rate || args.dropout > 0 || args.label_smoothing > 0;
  usage_error_if(trains && args.recover.empty(),
                 "--iterative, --epochs, --learning-rate, --dropout, --label-smoothing: --recover "
                 "names what is learned from");
  usage_error_if(args.epochs == 0 && !args.gates,
                 "--epochs 0: without --recover nothing is trained");
}

void check_gates(const PruneArgs& args) {
  if (!args.gates) {
    if (!args.keep.empty() || args.heads || args.at_least || args.gate_epochs ||
        !args.weights.empty()) {
      usage_error("--keep, --heads, --at-least, --gate-epochs and --gate-weights go with --gates");
    }
    return;
  }
  usage_error_if(!args.plan.empty() || !args.drop.empty(),
                 "--gates: instead of a plan or --drop, not beside them");
  usage_error_if(args.recover.empty(), "--gates: --recover names what they are learned from");
  usage_error_if(args.keep.empty() == !args.heads,
                 "--gates: --keep 0.5 or --heads 40 says how many heads may stay");
  usage_error_if(args.rounds > 1, "--iterative: gates close one after the other anyway");
}

GateOptions gates_of(const PruneArgs& args, const FineTuneOptions& training) {
  GateOptions gates{.heads = args.heads,
                    .uniform = args.form == "uniform",
                    .train_weights = args.weights != "frozen",
                    .training = training};
  if (!args.keep.empty()) gates.keep = parse_share(args.keep);
  gates.at_least = args.at_least.value_or(gates.at_least);
  gates.training.epochs = args.gate_epochs.value_or(std::max<int64_t>(1, training.epochs));
  return gates;
}

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

std::string gates_json(const PruneReport& report, const std::string& plan,
                       const std::map<std::string, float>& gates) {
  Json json = Json::parse(to_json(report));
  json["gates"] = {{"plan", plan}, {"values", Json::object()}};
  for (const auto& [head, gate] : gates) json["gates"]["values"][head] = gate;
  return json_text(json, 2);
}

void prune_model(const PruneArgs& args, const CommonOptions& common) {
  check(args, common);
  check_gates(args);
  const Session session(args.input);
  const Plan plan = plan_to_follow(args, session);
  FineTuneOptions training;
  training.seed = common.seed;
  training.epochs = args.epochs.value_or(training.epochs);
  training.optimizer.rate = args.rate.value_or(training.optimizer.rate);
  training.dropout = args.dropout;
  training.label_smoothing = args.label_smoothing;
  PruneOptions options{.form = prune_form(args.form),
                       .compensate = compensation(args.compensate),
                       .seed = common.seed,
                       .out = common.out,
                       .speed = SpeedOptions{.tokens = args.tokens, .check = throw_if_interrupted}};
  add_texts(args, session, common, options);
  std::optional<EvaluationSet> quality = read_set(args, "--data", args.data, session);
  if (args.sample) sample_examples(*quality, *args.sample, common.seed);
  if (quality) options.evaluation = &*quality;
  if (std::optional<EvaluationSet> set = read_set(args, "--recover", args.recover, session)) {
    options.recover = Recovery{.set = std::move(*set), .training = training, .rounds = args.rounds};
  }
  check_form(session.model(), options.form);
  Progress progress(common.quiet);
  options.progress = [&](std::string_view step, int64_t done, int64_t total) {
    throw_if_interrupted();
    if (step == "steps") progress.advance(step, done, total);
  };
  if (args.gates) {
    const std::string file = plan_file(common.out);
    GateOptions gates = gates_of(args, training);
    gates.training.progress = [&](int64_t done, int64_t steps, double) {
      progress.advance("gates", done, steps);
    };
    const GatedPlan learned = learn_plan(session.model(), options.recover->set, gates);
    options.original = &session.model();
    const PruneReport report = prune(learned.model, learned.plan, options).report();
    // A plan without its model would stop every later run.
    write_file_whole(file, to_json(learned.plan));
    progress.clear();
    print_result(common.json
                     ? gates_json(report, file, learned.gates)
                     : to_text(report) + fmt::format("\ngates chose the heads: {}\n", file));
  } else {
    const PruneReport report = prune(session.model(), plan, options).report();
    progress.clear();
    print_result(common.json ? to_json(report) : to_text(report));
  }
  if (!args.recover.empty() && args.data.empty()) {
    log_info(common, "--data FILE would show the loss before and after --recover");
  }
  log_info(common, fmt::format("{} has the pruned model", common.out));
}

void add_gates(CLI::App& command, PruneArgs& options) {
  Options group(command, "Gates");
  group.flag("--gates", options.gates,
             "Instead of a plan: learn on the file of --recover which heads can go, by gates "
             "that close; DIR.plan.json gets the plan that came of it");
  group.keep(options.keep);
  group.heads_left(options.heads);
  group.at_least(options.at_least);
  group.add("--gate-epochs", options.gate_epochs, "N",
            "Over the file, while gates are learned; default: that of --epochs",
            whole_number(1, 1 << 20));
  group.add("--gate-weights", options.weights, "HOW",
            "Of the model, along with the gates: trained (default) or frozen",
            is_one_of({"trained", "frozen"}));
}

}  // namespace

void add_prune(CLI::App& app, CommonOptions& common) {
  const auto options = std::make_shared<PruneArgs>();
  CLI::App& command = add_command(
      app, "prune",
      "Remove heads from a model, and check it against the model with these heads ablated",
      "-o DIR gets the pruned model: see docs/prune.md for the three forms and what loads them.\n"
      "The check and --compensate use the texts (--input, --text), or built-in sentences.\n\n"
      "Example:\n"
      "  headwise prune ./minilm plan.json -o ./minilm-pruned\n"
      "  headwise prune ./minilm --drop L3.H1,L4 --compensate mean --input reviews.txt -o ./small\n"
      "  headwise prune ./sst2 --gates --keep 0.5 --recover train.tsv --loss classify -o ./half",
      common, [options, &common] { prune_model(*options, common); });
  add_inputs(command, options->input);
  Options declare(command);
  declare.argument("PLAN", options->plan, "plan.json, of which \"drop\" is read");
  declare.add("--drop", options->drop, "LIST", "Heads instead of a plan: L3.H1,L4");
  declare.form(options->form);
  declare.add("--compensate", options->compensate, "HOW",
              fmt::format("Make up for the outputs of removed heads: {}; mean changes the output "
                          "bias, least_squares the output projection of heads that stay; "
                          "default: none",
                          any_of(compensation_names())),
              is_one_of(compensation_names()));
  declare.loss(options->loss, ", over --data and --recover");
  declare.data(options->data, "What the quality before and after is measured on");
  declare.sample(options->sample, "examples of --data, drawn by the seed");
  Options recovery(command, "Recovery");
  recovery.list("--recover", options->recover, "FILE",
                "Train after the cut on this file, as in docs/data.md, for the loss that --loss "
                "names; under fidelity the unpruned model is the teacher of the pruned one, and a "
                "file of texts does; translate takes two");
  recovery.add("--epochs", options->epochs, "N",
               "Over the file; default: 1; 0 with --gates: nothing is trained after the cut",
               whole_number(0, 1 << 20));
  recovery.add("--learning-rate", options->rate, "R", "Of the training; default: 5e-5", finite(0));
  recovery.add("--dropout", options->dropout, "P", "Of the training; default: 0", between(0, 0.9));
  recovery.add("--label-smoothing", options->label_smoothing, "E",
               "As the model was trained with; default: 0", between(0, 0.9));
  recovery.add("--iterative", options->rounds, "N",
               "Cut in so many rounds, and train after each; default: 1", whole_number(1, 1 << 20));
  add_gates(command, *options);
  declare.tokens(options->tokens, "Length of the texts whose speed is measured");
}

}  // namespace headwise::program
