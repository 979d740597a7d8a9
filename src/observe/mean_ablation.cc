// Means of head outputs, and the observer that puts them in place.
#include "headwise/observe/mean_ablation.h"

#include <fmt/format.h>

#include <algorithm>

#include "headwise/core/error.h"
#include "headwise/core/parallel.h"
#include "model/stack_layout.h"
#include "observe/data_pass.h"

namespace headwise {

HeadOutputMeans::HeadOutputMeans(const Model& model) {
  for (const AttentionSite& site : model.attentions()) {
    for (size_t h = 0; h < site.heads.size(); ++h) sums_.emplace_back(site.value_dim);
  }
  rows_.resize(sums_.size());
}

void HeadOutputMeans::on_z(const AttentionSite& site, const Attention&, const MultiHeadAttention&,
                           View<float, 3> z, View<const float, 2>) {
  parallel_for(z.extent(1), [&](int64_t h) {
    std::vector<double>& sum = sums_[site.first + h];
    for (int64_t t = 0; t < z.extent(0); ++t) {
      for (int64_t c = 0; c < z.extent(2); ++c) sum[c] += z(t, h, c);
    }
    rows_[site.first + h] += z.extent(0);
  });
}

std::vector<std::vector<float>> HeadOutputMeans::means() const {
  std::vector<std::vector<float>> means;
  for (size_t h = 0; h < sums_.size(); ++h) {
    std::vector<float>& mean = means.emplace_back();
    const auto n = static_cast<double>(std::max<int64_t>(1, rows_[h]));
    for (const double sum : sums_[h]) mean.push_back(static_cast<float>(sum / n));
  }
  return means;
}

std::vector<HeadOutput> mean_outputs(const Model& model, const ObservedCorpus& corpus,
                                     std::span<const int64_t> heads,
                                     const std::function<void(int64_t, int64_t)>& progress) {
  HeadOutputMeans sums(model);
  const ForwardOptions options{.observer = &sums};
  int64_t done = 0;
  for (const std::vector<int64_t>& texts :
       text_batches(corpus, dynamic_ntk_length(model.config()))) {
    TokenBatch source, target;
    for (const int64_t i : texts) {
      const ObservedText& text = corpus.texts[i];
      source.add(text.ids, text.types);
      if (!text.decoder_ids.empty()) target.add(text.decoder_ids);
    }
    (void)(target.sequences() > 0 ? model.forward(source, target, options)
                                  : model.forward(source, options));
    done += std::ssize(texts);
    if (progress) progress(done, std::ssize(corpus.texts));
  }
  std::vector<std::vector<float>> means = sums.means();
  std::vector<HeadOutput> outputs;
  for (const int64_t head : heads) {
    if (sums.rows(head) == 0) {
      const AttentionSite& site = *site_of_head(model.attentions(), head);
      const bool decoder = site.side == Side::decoder && model.config().encoder_decoder();
      throw Error(
          {.what = "a head has no mean output: no row of the texts reaches it",
           .where = site.head_name(head - site.first),
           .got = decoder ? "a head of the decoder, which is given nothing to read" : "no text",
           .expected = decoder ? "texts for the decoder" : "at least one text"});
    }
    outputs.push_back({.head = head, .output = std::move(means[head])});
  }
  return outputs;
}

AttentionObserver* ReplacedHeads::attention_observer(const AttentionSite& site,
                                                     const Attention& attention) {
  return next_ == nullptr ? nullptr : next_->attention_observer(site, attention);
}

void ReplacedHeads::on_z(const AttentionSite& site, const Attention& attention,
                         const MultiHeadAttention& layer, View<float, 3> z,
                         View<const float, 2> lse) {
  for (const HeadOutput& replaced : outputs_) {
    const int64_t h = replaced.head - site.first;
    if (h < 0 || h >= std::ssize(site.heads)) continue;
    for (int64_t t = 0; t < z.extent(0); ++t) std::ranges::copy(replaced.output, &z(t, h, 0));
  }
  if (next_ != nullptr) next_->on_z(site, attention, layer, z, lse);
}

bool ReplacedHeads::wants_attn_out() const { return next_ != nullptr && next_->wants_attn_out(); }

void ReplacedHeads::on_attn_out(const AttentionSite& site, View<const float, 2> rows) {
  if (next_ != nullptr) next_->on_attn_out(site, rows);
}

bool ReplacedHeads::wants_hidden() const { return next_ == nullptr || next_->wants_hidden(); }

void ReplacedHeads::on_resid_post(Side side, int64_t layer, View<const float, 2> rows) {
  if (next_ != nullptr) next_->on_resid_post(side, layer, rows);
}

}  // namespace headwise
