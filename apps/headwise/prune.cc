// headwise prune: cuts heads out of a model, and shows what that cost and what it gained.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "corpus.h"
#include "headwise/core/error.h"
#include "headwise/observe/evaluation.h"
#include "headwise/plan/plan.h"
#include "headwise/text/probes.h"
#include "inputs.h"
#include "prune_verb.h"
#include "stage_files.h"

namespace headwise::program {
namespace {

struct PruneVerb {
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

/// A plan that says of every head whether it stays names those of its model.
void check_plan(const Plan& plan, const std::string& file, const Session& session) {
  if (plan.keep.empty()) return;
  const Model& model = session.model();
  std::set<std::string> named(plan.keep.begin(), plan.keep.end()), there;
  named.insert(plan.drop.begin(), plan.drop.end());
  for (const AttentionSite& site : model.attentions()) {
    for (int64_t i = 0; i < std::ssize(site.heads); ++i) there.insert(site.head_name(i));
  }
  if (named == there) return;
  throw Error({.what = "the plan is of another model",
               .where = file,
               .got = fmt::format("{} heads, not those of the model", named.size()),
               .expected = fmt::format("the {} heads of {}", there.size(), session.name()),
               .hint = "headwise plan makes one from a verdict of this model"});
}

/// The heads to remove, and the order that chose them.
Plan plan_to_follow(const PruneVerb& verb, const Session& session) {
  if (!verb.drop.empty()) return {.drop = {verb.drop}};
  if (verb.gates) return {.order = "gates"};
  Plan plan = read_plan(verb.plan);
  check_plan(plan, verb.plan, session);
  return plan;
}

/// The texts that were given; else built-in ones, if the model reads text.
void add_texts(const PruneVerb& verb, const Session& session, const CommonOptions& common,
               PruneOptions& options) {
  InputOptions input = verb.input;
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
std::optional<EvaluationSet> read_set(const PruneVerb& verb, const char* option,
                                      const std::vector<std::string>& files,
                                      const Session& session) {
  if (files.empty()) return std::nullopt;
  if (verb.loss.empty() && session.config().task == Task::classify) {
    misuse(fmt::format("{}: give --loss classify for lines with labels, or fidelity for texts",
                       option));
  }
  const LossTask task = verb.loss.empty() ? natural_loss(session.config()) : loss_task(verb.loss);
  return read_examples(option, files, task, verb.input.truncate, session);
}

void check(const PruneVerb& verb, const CommonOptions& common) {
  check_options(verb.input, false);
  if (!verb.input.gates.empty()) misuse("--gate: heads are dropped by a plan, or by --drop");
  if (!verb.plan.empty() && !verb.drop.empty()) misuse("--drop: instead of a plan, not beside it");
  if (verb.plan.empty() && verb.drop.empty() && !verb.gates) {
    misuse("prune: give a plan.json, or --drop L3.H1,L4, or --gates");
  }
  if (common.out.empty()) misuse("prune: -o names the folder of the pruned model");
  if (!verb.loss.empty() && verb.data.empty() && verb.recover.empty()) {
    misuse("--loss: --data names what it is taken over, --recover what is learned from");
  }
  if (!verb.recover.empty() && verb.form == "masked") {
    misuse("--recover: training would fill the zeros of the masked form; choose compact");
  }
  if (verb.sample && verb.data.empty()) misuse("--sample: --data names what it is drawn from");
  const bool trains =
      verb.rounds > 1 || verb.epochs || verb.rate || verb.dropout > 0 || verb.label_smoothing > 0;
  if (trains && verb.recover.empty()) {
    misuse(
        "--iterative, --epochs, --rate, --dropout, --label-smoothing: --recover names what is "
        "learned from");
  }
  if (verb.epochs == 0 && !verb.gates) misuse("--epochs 0: without --recover nothing is trained");
}

void check_gates(const PruneVerb& verb) {
  if (!verb.gates) {
    if (!verb.keep.empty() || verb.heads || verb.at_least || verb.gate_epochs ||
        !verb.weights.empty()) {
      misuse(
          "--keep, --heads, --at-least, --gate-epochs, --gate-weights: of --gates; a plan has its "
          "own");
    }
    return;
  }
  if (!verb.plan.empty() || !verb.drop.empty()) {
    misuse("--gates: instead of a plan or --drop, not beside them");
  }
  if (verb.recover.empty()) misuse("--gates: --recover names what they are learned from");
  if (verb.keep.empty() == !verb.heads) {
    misuse("--gates: --keep 0.5 or --heads 40 says how many heads may stay");
  }
  if (verb.rounds > 1) misuse("--iterative: gates close one after the other anyway");
}

GateOptions gates_of(const PruneVerb& verb, const FineTuneOptions& training) {
  GateOptions gates{.heads = verb.heads,
                    .uniform = verb.form == "uniform",
                    .train_weights = verb.weights != "frozen",
                    .training = training};
  if (!verb.keep.empty()) gates.keep = parse_share(verb.keep);
  gates.at_least = verb.at_least.value_or(gates.at_least);
  gates.training.epochs = verb.gate_epochs.value_or(std::max<int64_t>(1, training.epochs));
  return gates;
}

void prune_model(const PruneVerb& verb, const CommonOptions& common) {
  check(verb, common);
  check_gates(verb);
  const Session session(verb.input);
  const Plan plan = plan_to_follow(verb, session);
  PruneWork work{.drop = plan.drop,
                 .how = {.form = prune_form(verb.form),
                         .compensate = compensation(verb.compensate),
                         .seed = common.seed,
                         .order = plan.order},
                 .rounds = verb.rounds,
                 .tokens = verb.tokens};
  work.training.seed = common.seed;
  work.training.epochs = verb.epochs.value_or(work.training.epochs);
  work.training.optimizer.rate = verb.rate.value_or(work.training.optimizer.rate);
  work.training.dropout = verb.dropout;
  work.training.label_smoothing = verb.label_smoothing;
  if (verb.gates) work.gates = gates_of(verb, work.training);
  work.how.load.allow_nonfinite = verb.input.allow_nonfinite;
  work.how.progress = [](std::string_view) { throw_if_interrupted(); };
  add_texts(verb, session, common, work.how);
  work.quality = read_set(verb, "--data", verb.data, session);
  if (verb.sample) sample_examples(*work.quality, *verb.sample, common.seed);
  work.recovery = read_set(verb, "--recover", verb.recover, session);
  const PruneOutcome outcome = prune_and_measure(work, session, common.out, common.quiet);
  CommonOptions screen = common;
  screen.out.clear();
  deliver(screen, common.json ? to_json(outcome) : for_people(outcome));
  note(common, fmt::format("{} has the pruned model", common.out));
}

void add_gates(CLI::App& verb, PruneVerb& options) {
  const char* const group = "Gates";
  verb.add_flag("--gates", options.gates,
                "Instead of a plan: learn on the file of --recover which heads can go, by gates "
                "that close; DIR.plan.json gets the plan that came of it")
      ->group(group);
  verb.add_option("--keep", options.keep, "At most this share of the heads stays: 0.6 or 60%")
      ->check(is_share())
      ->type_name("SHARE")
      ->group(group);
  verb.add_option("--heads", options.heads, "At most so many heads stay")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40).description(""))
      ->type_name("N")
      ->group(group);
  verb.add_option("--at-least", options.at_least, "So many heads stay in every layer; default: 1")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40).description(""))
      ->type_name("K")
      ->group(group);
  verb.add_option("--gate-epochs", options.gate_epochs,
                  "Over the file, while gates are learned; default: that of --epochs")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20).description(""))
      ->type_name("N")
      ->group(group);
  verb.add_option("--gate-weights", options.weights,
                  "Of the model, along with the gates: trained (default) or frozen")
      ->check(CLI::IsMember({"trained", "frozen"}).description(""))
      ->type_name("HOW")
      ->group(group);
}

}  // namespace

void add_prune(CLI::App& app, CommonOptions& common) {
  const auto options = std::make_shared<PruneVerb>();
  CLI::App& verb = add_verb(
      app, "prune", "Cuts heads out of a model, and proves that it still says the same",
      "-o DIR gets the pruned model: see docs/prune.md for the three forms and what loads them.\n"
      "Texts (--input, --text) are what the proof is run on and what --compensate measures;\n"
      "without any, built-in sentences.\n\n"
      "Example:\n"
      "  headwise prune ./minilm plan.json -o ./minilm-pruned\n"
      "  headwise prune ./minilm --drop L3.H1,L4 --compensate mean --input reviews.txt -o ./small\n"
      "  headwise prune ./sst2 --gates --keep 0.5 --recover train.tsv --loss classify -o ./half",
      common, [options, &common] { prune_model(*options, common); });
  add_inputs(verb, options->input);
  verb.add_option("PLAN", options->plan, "plan.json, of which \"drop\" is read")->type_name("");
  verb.add_option("--drop", options->drop, "Heads instead of a plan: L3.H1,L4")->type_name("LIST");
  verb.add_option("--form", options->form, "masked, compact (default) or uniform")
      ->check(is_form())
      ->type_name("FORM");
  verb.add_option(
          "--compensate", options->compensate,
          "What is done about what dropped heads said: none (default), mean into the output "
          "bias, or least_squares into the output projection of the kept ones")
      ->check(CLI::IsMember({"none", "mean", "least_squares"}).description(""))
      ->type_name("HOW");
  verb.add_option("--loss", options->loss,
                  "lm, mlm, classify, translate, similarity or fidelity, over --data")
      ->check(is_loss())
      ->type_name("TASK");
  add_list(verb, "--data", options->data,
           "Measure the quality before and after over this file, as in docs/data.md; translate "
           "takes two")
      ->type_name("FILE");
  verb.add_option("--sample", options->sample,
                  "At most so many examples of --data, drawn by the seed")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40).description(""))
      ->type_name("N");
  const char* const group = "Recovery";
  add_list(verb, "--recover", options->recover,
           "Train after the cut on this file, as in docs/data.md, for the loss that --loss names; "
           "under fidelity the unpruned model is the teacher of the pruned one, and a file of "
           "texts does; translate takes two")
      ->type_name("FILE")
      ->group(group);
  verb.add_option("--epochs", options->epochs,
                  "Over the file; default: 1; 0 with --gates: nothing is trained after the cut")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20).description(""))
      ->type_name("N")
      ->group(group);
  verb.add_option("--rate", options->rate, "Of learning; default: 5e-5")
      ->check(finite(0))
      ->type_name("R")
      ->group(group);
  verb.add_option("--dropout", options->dropout, "While it is trained; default: 0")
      ->check(CLI::Range(0., 0.9).description(""))
      ->type_name("P")
      ->group(group);
  verb.add_option("--label-smoothing", options->label_smoothing,
                  "As the model was trained with; default: 0")
      ->check(CLI::Range(0., 0.9).description(""))
      ->type_name("E")
      ->group(group);
  verb.add_option("--iterative", options->rounds,
                  "Cut in so many rounds, and train after each; default: 1")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20).description(""))
      ->type_name("N")
      ->group(group);
  add_gates(verb, *options);
  verb.add_option("--tokens", options->tokens,
                  "Length of the texts whose speed is measured; default: 128")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20).description(""))
      ->type_name("N");
}

}  // namespace headwise::program
