// Prunes, and proves that what was written is what was meant.
#include "headwise/prune/prune.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/io/model_folder.h"
#include "headwise/model/sentence_embedding.h"
#include "headwise/prune/model_card.h"
#include "model/random_texts.h"
#include "observe/loss_batch.h"
#include "prune/compensate.h"
#include "prune/equivalence.h"
#include "prune/pruned_folder.h"

namespace headwise {
namespace {

constexpr int64_t kSampleRows = 1024;  // of a batch
constexpr int64_t kRandomTexts = 4, kRandomTokens = 64;

constexpr std::array kForms = {std::pair{"masked", PruneForm::masked},
                               std::pair{"compact", PruneForm::compact},
                               std::pair{"uniform", PruneForm::uniform}};
constexpr std::array kCompensations = {std::pair{"none", Compensation::none},
                                       std::pair{"mean", Compensation::mean},
                                       std::pair{"least_squares", Compensation::least_squares}};

template <class Table, class Value>
std::string_view name_of(const Table& table, Value value) {
  return std::ranges::find(table, value, [](const auto& entry) { return entry.second; })->first;
}

template <class Table>
auto by_name(const Table& table, std::string_view name, const char* what) {
  std::vector<std::string_view> known;
  for (const auto& [spelling, value] : table) {
    if (name == spelling) return value;
    known.push_back(spelling);
  }
  throw Error({.what = what,
               .got = fmt::format("\"{}\"", name),
               .expected = fmt::format("one of {}", fmt::join(known, ", "))});
}

std::vector<float> gates_without(const Model& model, std::span<const std::string> drop) {
  std::vector<float> gates(model.heads(), 1);
  if (drop.empty()) return gates;
  for (const HeadIndex head : model.find_heads(fmt::format("{}", fmt::join(drop, ",")))) {
    gates[model.attentions()[head.site].first + head.index] = 0;
  }
  return gates;
}

void check_texts(const ModelConfig& config, const PruneOptions& options) {
  const int64_t wanted = config.encoder_decoder() ? options.source.sequences() : 0;
  if (options.target.sequences() == wanted) return;
  throw Error({.what = "the texts that a pruned model is proved on do not fit it",
               .got = fmt::format("{} targets", options.target.sequences()),
               .expected = fmt::format("{}", wanted)});
}

/// What is known of a pruned model without measuring it.
void report_pruning(const Pruning& pruning, const PruneOptions& options,
                    const std::filesystem::path& to, PruneReport& report) {
  report.form = to_string(options.form);
  report.compensate = to_string(options.compensate);
  report.original = id_of_folder(pruning.folder);
  report.order = options.order;
  for (const AttentionSite& site : pruning.model.attentions()) {
    for (int64_t i = 0; i < std::ssize(site.heads); ++i) {
      if (pruning.gates[site.first + i] == 0) report.removed.push_back(site.head_name(i));
    }
  }
  const int64_t heads = pruning.model.heads();
  report.before = {.heads = heads, .summary = summarize(pruning.folder)};
  report.after = {.heads = heads - std::ssize(report.removed), .summary = summarize(to)};
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

}  // namespace

std::string_view to_string(PruneForm form) { return name_of(kForms, form); }
PruneForm prune_form(std::string_view name) {
  return by_name(kForms, name, "the form of a pruned model is not known");
}
std::string_view to_string(Compensation compensation) {
  return name_of(kCompensations, compensation);
}
Compensation compensation(std::string_view name) {
  return by_name(kCompensations, name, "the compensation is not known");
}

void check_form(const Model& model, const std::filesystem::path& folder, PruneForm form,
                const LoadOptions& load) {
  pruned_config({.model = model,
                 .folder = folder,
                 .gates = std::vector<float>(model.heads(), 1),
                 .load = load},
                form);
}

PrunedModel prune(const Model& model, const std::filesystem::path& folder,
                  std::span<const std::string> drop, const std::filesystem::path& out,
                  const PruneOptions& options) {
  const auto step = [&](std::string_view name) {
    if (options.progress) options.progress(name);
  };
  check_outside(folder, out);
  check_texts(model.config(), options);
  FolderAside aside(out);
  Pruning pruning{
      .model = model, .folder = folder, .gates = gates_without(model, drop), .load = options.load};
  if (options.compensate != Compensation::none) {
    pruning.corrections = compensate(model, pruning.gates, options);
  }
  RandomTexts texts{.source = options.source, .target = options.target};
  const bool random_ids = options.source.rows() == 0;
  if (random_ids) texts = random_texts(model.config(), kRandomTexts, kRandomTokens, options.seed);
  step("writing");
  write_pruned(pruning, options.form, aside.path());
  PrunedModel result{.model = Model::load(aside.path(), options.load)};
  EquivalenceCheck& proof = result.report.proof;
  const auto compare = [&](const Model& reference, std::span<const float> gates) {
    proof = compare_models(result.model, reference, gates, texts.source, texts.target,
                           [&] { step("proof"); });
  };
  if (pruning.corrections.empty()) {
    compare(model, pruning.gates);
  } else {
    const bool masked = options.form == PruneForm::masked;
    const FolderAside reference(aside.beside("reference"));
    write_pruned(pruning, masked ? PruneForm::compact : PruneForm::masked, reference.path());
    compare(Model::load(reference.path(), options.load), {});
  }
  proof.random_ids = random_ids;
  require_same(proof, model, out);
  if (options.finish) {
    options.finish(aside.path());
    result.model = Model::load(aside.path(), options.load);
  }
  report_pruning(pruning, options, aside.path(), result.report);
  result.report.out = out.string();
  if (options.measure) options.measure(result.model, aside.path(), result.report);
  write_model_card(aside.path(), result.report);
  aside.become_out();
  return result;
}

double infidelity(const Model& model, const Model& original, const std::filesystem::path& folder,
                  const TokenBatch& source, const TokenBatch& target) {
  const SentencePooling pooling = SentencePooling::find_or_mean(folder);
  double sum = 0;
  for_each_batch(
      source, target, kSampleRows, [&](const TokenBatch& sources, const TokenBatch& targets) {
        const auto& offsets = (targets.sequences() > 0 ? targets : sources).offsets;
        const Activations a = pooling.embed(last_hidden(model, sources, targets).rows, offsets);
        const Activations b = pooling.embed(last_hidden(original, sources, targets).rows, offsets);
        for (int64_t i = 0; i < a.rows.extent(0); ++i) {
          sum += cosine_distance(a.rows, i, b.rows, i);
        }
      });
  return sum / static_cast<double>(std::max<int64_t>(1, source.sequences()));
}

SpeedComparison compare_speed(const Model& before, const Model& after, int64_t texts,
                              const SpeedOptions& options) {
  using Clock = std::chrono::steady_clock;
  constexpr size_t kMost = 101;
  const RandomTexts batch = random_texts(before.config(), texts, options.tokens, 0);
  const auto seconds = [&](const Model& model) {
    if (options.check) options.check();
    const auto begin = Clock::now();
    (void)last_hidden(model, batch.source, batch.target);
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  (void)seconds(before);  // warm
  (void)seconds(after);
  std::vector<double> of_before, of_after;
  double spent = 0;
  while (of_before.size() < options.fewest ||
         (spent < options.seconds && of_before.size() < kMost)) {
    of_before.push_back(seconds(before));
    of_after.push_back(seconds(after));
    spent += of_before.back() + of_after.back();
  }
  return {.texts = texts,
          .tokens = batch.source.rows() / texts,
          .before = median(of_before),
          .after = median(of_after),
          .before_interval = interval_of_median(of_before),
          .after_interval = interval_of_median(of_after)};
}

std::vector<SpeedComparison> compare_speed(const Model& before, const Model& after,
                                           const SpeedOptions& options) {
  return {compare_speed(before, after, 1, options), compare_speed(before, after, 8, options)};
}

}  // namespace headwise
