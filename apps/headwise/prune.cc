// headwise prune: cuts heads out of a model, and shows what that cost and what it gained.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "corpus.h"
#include "headwise/core/error.h"
#include "headwise/observe/evaluation.h"
#include "headwise/plan/follow_plan.h"
#include "headwise/plan/plan.h"
#include "headwise/text/probes.h"
#include "inputs.h"
#include "options.h"
#include "prune_job.h"

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
  if (args.loss.empty() && session.config().task == Task::classify) {
    usage_error(fmt::format("{}: give --loss classify for lines with labels, or fidelity for texts",
                            option));
  }
  const LossTask task = args.loss.empty() ? default_task(session.config()) : loss_task(args.loss);
  return read_examples(option, files, task, args.input.truncate, session);
}

void check(const PruneArgs& args, const CommonOptions& common) {
  check_options(args.input, false);
  if (!args.input.gates.empty()) usage_error("--gate: heads are dropped by a plan, or by --drop");
  if (!args.plan.empty() && !args.drop.empty())
    usage_error("--drop: instead of a plan, not beside it");
  if (args.plan.empty() && args.drop.empty() && !args.gates) {
    usage_error("prune: give a plan.json, or --drop L3.H1,L4, or --gates");
  }
  if (common.out.empty()) usage_error("prune: -o names the folder of the pruned model");
  if (!args.loss.empty() && args.data.empty() && args.recover.empty()) {
    usage_error("--loss: --data names what it is taken over, --recover what is learned from");
  }
  if (!args.recover.empty() && args.form == "masked") {
    usage_error("--recover: training would fill the zeros of the masked form; choose compact");
  }
  if (args.sample && args.data.empty()) usage_error("--sample: --data names what it is drawn from");
  const bool trains =
      args.rounds > 1 || args.epochs || args.rate || args.dropout > 0 || args.label_smoothing > 0;
  if (trains && args.recover.empty()) {
    usage_error(
        "--iterative, --epochs, --learning-rate, --dropout, --label-smoothing: --recover names "
        "what is "
        "learned from");
  }
  if (args.epochs == 0 && !args.gates)
    usage_error("--epochs 0: without --recover nothing is trained");
}

void check_gates(const PruneArgs& args) {
  if (!args.gates) {
    if (!args.keep.empty() || args.heads || args.at_least || args.gate_epochs ||
        !args.weights.empty()) {
      usage_error(
          "--keep, --heads, --at-least, --gate-epochs, --gate-weights: of --gates; a plan has its "
          "own");
    }
    return;
  }
  if (!args.plan.empty() || !args.drop.empty()) {
    usage_error("--gates: instead of a plan or --drop, not beside them");
  }
  if (args.recover.empty()) usage_error("--gates: --recover names what they are learned from");
  if (args.keep.empty() == !args.heads) {
    usage_error("--gates: --keep 0.5 or --heads 40 says how many heads may stay");
  }
  if (args.rounds > 1) usage_error("--iterative: gates close one after the other anyway");
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
  PruneJob work{.plan = plan,
                .options = {.form = prune_form(args.form),
                            .compensate = compensation(args.compensate),
                            .seed = common.seed,
                            .speed = SpeedOptions{.tokens = args.tokens}}};
  if (args.gates) work.gates = gates_of(args, training);
  add_texts(args, session, common, work.options);
  work.quality = read_set(args, "--data", args.data, session);
  if (args.sample) sample_examples(*work.quality, *args.sample, common.seed);
  if (std::optional<EvaluationSet> set = read_set(args, "--recover", args.recover, session)) {
    work.options.recover =
        Recovery{.set = std::move(*set), .training = training, .rounds = args.rounds};
  }
  const PruneOutcome outcome =
      prune_and_measure(std::move(work), session, common.out, common.quiet);
  CommonOptions screen = common;
  screen.out.clear();
  write_output(screen, common.json ? to_json(outcome) : to_text(outcome));
  if (!args.recover.empty() && args.data.empty()) {
    log_info(common, "--data FILE would show the loss before and after --recover");
  }
  log_info(common, fmt::format("{} has the pruned model", common.out));
}

void add_gates(CLI::App& command, PruneArgs& options) {
  const char* const group = "Gates";
  command
      .add_flag("--gates", options.gates,
                "Instead of a plan: learn on the file of --recover which heads can go, by gates "
                "that close; DIR.plan.json gets the plan that came of it")
      ->group(group);
  add_keep(command, options.keep)->group(group);
  add_heads_left(command, options.heads)->group(group);
  add_at_least(command, options.at_least)->group(group);
  command
      .add_option("--gate-epochs", options.gate_epochs,
                  "Over the file, while gates are learned; default: that of --epochs")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20).description(""))
      ->type_name("N")
      ->group(group);
  command
      .add_option("--gate-weights", options.weights,
                  "Of the model, along with the gates: trained (default) or frozen")
      ->check(CLI::IsMember({"trained", "frozen"}).description(""))
      ->type_name("HOW")
      ->group(group);
}

}  // namespace

void add_prune(CLI::App& app, CommonOptions& common) {
  const auto options = std::make_shared<PruneArgs>();
  CLI::App& command = add_command(
      app, "prune", "Cuts heads out of a model, and proves that it still says the same",
      "-o DIR gets the pruned model: see docs/prune.md for the three forms and what loads them.\n"
      "Texts (--input, --text) are what the proof is run on and what --compensate measures;\n"
      "without any, built-in sentences.\n\n"
      "Example:\n"
      "  headwise prune ./minilm plan.json -o ./minilm-pruned\n"
      "  headwise prune ./minilm --drop L3.H1,L4 --compensate mean --input reviews.txt -o ./small\n"
      "  headwise prune ./sst2 --gates --keep 0.5 --recover train.tsv --loss classify -o ./half",
      common, [options, &common] { prune_model(*options, common); });
  add_inputs(command, options->input);
  command.add_option("PLAN", options->plan, "plan.json, of which \"drop\" is read")->type_name("");
  command.add_option("--drop", options->drop, "Heads instead of a plan: L3.H1,L4")
      ->type_name("LIST");
  add_form(command, options->form);
  command
      .add_option(
          "--compensate", options->compensate,
          "What is done about what dropped heads said: none (default), mean into the output "
          "bias, or least_squares into the output projection of the kept ones")
      ->check(is_one_of(compensation_names()))
      ->type_name("HOW");
  add_loss(command, options->loss, ", over --data and --recover");
  add_data(command, options->data, "What the quality before and after is measured on");
  add_sample(command, options->sample, "examples of --data, drawn by the seed");
  const char* const group = "Recovery";
  add_list(command, "--recover", options->recover,
           "Train after the cut on this file, as in docs/data.md, for the loss that --loss names; "
           "under fidelity the unpruned model is the teacher of the pruned one, and a file of "
           "texts does; translate takes two")
      ->type_name("FILE")
      ->group(group);
  command
      .add_option("--epochs", options->epochs,
                  "Over the file; default: 1; 0 with --gates: nothing is trained after the cut")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20).description(""))
      ->type_name("N")
      ->group(group);
  command.add_option("--learning-rate", options->rate, "Of learning; default: 5e-5")
      ->check(finite(0))
      ->type_name("R")
      ->group(group);
  command.add_option("--dropout", options->dropout, "While it is trained; default: 0")
      ->check(CLI::Range(0., 0.9).description(""))
      ->type_name("P")
      ->group(group);
  command
      .add_option("--label-smoothing", options->label_smoothing,
                  "As the model was trained with; default: 0")
      ->check(CLI::Range(0., 0.9).description(""))
      ->type_name("E")
      ->group(group);
  command
      .add_option("--iterative", options->rounds,
                  "Cut in so many rounds, and train after each; default: 1")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20).description(""))
      ->type_name("N")
      ->group(group);
  add_gates(command, *options);
  command
      .add_option("--tokens", options->tokens,
                  "Length of the texts whose speed is measured; default: 128")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20).description(""))
      ->type_name("N");
}

}  // namespace headwise::program
