// Reads examples, ablates heads.
#include "experiment/subject.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/io/output_file.h"
#include "headwise/observe/observe.h"
#include "headwise/text/lines.h"
#include "headwise/text/tokenizer.h"
#include "headwise/train/examples.h"
#include "observe/adaptive_ablation.h"

namespace headwise {
namespace {

constexpr uint64_t kDrawExamples = 29;  // the same examples whatever --seed is
constexpr uint64_t kDrawHalves = 13;
constexpr int64_t kFewestWords = 8;

/// The lines that count, in a file of their own.
std::filesystem::path lines_of(const Subject& subject, TrialContext& context) {
  std::string text;
  const bool cut_labels = subject.task == LossTask::fidelity && subject.data.ends_with(".tsv");
  int64_t number = 0;
  for (std::string line : read_lines(context.data(subject.data))) {
    if (number++ < subject.first_line) continue;
    if (cut_labels) line.resize(std::min(line.find('\t'), line.size()));
    if (subject.task == LossTask::fidelity && std::ranges::count(line, ' ') + 1 < kFewestWords) {
      continue;
    }
    text += line + "\n";
  }
  const std::filesystem::path file = context.folder() / "lines.txt";
  write_file_whole(file, text);
  return file;
}

}  // namespace

Subject subject_of(const nlohmann::json& json) {
  Subject subject{.model = json.at("model"),
                  .task = loss_task(json.at("task").get<std::string>()),
                  .data = json.at("data"),
                  .first_line = json.value("first_line", int64_t{0}),
                  .examples = json.value("examples", int64_t{400}),
                  .length = json.value("length", int64_t{64}),
                  .positions = json.value("positions", 1.)};
  subject.name = fmt::format("{} {} {}", subject.model, to_string(subject.task), subject.data);
  return subject;
}

std::vector<Subject> subjects_of(const nlohmann::json& settings) {
  std::vector<Subject> subjects;
  for (const nlohmann::json& json : settings.at("subjects")) subjects.push_back(subject_of(json));
  return subjects;
}

EvaluationSet examples_of(const Subject& subject, const Model& model, TrialContext& context) {
  if (model.tokenizer() == nullptr) {
    throw Error({.what = "experiment: the model has no tokenizer", .where = subject.model});
  }
  const Files files = {lines_of(subject, context)};
  const ReadOptions options{.length = subject.length, .truncate = true};
  EvaluationSet set;
  if (subject.task == LossTask::lm) {
    const Examples blocks = read_causal_lm(files, Documents::files, *model.tokenizer(),
                                           model.config(), {.length = subject.length});
    set = next_tokens(blocks.all.source);
  } else {
    set = read_evaluation(subject.task, files, *model.tokenizer(), model.config(), options);
  }
  sample_examples(set, subject.examples, kDrawExamples);
  if (subject.positions < 1) sample_positions(set, subject.positions, kDrawExamples);
  return set;
}

HeadLosses::HeadLosses(const Model& model, const EvaluationSet& set)
    : pooling_(SentencePooling::find_or_mean(model.folder())), sweep_(model, pooling_, set, {}) {}

std::vector<Estimate> HeadLosses::changes(std::span<const std::vector<int64_t>> sets,
                                          TrialContext& context, bool mean) {
  std::vector<int64_t> all(size());
  std::iota(all.begin(), all.end(), 0);
  return changes(sets, all, context, mean);
}

std::vector<Estimate> HeadLosses::changes(std::span<const std::vector<int64_t>> sets,
                                          std::span<const int64_t> examples, TrialContext& context,
                                          bool mean) {
  std::vector<Ablation> ablations;
  for (const std::vector<int64_t>& heads : sets)
    ablations.push_back({.heads = heads, .mean = mean});
  const SweepValues values = sweep_.run(
      ablations, examples, [&](int64_t done, int64_t total) { context.progress(done, total); });
  std::vector<int64_t> tokens;
  for (const int64_t example : examples) tokens.push_back(sweep_.tokens()[example]);
  std::vector<Estimate> changes;
  std::vector<double> difference(examples.size());
  for (const std::vector<double>& row : values.ablated) {
    std::ranges::transform(row, values.base, difference.begin(), std::minus());
    const RatioEstimate ratio = estimate_ratio(difference, tokens, 0.05);
    const auto n = std::ssize(difference);
    changes.push_back({.value = ratio.value,
                       .error = ratio.deviation / std::sqrt(static_cast<double>(n)),
                       .n = n});
  }
  return changes;
}

double HeadLosses::loss(TrialContext& context) {
  std::vector<int64_t> all(size());
  std::iota(all.begin(), all.end(), 0);
  const SweepValues values =
      sweep_.run({}, all, [&](int64_t done, int64_t total) { context.progress(done, total); });
  const std::span<const int64_t> tokens = sweep_.tokens();
  return std::accumulate(values.base.begin(), values.base.end(), 0.) /
         static_cast<double>(std::accumulate(tokens.begin(), tokens.end(), int64_t{0}));
}

nlohmann::json ablate_single_heads(const Subject& subject, TrialContext& context) {
  const Model& model = context.model(subject.model);
  const EvaluationSet set = examples_of(subject, model, context);
  HeadLosses losses(model, set);
  const double loss = losses.loss(context);
  nlohmann::json result = {{"loss", loss},
                           {"scale", subject.task == LossTask::fidelity ? 1 : loss},
                           {"changes", to_json(losses.changes(each_head(model), context))}};
  for (const AttentionSite& site : model.attentions()) {
    for (int64_t h = 0; h < std::ssize(site.heads); ++h) {
      result["heads"].push_back(site.head_name(h));
      result["layers"].push_back(site.layer);
    }
  }
  return result;
}

std::vector<ExperimentTrial> subject_trials(const nlohmann::json& settings,
                                            const SubjectTrial& run) {
  std::vector<ExperimentTrial> trials;
  for (const Subject& subject : subjects_of(settings)) {
    trials.push_back({.name = subject.name,
                      .model = subject.model,
                      .run = [=](TrialContext& context) { return run(subject, context); }});
  }
  return trials;
}

std::vector<ExperimentTrial> single_head_trials(const nlohmann::json& settings) {
  return subject_trials(settings, ablate_single_heads);
}

Evidence measure_heads(const Model& model, const EvaluationSet& set, const MeasureSelection& names,
                       TrialContext& context) {
  ObserveData data{.evaluation = set};
  const TokenBatch& source = set.examples.all.source;
  for (int64_t text = 0; text < source.sequences(); ++text) {
    data.corpus.texts.push_back({.ids = {source.ids.begin() + source.offsets[text],
                                         source.ids.begin() + source.offsets[text + 1]}});
  }
  ObserveOptions options{.measures = names, .probes = false};
  options.progress = [&](const std::string&, int64_t done, int64_t total) {
    context.progress(done, total);
  };
  return observe(model, data, options);
}

std::vector<double> values_of(const Evidence& evidence, std::string_view measure) {
  std::vector<double> values;
  for (const HeadEvidence& head : evidence.heads) {
    const Measure* const found = head.measures.find(measure);
    values.push_back(found == nullptr ? std::numeric_limits<double>::quiet_NaN() : found->value);
  }
  return values;
}

std::array<std::vector<int64_t>, 2> random_halves(int64_t n) {
  std::array<std::vector<int64_t>, 2> halves = {sample(n / 2, n, kDrawHalves)};
  std::vector<int64_t> all(n);
  std::iota(all.begin(), all.end(), 0);
  std::ranges::set_difference(all, halves[0], std::back_inserter(halves[1]));
  return halves;
}

std::vector<std::vector<int64_t>> each_head(const Model& model) {
  std::vector<std::vector<int64_t>> sets(model.heads());
  for (int64_t head = 0; head < model.heads(); ++head) sets[head] = {head};
  return sets;
}

nlohmann::json to_json(std::span<const Estimate> estimates) {
  const auto rounded = [](double value) { return std::stod(fmt::format("{:.6g}", value)); };
  nlohmann::json json = {{"value", nlohmann::json::array()}, {"error", nlohmann::json::array()}};
  for (const Estimate& estimate : estimates) {
    json["value"].push_back(rounded(estimate.value));
    json["error"].push_back(rounded(estimate.error));
    json["n"] = estimate.n;
  }
  return json;
}

std::vector<Estimate> estimates_from(const nlohmann::json& json) {
  std::vector<Estimate> estimates;
  for (size_t i = 0; i < json.at("value").size(); ++i) {
    estimates.push_back(
        {.value = json.at("value").at(i), .error = json.at("error").at(i), .n = json.at("n")});
  }
  return estimates;
}

}  // namespace headwise
