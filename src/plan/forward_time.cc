// Times a model and its attentions on this machine.
#include "plan/forward_time.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "headwise/prune/prune.h"
#include "io/folder_aside.h"
#include "model/model_source.h"
#include "model/random_texts.h"
#include "plan/model_cost.h"
#include "prune/equivalence.h"
#include "prune/pruned_folder.h"

namespace headwise {
namespace {

constexpr int64_t kTexts = 8, kTokens = 128;
constexpr int kPasses = 5;
constexpr double kSeconds = 0.1;  // that a measurement takes at least

/// The best of several passes, after one that is not counted.
double best_of(const std::function<void()>& pass) {
  using Clock = std::chrono::steady_clock;
  pass();
  double best = 0, all = 0;
  for (int i = 0; i < kPasses || all < kSeconds; ++i) {
    const auto start = Clock::now();
    pass();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = i == 0 ? seconds : std::min(best, seconds);
    all += seconds;
  }
  return best;
}

double whole_seconds(const Model& model) {
  const RandomTexts texts = random_texts(model.config(), kTexts, kTokens, 0);
  return best_of([&] { (void)last_hidden(model, texts.source, texts.target); });
}

}  // namespace

ForwardTime::ForwardTime(const Model& model, std::function<void()> check)
    : model_(model), check_(std::move(check)) {
  const int64_t positions = model.config().max_positions;
  const int64_t length = positions > 0 ? std::min(positions, kTokens) : kTokens;
  for (int64_t b = 0; b <= kTexts; ++b) offsets_.push_back(b * length);
  rest_ = whole_seconds(model);
  const std::vector<uint8_t> all(model.heads(), 1);
  double attentions = 0;
  for (const AttentionSite& site : model.attentions()) attentions += attention_seconds(site, all);
  rest_ = std::max(0., rest_ - attentions);
}

double ForwardTime::predicted_speedup(std::span<const uint8_t> kept) {
  return seconds(std::vector<uint8_t>(kept.size(), 1)) / seconds(kept);
}

double ForwardTime::measured_speedup(std::span<const uint8_t> kept) const {
  const std::vector<float> gates(kept.begin(), kept.end());
  if (std::ranges::find(gates, 0.f) == gates.end()) return 1;
  const std::shared_ptr<FolderAside> compact = temporary_folder();
  write_pruned({.model = model_, .gates = gates}, PruneForm::compact, compact->path());
  const SpeedComparison speed =
      compare_speed(model_, read_model(compact->path(), model_.load_options()), kTexts,
                    {.tokens = kTokens, .check = check_});
  return speed.before / speed.after;
}

double ForwardTime::seconds(std::span<const uint8_t> kept) {
  double sum = rest_;
  for (const AttentionSite& site : model_.attentions()) sum += attention_seconds(site, kept);
  return sum;
}

double ForwardTime::attention_seconds(const AttentionSite& site, std::span<const uint8_t> kept) {
  const bool cross = site.kind == AttentionKind::cross;
  const bool causal = !cross && (site.side == Side::decoder ? model_.config().decoder.causal
                                                            : model_.config().encoder.causal);
  const MultiHeadAttentionConfig config = kept_layer(model_.config(), site, kept);
  const std::pair key(causal, resolve(config));
  for (const auto& [known, seconds] : measured_) {
    if (known == key) return seconds;
  }
  if (check_) check_();
  const MultiHeadAttention layer{MultiHeadAttentionWeights(config)};
  const Activations x(offsets_.back(), model_.config().width);
  const Activations out(offsets_.back(), model_.config().width);
  std::ranges::fill(x.buffer.span(), 1.f);
  MultiHeadAttention::Pass pass;
  const Attention params{.q_offsets = offsets_, .mask = {.causal = causal}};
  const double seconds = best_of([&] {
    layer.forward(x.rows, cross ? View<const float, 2>(x.rows) : View<const float, 2>(), params,
                  pass, out.rows);
  });
  measured_.emplace_back(key, seconds);
  return seconds;
}

}  // namespace headwise
