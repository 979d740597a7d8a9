// Counts from shapes alone.
#include "observe/pass_work.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "headwise/model/multi_head_attention.h"
#include "model/stack_layout.h"

namespace headwise {
namespace {

double mean_length(const TokenBatch& texts) {
  return static_cast<double>(texts.rows()) /
         static_cast<double>(std::max<int64_t>(1, texts.sequences()));
}

/// Of one query.
double attention_work(const ModelConfig& config, const AttentionConfig& attention, bool cross,
                      double queries, double keys) {
  const int64_t rows = std::max<int64_t>(1, std::llround(queries));
  const AttentionCount count =
      count_attention(layer_config(config, attention, cross), rows, std::llround(keys));
  return static_cast<double>(count.multiply_adds) / static_cast<double>(rows);
}

double feed_forward_work(const ModelConfig& config, const StackConfig& stack) {
  return (config.glu ? 3. : 2.) * static_cast<double>(config.width) *
         static_cast<double>(stack.intermediate);
}

}  // namespace

WorkTokens& WorkTokens::operator+=(const WorkTokens& other) {
  source += other.source;
  target += other.target;
  read += other.read;
  scored += other.scored;
  return *this;
}

PassWork::PassWork(const Model& model, LossTask task, double source, double target)
    : model_(model), two_(target > 0) {
  const ModelConfig& config = model.config();
  encoder_ = count(Side::encoder, source, source, !two_);
  decoder_ = two_ ? count(Side::decoder, target, source, true)
                  : count(Side::decoder, source, source, true);
  const bool ends_in_encoder = !two_ && config.encoder.layers() > 0;
  last_feed_forward_ = feed_forward_work(config, ends_in_encoder ? config.encoder : config.decoder);
  if (scores_tokens(task) || task == LossTask::classify) {
    output_ = static_cast<double>(config.width) * static_cast<double>(model.output_width());
  }
}

PassWork::PassWork(const Model& model, const EvaluationSet& set)
    : PassWork(model, set.task, mean_length(set.examples.all.source),
               mean_length(set.examples.all.target)) {}

PassWork::StackWork PassWork::count(Side side, double queries, double keys, bool last) const {
  const ModelConfig& config = model_.config();
  const StackConfig& stack = stack_config(config, side);
  const int64_t L = stack.layers();
  StackWork work{.from = std::vector<double>(L + 1), .after_self = std::vector<double>(L)};
  if (!stack.cross.empty()) work.after_cross.resize(L);
  for (int64_t layer = L; layer-- > 0;) {
    // The last one is counted where the loss reads.
    double after = work.from[layer + 1];
    if (!last || layer + 1 < L) after += feed_forward_work(config, stack);
    if (!stack.cross.empty()) {
      work.after_cross[layer] = after;
      after += attention_work(config, stack.cross[layer], true, queries, keys);
    }
    work.after_self[layer] = after;
    work.from[layer] =
        after + attention_work(config, stack.attention[layer], false, queries, queries);
  }
  return work;
}

double PassWork::output(const WorkTokens& tokens) const {
  return static_cast<double>(tokens.read) * last_feed_forward_ +
         static_cast<double>(tokens.scored) * output_;
}

double PassWork::whole(const WorkTokens& tokens) const {
  const auto source = static_cast<double>(tokens.source);
  const auto target = static_cast<double>(tokens.target);
  const bool encodes = model_.config().encoder.layers() > 0;
  return source * (encodes ? encoder_ : decoder_).from[0] + (two_ ? target * decoder_.from[0] : 0) +
         output(tokens);
}

double PassWork::ablation(std::span<const int64_t> heads, const WorkTokens& tokens) const {
  const AttentionSite* first = nullptr;
  const auto place = [](const AttentionSite& site) {
    return std::tuple(site.side, site.layer, site.kind);
  };
  for (const int64_t head : heads) {
    const AttentionSite* const site = site_of_head(model_.attentions(), head);
    if (first == nullptr || place(*site) < place(*first)) first = site;
  }
  if (first == nullptr) return 0;
  const bool encodes = model_.config().encoder.layers() > 0;
  const bool decoder = first->side == Side::decoder;
  if (decoder && encodes && !two_) return 0;
  const StackWork& stack = decoder ? decoder_ : encoder_;
  const double after =
      (first->kind == AttentionKind::cross ? stack.after_cross : stack.after_self)[first->layer];
  const auto source = static_cast<double>(tokens.source);
  const auto target = static_cast<double>(tokens.target);
  if (!decoder) return source * after + (two_ ? target * decoder_.from[0] : 0) + output(tokens);
  return (two_ ? target : source) * after + output(tokens);
}

}  // namespace headwise
