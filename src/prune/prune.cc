// Prunes, and proves that what was written is what was meant.
#include "headwise/prune/prune.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/io/model_folder.h"
#include "headwise/model/sentence_embedding.h"
#include "headwise/prune/model_card.h"
#include "io/folder_aside.h"
#include "model/model_source.h"
#include "model/random_texts.h"
#include "observe/loss_batch.h"
#include "prune/compensate.h"
#include "prune/equivalence.h"
#include "prune/pruned_folder.h"
#include "prune/trained_folder.h"

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
std::vector<std::string_view> names_in(const Table& table) {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : table) names.emplace_back(name);
  return names;
}

template <class Table>
auto by_name(const Table& table, std::string_view name, const char* what) {
  for (const auto& [known, value] : table) {
    if (name == known) return value;
  }
  throw Error({.what = what,
               .got = fmt::format("\"{}\"", name),
               .expected = fmt::format("one of {}", fmt::join(names_in(table), ", "))});
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

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

/// The heads of these names and layers, one by one.
std::vector<std::string> names_of(const Model& model, std::span<const std::string> drop) {
  std::vector<std::string> names;
  if (drop.empty()) return names;
  for (const HeadIndex head : model.find_heads(fmt::format("{}", fmt::join(drop, ",")))) {
    names.push_back(model.attentions()[head.site].head_name(head.index));
  }
  return names;
}

class PruneRun {
 public:
  PruneRun(const Model& model, std::span<const std::string> drop, const PruneOptions& options)
      : model_(model),
        original_(options.original != nullptr ? *options.original : model),
        options_(options),
        heads_(names_of(model, drop)) {
    check_texts(model.config(), options);
    if (options.recover && options.form == PruneForm::masked) {
      throw Error(
          {.what = "a masked model cannot be trained: the zeros of its heads would be filled",
           .expected = "another form, such as compact"});
    }
    check_form(model, options.form);
    if (!options.out.empty()) check_outside(model.folder(), options.out);
    texts_ = {.source = options.source, .target = options.target};
    proof_.random_ids = options.source.rows() == 0;
    if (proof_.random_ids) {
      texts_ = random_texts(model.config(), kRandomTexts, kRandomTokens, options.seed);
    }
  }

  PrunedModel run() {
    aside_ =
        options_.out.empty() ? temporary_folder() : std::make_shared<FolderAside>(options_.out);
    Model pruned = in_rounds();
    PruneReport report = this->report(pruned);
    if (options_.measure) options_.measure(pruned, report);
    write_model_card(aside_->path(), report);
    ModelSource& source = ModelSource::of(pruned);
    if (options_.out.empty()) {
      source.keep(aside_);
      source.set_name(model_.name());
    } else {
      aside_->become_out();
      source.moved_to(options_.out);
    }
    return {std::move(pruned), std::move(report)};
  }

 private:
  bool recovers() const { return options_.recover && options_.recover->training.epochs > 0; }

  void step(std::string_view name) const {
    if (options_.progress) options_.progress(name, 0, 1);
  }

  std::function<void()> check(std::string_view name) const {
    return [this, name] { step(name); };
  }

  /// In rounds some heads go, then the model learns to do without them. Only the last one has the
  /// form: in compact models heads keep their names.
  Model in_rounds() {
    const int64_t rounds = options_.recover ? options_.recover->rounds : 1;
    const auto count = std::ssize(heads_);
    std::optional<Model> before;  // none: the model itself
    for (int64_t round = 0; round + 1 < rounds; ++round) {
      const int64_t begin = count * round / rounds, end = count * (round + 1) / rounds;
      const std::filesystem::path to = aside_->beside(fmt::format("{}", round));
      std::filesystem::create_directory(to);
      before = cut(before ? *before : model_, std::span(heads_).subspan(begin, end - begin),
                   PruneForm::compact, to);
    }
    const int64_t begin = count * (rounds - 1) / rounds;
    return cut(before ? *before : model_, std::span(heads_).subspan(begin), options_.form,
               aside_->path());
  }

  /// Writes the model without the heads, compares both, and trains what was written.
  Model cut(const Model& from, std::span<const std::string> heads, PruneForm form,
            const std::filesystem::path& to) {
    Pruning pruning{.model = from, .gates = gates_without(from, heads)};
    if (options_.compensate != Compensation::none) {
      pruning.corrections = compensate(from, pruning.gates, options_);
    }
    step("writing");
    write_pruned(pruning, form, to);
    Model pruned = read_model(to, model_.load_options());
    prove(pruning, pruned, form);
    if (!recovers()) return pruned;
    const Recovery& recovery = *options_.recover;
    if (options_.evaluation != nullptr && recovery.rounds == 1) {
      untrained_ = loss_of(pruned, *options_.evaluation, &original_, check("loss"));
    }
    FineTuneOptions training = recovery.training;
    training.progress = [&](int64_t done, int64_t steps, double loss) {
      if (recovery.training.progress) recovery.training.progress(done, steps, loss);
      if (options_.progress) options_.progress("steps", done, steps);
    };
    TrainedFolder trained(to, recovery.set, model_.load_options());
    trained.learn(original_, training);
    trained.write();
    return read_model(to, model_.load_options());
  }

  void prove(const Pruning& pruning, const Model& pruned, PruneForm form) {
    const auto compare = [&](const Model& reference, std::span<const float> gates) {
      const bool random_ids = proof_.random_ids;
      proof_ =
          compare_models(pruned, reference, gates, texts_.source, texts_.target, check("proof"));
      proof_.random_ids = random_ids;
    };
    if (pruning.corrections.empty()) {
      compare(pruning.model, pruning.gates);
    } else {
      const bool masked = form == PruneForm::masked;
      const FolderAside reference(aside_->beside("reference"));
      write_pruned(pruning, masked ? PruneForm::compact : PruneForm::masked, reference.path());
      compare(read_model(reference.path(), model_.load_options()), {});
    }
    require_same(proof_, pruning.model, options_.out);
  }

  PruneReport report(const Model& pruned) const {
    const int64_t heads = original_.heads();
    PruneReport report{.form = std::string(to_string(options_.form)),
                       .compensate = std::string(to_string(options_.compensate)),
                       .out = options_.out.string(),
                       .original = id_of_folder(original_.folder()),
                       .removed = heads_,
                       .order = options_.order,
                       .recovered = recovers(),
                       .proof = proof_,
                       .cut = untrained_};
    report.before = {.heads = heads, .summary = summarize(original_.folder())};
    report.after = {.heads = heads - std::ssize(heads_), .summary = summarize(pruned.folder())};
    if (options_.evaluation != nullptr) {
      const EvaluationSet& set = *options_.evaluation;
      report.before.loss = loss_of(original_, set, nullptr, check("loss"));
      report.after.loss = loss_of(pruned, set, &original_, check("loss"));
    }
    if (options_.speed) report.speed = compare_speed(original_, pruned, *options_.speed);
    return report;
  }

  const Model& model_;
  const Model& original_;
  const PruneOptions& options_;
  std::vector<std::string> heads_;  // that go, one by one
  RandomTexts texts_{};             // that the proof is run on
  std::shared_ptr<FolderAside> aside_;
  EquivalenceCheck proof_{};               // of the last round
  std::optional<LossEvidence> untrained_;  // the loss before recovery
};

}  // namespace

std::string_view to_string(PruneForm form) { return name_of(kForms, form); }
PruneForm prune_form(std::string_view name) {
  return by_name(kForms, name, "the form of a pruned model is not known");
}
std::vector<std::string_view> prune_form_names() { return names_in(kForms); }
std::string_view to_string(Compensation compensation) {
  return name_of(kCompensations, compensation);
}
Compensation compensation(std::string_view name) {
  return by_name(kCompensations, name, "the compensation is not known");
}
std::vector<std::string_view> compensation_names() { return names_in(kCompensations); }

void check_form(const Model& model, PruneForm form) {
  pruned_config({.model = model, .gates = std::vector<float>(model.heads(), 1)}, form);
}

PrunedModel prune(const Model& model, std::span<const std::string> drop,
                  const PruneOptions& options) {
  return PruneRun(model, drop, options).run();
}

double infidelity(const Model& model, const Model& original, const TokenBatch& source,
                  const TokenBatch& target) {
  const SentencePooling pooling = SentencePooling::find_or_mean(model.folder());
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
