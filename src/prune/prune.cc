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
#include "headwise/core/random.h"
#include "headwise/model/sentence_embedding.h"
#include "observe/loss_batch.h"
#include "prune/compensate.h"
#include "prune/pruned_folder.h"

namespace headwise {
namespace {

// More than rounding makes of float32 sums in another order, in a deep model; far less than a head.
constexpr double kRounding = 1e-3;
constexpr int64_t kProofRows = 1024;  // of a batch
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

TokenBatch random_texts(const ModelConfig& config, int64_t texts, int64_t tokens, bool target,
                        uint64_t seed) {
  const int64_t vocabulary = target ? config.decoder_vocabulary : config.vocabulary;
  Random random(seed, target ? 1 : 0);
  TokenBatch batch;
  for (int64_t b = 0; b < texts; ++b) {
    std::vector<int32_t> ids(config.max_positions > 0 ? std::min(tokens, config.max_positions)
                                                      : tokens);
    for (int32_t& id : ids) {
      do {
        id = static_cast<int32_t>(random.below(static_cast<uint32_t>(vocabulary)));
      } while (id == config.pad && vocabulary > 1);
    }
    batch.add(ids);
  }
  return batch;
}

Activations hidden(const Model& model, const TokenBatch& source, const TokenBatch& target,
                   const ForwardOptions& options = {}) {
  return target.texts() > 0 ? model.hidden(source, target, options) : model.hidden(source, options);
}

void check_texts(const ModelConfig& config, const PruneOptions& options) {
  const int64_t wanted = config.encoder_decoder() ? options.source.texts() : 0;
  if (options.target.texts() == wanted) return;
  throw Error({.what = "the texts that a pruned model is proved on do not fit it",
               .got = fmt::format("{} targets", options.target.texts()),
               .expected = fmt::format("{}", wanted)});
}

/// The largest difference of hidden states, and the largest of these.
struct Difference {
  double largest = 0, value = 0;

  void add(View<const float, 2> a, View<const float, 2> b) {
    for (int64_t i = 0; i < a.extent(0) * a.extent(1); ++i) {
      const double x = a.data()[i], y = b.data()[i];
      value = std::isnan(x - y) ? INFINITY : std::max(value, std::abs(x - y));
      largest = std::max(largest, std::abs(x));
    }
  }
  double relative() const {
    const double share = largest > 0 ? value / largest : value;
    return std::isnan(share) ? INFINITY : share;
  }
};

PruneProof compare(const Pruning& pruning, const Model& written, const Model& other,
                   const PruneOptions& options, bool random_ids) {
  Difference forms, gates;
  for_each_batch(options.source, options.target, kProofRows,
                 [&](const TokenBatch& source, const TokenBatch& target) {
                   if (options.progress) options.progress("proof");
                   const Activations rows = hidden(written, source, target);
                   forms.add(hidden(other, source, target).rows, rows.rows);
                   if (!pruning.corrections.empty()) return;
                   const ForwardOptions closed{
                       .gates = {pruning.gates.data(), {1, std::ssize(pruning.gates)}}};
                   gates.add(hidden(pruning.model, source, target, closed).rows, rows.rows);
                 });
  return {.max_difference = std::max(forms.relative(), gates.relative()),
          .texts = options.source.texts(),
          .tokens = options.source.rows() + options.target.rows(),
          .random_ids = random_ids};
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

PruneProof prune(const Model& model, const std::filesystem::path& folder,
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
  PruneOptions proof = options;
  const bool random_ids = options.source.rows() == 0;
  if (random_ids) {
    const ModelConfig& config = model.config();
    proof.source = random_texts(config, kRandomTexts, kRandomTokens, false, options.seed);
    proof.target = {};
    if (config.encoder_decoder()) {
      proof.target = random_texts(config, kRandomTexts, kRandomTokens, true, options.seed);
    }
  }
  step("writing");
  write_pruned(pruning, options.form, aside.path());
  const bool masked = options.form == PruneForm::masked;
  const FolderAside reference(aside.path().string() + ".reference");
  write_pruned(pruning, masked ? PruneForm::compact : PruneForm::masked, reference.path());
  const PruneProof result = compare(pruning, Model::load(aside.path(), options.load),
                                    Model::load(reference.path(), options.load), proof, random_ids);
  if (!(result.max_difference <= kRounding)) {
    throw Error({.what = "the pruned model is not what was meant, and was not kept",
                 .where = out.string(),
                 .got = fmt::format("hidden states that differ by {:.2g} of the largest",
                                    result.max_difference),
                 .expected = fmt::format("at most {:.2g}, as rounding makes", kRounding),
                 .hint = "this is a mistake in headwise: please report it"});
  }
  if (options.finish) options.finish(aside.path());
  aside.become_out();
  return result;
}

double infidelity(const Model& model, const Model& original, const std::filesystem::path& folder,
                  const TokenBatch& source, const TokenBatch& target) {
  const SentencePooling pooling = SentencePooling::find_or_mean(folder);
  double sum = 0;
  for_each_batch(
      source, target, kProofRows, [&](const TokenBatch& sources, const TokenBatch& targets) {
        const auto& offsets = (targets.texts() > 0 ? targets : sources).offsets;
        const Activations a = pooling.embed(hidden(model, sources, targets).rows, offsets);
        const Activations b = pooling.embed(hidden(original, sources, targets).rows, offsets);
        const auto width = static_cast<size_t>(a.rows.extent(1));
        for (int64_t i = 0; i < a.rows.extent(0); ++i) {
          sum += cosine_distance({&a.rows(i, 0), width}, {&b.rows(i, 0), width});
        }
      });
  return sum / static_cast<double>(std::max<int64_t>(1, source.texts()));
}

std::vector<SpeedComparison> compare_speed(const Model& before, const Model& after, int64_t tokens,
                                           const std::function<void()>& check) {
  using Clock = std::chrono::steady_clock;
  constexpr size_t kFewest = 5, kMost = 101;
  constexpr double kSeconds = 2;
  const ModelConfig& config = before.config();
  if (config.max_positions > 0) tokens = std::min(tokens, config.max_positions);
  std::vector<SpeedComparison> comparisons;
  for (const int64_t texts : {1, 8}) {
    const TokenBatch source = random_texts(config, texts, tokens, false, 0);
    const TokenBatch target =
        config.encoder_decoder() ? random_texts(config, texts, tokens, true, 0) : TokenBatch();
    const auto seconds = [&](const Model& model) {
      if (check) check();
      const auto begin = Clock::now();
      (void)hidden(model, source, target);
      return std::chrono::duration<double>(Clock::now() - begin).count();
    };
    (void)seconds(before);  // warm
    (void)seconds(after);
    std::vector<double> of_before, of_after;
    double spent = 0;
    while (of_before.size() < kFewest || (spent < kSeconds && of_before.size() < kMost)) {
      of_before.push_back(seconds(before));
      of_after.push_back(seconds(after));
      spent += of_before.back() + of_after.back();
    }
    comparisons.push_back(
        {.texts = texts, .tokens = tokens, .before = median(of_before), .after = median(of_after)});
  }
  return comparisons;
}

}  // namespace headwise
