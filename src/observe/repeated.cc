// Repeated random sequences, and what heads do on them. With k tokens, over the rows i of the
// second time:
//   induction           mean of p[i, i-k+1], what came after this token the first time
//   duplicate           mean of p[i, i-k], this token the first time
//   previous_on_random  mean of p[i, i-1]
#include "observe/repeated.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/core/parallel.h"
#include "headwise/core/random.h"
#include "headwise/core/seed.h"
#include "observe/head_metric.h"

namespace headwise {
namespace {

constexpr uint32_t kRepeatPurpose = 0x72657065;

/// The ids that a random sequence may have.
std::vector<int32_t> ordinary_ids(const ModelConfig& config, const Tokenizer* tokenizer,
                                  int64_t vocabulary) {
  std::vector<int32_t> left_out = config.eos;
  const auto leave_out = [&](std::initializer_list<std::optional<int32_t>> ids) {
    for (const auto& id : ids) {
      if (id) left_out.push_back(*id);
    }
  };
  leave_out({config.pad, config.bos, config.decoder_start, config.forced_eos});
  if (tokenizer != nullptr) {
    const Tokenizer::SpecialTokens& one = tokenizer->special_tokens();
    leave_out({one.unk, one.bos, one.eos, one.cls, one.sep, one.pad, one.mask});
    vocabulary = std::min(vocabulary, tokenizer->size());
  }
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < vocabulary; ++id) {
    if (std::ranges::find(left_out, id) != left_out.end()) continue;
    if (tokenizer == nullptr || (!tokenizer->is_special(id) && !tokenizer->token(id).empty())) {
      ids.push_back(id);
    }
  }
  if (ids.empty()) {
    throw Error({.what = "repeated sequences: the vocabulary has no ordinary token",
                 .got = fmt::format("{} tokens", vocabulary)});
  }
  return ids;
}

/// `length` of the ids; all different if there are so many.
std::vector<int32_t> draw_ids(std::vector<int32_t> ids, int64_t length, Random& random) {
  std::vector<int32_t> drawn;
  const bool enough = std::ssize(ids) >= length;
  for (int64_t i = 0; i < length; ++i) {
    const auto left = static_cast<uint32_t>(std::ssize(ids) - (enough ? i : 0));
    const uint32_t at = random.below(left);
    drawn.push_back(ids[at]);
    if (enough) std::swap(ids[at], ids[left - 1]);
  }
  return drawn;
}

/// What mean of the weights each measure of a head is.
struct RepetitionTally {
  double induction = 0, duplicate = 0, previous = 0;
  int64_t n = 0;
};

class RepetitionMetric : public HeadMetric {
 public:
  explicit RepetitionMetric(const MetricContext& context)
      : context_(context),
        wrapping_(usual_wrapping(context.model.config(), context.tokenizer)),
        tallies_(context.model.heads()) {}

  void begin(const MetricBatch& batch) override { batch_ = &batch; }

  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention& layer,
            View<const float, 3>, View<const float, 2>) override {
    if (site.kind != AttentionKind::self || site.heads.empty()) return;
    const TokenBatch& texts = batch_->rows(site);
    const bool of_decoder = &texts != &batch_->source;
    const int64_t before = of_decoder ? 1 : std::ssize(wrapping_.before);
    const int64_t around = before + (of_decoder ? 0 : std::ssize(wrapping_.after));
    std::vector<int64_t> rows, positions, periods;  // of the second time
    for (int64_t b = 0; b < texts.sequences(); ++b) {
      const int64_t period = (texts.offsets[b + 1] - texts.offsets[b] - around) / 2;
      for (int64_t i = before + period; i < before + 2 * period; ++i) {
        rows.push_back(texts.offsets[b] + i);
        positions.push_back(i);
        periods.push_back(period);
      }
      length_ = std::max(length_, period);
    }
    const AttentionMaps maps = layer.maps(attention, rows);
    parallel_for(std::ssize(site.heads), [&](int64_t h) {
      RepetitionTally& running_mean = tallies_[site.first + h];
      for (size_t r = 0; r < rows.size(); ++r) {
        const std::span<const float> weights = maps.row(static_cast<int64_t>(r), h);
        const int64_t i = positions[r], k = periods[r];
        running_mean.induction += weights[i - k + 1];
        running_mean.duplicate += weights[i - k];
        running_mean.previous += weights[i - 1];
        ++running_mean.n;
      }
    });
  }

  void finish(std::span<Measures> heads, Evidence& evidence) override {
    for (size_t h = 0; h < tallies_.size(); ++h) {
      const RepetitionTally& running_mean = tallies_[h];
      if (running_mean.n == 0 || (!context_.wanted.empty() && !context_.wanted[h])) continue;
      const auto n = static_cast<double>(running_mean.n);
      heads[h].add("induction", {.value = running_mean.induction / n, .n = running_mean.n});
      heads[h].add("duplicate", {.value = running_mean.duplicate / n, .n = running_mean.n});
      heads[h].add("previous_on_random", {.value = running_mean.previous / n, .n = running_mean.n});
    }
    if (length_ < kRepeatedLength) {
      evidence.options["repeated_length"] =
          fmt::format("{}, not {}: the model has {} positions", length_, kRepeatedLength,
                      context_.model.config().max_positions);
    }
  }

 private:
  const MetricContext& context_;
  Wrapping wrapping_;
  const MetricBatch* batch_ = nullptr;
  std::vector<RepetitionTally> tallies_;  // [heads of the model]
  int64_t length_ = 0;
};

}  // namespace

Wrapping usual_wrapping(const ModelConfig& config, const Tokenizer* tokenizer) {
  Wrapping wrapping;
  if (tokenizer != nullptr) {
    const Encoding encoding = tokenizer->encode("a");
    bool behind = false;
    for (size_t i = 0; i < encoding.ids.size(); ++i) {
      if (!encoding.special[i]) {
        behind = true;
      } else {
        (behind ? wrapping.after : wrapping.before).push_back(encoding.ids[i]);
      }
    }
  }
  const bool decoder_only = config.encoder.layers() == 0;
  if (decoder_only && wrapping.before.empty()) {
    std::optional<int32_t> bos = config.bos;
    if (tokenizer != nullptr && tokenizer->special_tokens().bos) {
      bos = tokenizer->special_tokens().bos;
    }
    if (bos && *bos >= 0 && *bos < config.vocabulary) wrapping.before.push_back(*bos);
  }
  return wrapping;
}

RepeatedSequences repeated_sequences(const ModelConfig& config, const Tokenizer* tokenizer,
                                     uint64_t seed, int64_t length, int64_t count) {
  const Wrapping wrapping = usual_wrapping(config, tokenizer);
  const bool two_sides = config.encoder_decoder();
  int64_t around = std::ssize(wrapping.before) + std::ssize(wrapping.after);
  if (two_sides) around = std::max<int64_t>(around, 1);
  if (config.max_positions > 0) length = std::min(length, (config.max_positions - around) / 2);
  RepeatedSequences result;
  if (length < 2) return result;
  result.length = length;
  const std::vector<int32_t> ids = ordinary_ids(config, tokenizer, config.vocabulary);
  std::vector<int32_t> decoder_ids;
  if (two_sides) decoder_ids = ordinary_ids(config, tokenizer, config.decoder_vocabulary);
  const auto twice = [&](std::vector<int32_t> sequence, const std::vector<int32_t>& drawn) {
    for (int time = 0; time < 2; ++time) {
      sequence.insert(sequence.end(), drawn.begin(), drawn.end());
    }
    return sequence;
  };
  for (int64_t i = 0; i < count; ++i) {
    Random random(derived_seed(seed, i, 0, kRepeatPurpose));
    result.ids.push_back(twice(wrapping.before, draw_ids(ids, length, random)));
    result.ids.back().insert(result.ids.back().end(), wrapping.after.begin(), wrapping.after.end());
    if (!two_sides) continue;
    const int32_t start = config.decoder_start.value_or(config.bos.value_or(0));
    result.decoder_ids.push_back(twice({start}, draw_ids(decoder_ids, length, random)));
  }
  return result;
}

std::unique_ptr<HeadMetric> repetition_metric(const MetricContext& context) {
  if (context.corpus.texts.empty()) return nullptr;
  return std::make_unique<RepetitionMetric>(context);
}

}  // namespace headwise
