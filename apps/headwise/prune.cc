// headwise prune: cuts heads out of a model, and shows what that cost and what it gained.
#include "headwise/prune/prune.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "headwise/core/error.h"
#include "headwise/model/summary.h"
#include "headwise/observe/evaluation.h"
#include "headwise/observe/observe.h"
#include "headwise/plan/plan.h"
#include "headwise/text/probes.h"
#include "inputs.h"
#include "io/file.h"
#include "json_writer.h"

namespace headwise::program {
namespace {

struct PruneVerb {
  InputOptions input{};
  std::string plan{}, drop{};
  std::string form = "compact", compensate = "none", loss{};
  std::vector<std::string> data{};
  int64_t tokens = 128;
};

constexpr size_t kMostPlan = 256 << 20;           // bytes of a file
constexpr int64_t kProbes = 40, kTranslated = 8;  // sentences, where no text is given

std::vector<std::string> heads_to_drop(const PruneVerb& verb) {
  if (!verb.drop.empty()) return {verb.drop};
  if (verb.plan.empty()) misuse("prune: give a plan.json, or --drop L3.H1,L4");
  return plan_from_json(read_file(verb.plan, kMostPlan), verb.plan).drop;
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

std::optional<EvaluationSet> read_quality(const PruneVerb& verb, const Session& session,
                                          const CommonOptions& common) {
  if (verb.data.empty()) {
    if (!verb.loss.empty()) misuse("--loss: --data names what it is taken over");
    return std::nullopt;
  }
  if (session.tokenizer() == nullptr) {
    throw Error({.what = "the model has no tokenizer",
                 .where = "--data",
                 .expected = "a model that reads text"});
  }
  const LossTask task = verb.loss.empty() ? natural_loss(session.config()) : loss_task(verb.loss);
  return read_evaluation(task, Files(verb.data.begin(), verb.data.end()), *session.tokenizer(),
                         session.config(), common.seed);
}

/// A model before or after.
struct State {
  int64_t heads = 0;
  ModelSummary summary{};
  std::optional<LossEvidence> loss{};
};

State state_of(const Model& model, const std::filesystem::path& folder, int64_t heads,
               const std::optional<EvaluationSet>& set, const Model* original) {
  State state{.heads = heads, .summary = summarize(folder)};
  if (!set) return state;
  if (set->task == LossTask::fidelity && original != nullptr) {
    state.loss =
        LossEvidence{.task = "fidelity",
                     .value = infidelity(model, *original, folder, set->examples.all.source,
                                         set->examples.all.target),
                     .examples = set->size()};
    return state;
  }
  Evidence evidence = no_evidence(model);
  observe_importance(
      model, folder, *set,
      {.gradient = false,
       .ablation_zero = false,
       .ablation_mean = false,
       .progress = [](std::string_view, int64_t, int64_t) { throw_if_interrupted(); }},
      evidence);
  state.loss = evidence.loss;
  return state;
}

struct Outcome {
  std::string form{}, compensate{}, out{};
  State before{}, after{};
  PruneProof proof{};
  std::vector<SpeedComparison> speed{};
};

void write_state(JsonWriter& json, const char* name, const State& state,
                 std::span<const SpeedComparison> speed, double SpeedComparison::*seconds) {
  json.key(name);
  json.begin_object();
  json.field("heads", state.heads);
  json.field("parameters", state.summary.parameters);
  json.field("attention_parameters", state.summary.attention_parameters);
  json.field("bytes", state.summary.bytes);
  if (state.loss) {
    json.key("loss");
    json.begin_object();
    json.field("task", state.loss->task);
    json.field("value", state.loss->value);
    json.field("examples", state.loss->examples);
    for (const auto& [score, value] : state.loss->scores) json.field(score, value);
    json.end_object();
  }
  json.key("speed");
  json.begin_array();
  for (const SpeedComparison& at : speed) {
    json.begin_object();
    json.field("texts", at.texts);
    json.field("tokens", at.tokens);
    json.field("seconds", at.*seconds);
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

std::string as_json(const Outcome& outcome) {
  JsonWriter json;
  json.begin_object();
  json.field("form", outcome.form);
  json.field("compensate", outcome.compensate);
  json.field("folder", outcome.out);
  write_state(json, "before", outcome.before, outcome.speed, &SpeedComparison::before);
  write_state(json, "after", outcome.after, outcome.speed, &SpeedComparison::after);
  json.key("proof");
  json.begin_object();
  json.field("max_difference", outcome.proof.max_difference);
  json.field("texts", outcome.proof.texts);
  json.field("tokens", outcome.proof.tokens);
  json.field("random_ids", outcome.proof.random_ids);
  json.end_object();
  json.end_object();
  return json.take();
}

std::string for_people(const Outcome& outcome) {
  std::string text = fmt::format("{:<22}{:>16}{:>16}{:>10}\n", "", "before", "after", "ratio");
  const auto row = [&](const std::string& name, const std::string& before, const std::string& after,
                       double ratio) {
    text += fmt::format("{:<22}{:>16}{:>16}{:>10.3f}\n", name, before, after, ratio);
  };
  const auto count = [&](const char* name, int64_t before, int64_t after) {
    row(name, grouped(before), grouped(after),
        static_cast<double>(after) / static_cast<double>(std::max<int64_t>(1, before)));
  };
  const State &before = outcome.before, &after = outcome.after;
  count("heads", before.heads, after.heads);
  count("parameters", before.summary.parameters, after.summary.parameters);
  count("in attention", before.summary.attention_parameters, after.summary.attention_parameters);
  count("bytes of weights", before.summary.bytes, after.summary.bytes);
  const auto number = [&](const std::string& name, double a, double b) {
    row(name, fmt::format("{:.4f}", a), fmt::format("{:.4f}", b), b / a);
  };
  if (before.loss && after.loss) {
    number(before.loss->task + " loss", before.loss->value, after.loss->value);
    for (const auto& [score, value] : before.loss->scores) {
      const auto other = after.loss->scores.find(score);
      if (other != after.loss->scores.end()) number(score, value, other->second);
    }
  }
  for (const SpeedComparison& at : outcome.speed) {
    row(fmt::format("ms for {} x {}", at.texts, at.tokens), fmt::format("{:.2f}", at.before * 1e3),
        fmt::format("{:.2f}", at.after * 1e3), at.after / at.before);
  }
  const char* const other = outcome.form == "masked" ? "compact" : "masked";
  text += fmt::format(
      "\n{} equals {} on {} {} ({} tokens): largest difference {:.1e} of the "
      "largest hidden state\n",
      outcome.form, other, outcome.proof.texts,
      outcome.proof.random_ids ? "texts of random ids" : "texts", grouped(outcome.proof.tokens),
      outcome.proof.max_difference);
  return text;
}

void prune_model(const PruneVerb& verb, const CommonOptions& common) {
  check_options(verb.input, false);
  if (!verb.input.gates.empty()) misuse("--gate: heads are dropped by a plan, or by --drop");
  if (!verb.plan.empty() && !verb.drop.empty()) misuse("--drop: instead of a plan, not beside it");
  if (common.out.empty()) misuse("prune: -o names the folder of the pruned model");
  const std::vector<std::string> drop = heads_to_drop(verb);
  const Session session(verb.input);
  PruneOptions options{.form = prune_form(verb.form),
                       .compensate = compensation(verb.compensate),
                       .seed = common.seed};
  options.load.allow_nonfinite = verb.input.allow_nonfinite;
  options.progress = [](std::string_view) { throw_if_interrupted(); };
  add_texts(verb, session, common, options);
  const std::optional<EvaluationSet> set = read_quality(verb, session, common);
  Outcome outcome{.form = verb.form, .compensate = verb.compensate, .out = common.out};
  outcome.proof = prune(session.model(), session.folder(), drop, common.out, options);

  const Model after = Model::load(common.out, options.load);
  const int64_t dropped =
      drop.empty()
          ? 0
          : std::ssize(session.model().find_heads(fmt::format("{}", fmt::join(drop, ","))));
  const int64_t heads = session.model().heads();
  outcome.before = state_of(session.model(), session.folder(), heads, set, nullptr);
  outcome.after = state_of(after, common.out, heads - dropped, set, &session.model());
  outcome.speed = compare_speed(session.model(), after, verb.tokens, throw_if_interrupted);
  CommonOptions screen = common;
  screen.out.clear();
  deliver(screen, common.json ? as_json(outcome) : for_people(outcome));
  note(common, fmt::format("{} has the pruned model", common.out));
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
      "  headwise prune ./minilm --drop L3.H1,L4 --compensate mean --input reviews.txt -o ./small",
      common, [options, &common] { prune_model(*options, common); });
  add_inputs(verb, options->input);
  verb.add_option("PLAN", options->plan, "plan.json, of which \"drop\" is read")->type_name("");
  verb.add_option("--drop", options->drop, "Heads instead of a plan: L3.H1,L4")->type_name("LIST");
  verb.add_option("--form", options->form, "masked, compact (default) or uniform")
      ->check(CLI::IsMember({"masked", "compact", "uniform"}).description(""))
      ->type_name("FORM");
  verb.add_option(
          "--compensate", options->compensate,
          "What is done about what dropped heads said: none (default), mean into the output "
          "bias, or least_squares into the output projection of the kept ones")
      ->check(CLI::IsMember({"none", "mean", "least_squares"}).description(""))
      ->type_name("HOW");
  verb.add_option("--loss", options->loss,
                  "lm, mlm, classify, translate, similarity or fidelity, over --data")
      ->check(CLI::IsMember({"lm", "mlm", "classify", "translate", "similarity", "fidelity"})
                  .description(""))
      ->type_name("TASK");
  add_list(verb, "--data", options->data,
           "Measure the quality before and after over this file, as in docs/data.md; translate "
           "takes two")
      ->type_name("FILE");
  verb.add_option("--tokens", options->tokens,
                  "Length of the texts whose speed is measured; default: 128")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20).description(""))
      ->type_name("N");
}

}  // namespace headwise::program
