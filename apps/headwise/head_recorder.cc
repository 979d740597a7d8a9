// How heads are recorded.
#include "head_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "headwise/core/error.h"

namespace headwise::program {
namespace {

void take(View<const float, 3> all, int64_t head, HeadArray& array) {
  array.rows = all.extent(0);
  array.columns = all.extent(2);
  for (int64_t row = 0; row < array.rows; ++row) {
    for (int64_t d = 0; d < array.columns; ++d) array.values.push_back(all(row, head, d));
  }
}

void take_map(const AttentionMaps& maps, int64_t head, const Attention& attention,
              HeadArray& array) {
  array.rows = attention.q.extent(0);
  array.columns = attention.k.extent(0);
  for (int64_t row = 0; row < array.rows; ++row) {
    const auto weights = maps.row(row, head);
    array.values.insert(array.values.end(), weights.begin(), weights.end());
  }
}

/// z W_O', the part of one head in what the attention adds to the residual stream.
void take_contribution(const MultiHeadAttention& layer, View<const float, 3> z, int64_t head,
                       HeadArray& array) {
  const auto weights = layer.weights();
  const View<float, 2> output = weights->output();
  const int64_t Dv = z.extent(2);
  array.rows = z.extent(0);
  array.columns = output.extent(0);
  for (int64_t row = 0; row < array.rows; ++row) {
    for (int64_t c = 0; c < array.columns; ++c) {
      double sum = 0;
      for (int64_t d = 0; d < Dv; ++d) sum += double{z(row, head, d)} * output(c, head * Dv + d);
      array.values.push_back(static_cast<float>(sum));
    }
  }
}

}  // namespace

HeadRecorder::HeadRecorder(const Model& model, const std::vector<HeadIndex>& heads,
                           std::string what)
    : what_(std::move(what)) {
  for (const HeadIndex head : heads) {
    const AttentionSite& site = model.attentions()[head.site];
    wanted_[site.name].emplace_back(head.index, arrays.size());
    arrays.push_back({.site = &site, .name = site.head_name(head.index)});
  }
}

void HeadRecorder::on_resid_post(Side, int64_t, View<const float, 2>) { throw_if_interrupted(); }

void HeadRecorder::on_z(const AttentionSite& site, const Attention& attention,
                        const MultiHeadAttention& layer, View<float, 3> z, View<const float, 2>) {
  const auto wanted = wanted_.find(site.name);
  if (wanted == wanted_.end()) return;
  AttentionMaps maps;
  if (what_ == "maps") {
    std::vector<int64_t> rows(attention.q.extent(0));
    std::iota(rows.begin(), rows.end(), 0);
    maps = layer.maps(attention, rows);
  }
  for (const auto& [head, at] : wanted->second) {
    HeadArray& array = arrays[at];
    if (head >= layer.shape().learned() && (what_ == "q" || what_ == "k")) {
      throw Error({.what = "a fixed head has no queries and no keys",
                   .where = array.name,
                   .got = fmt::format("--what {}", what_),
                   .expected = "maps, v, z or contribution"});
    }
    if (what_ == "maps") {
      take_map(maps, head, attention, array);
    } else if (what_ == "contribution") {
      take_contribution(layer, z, head, array);
    } else if (what_ == "q" || what_ == "z") {
      take(what_ == "q" ? attention.q : View<const float, 3>(z), head, array);
    } else {
      take(what_ == "k" ? attention.k : attention.v, layer.shape().kv_of(head), array);
    }
  }
}

bool asks_decoder(const Model& model, const std::vector<HeadIndex>& heads) {
  return std::ranges::any_of(heads, [&](const HeadIndex& head) {
    return model.attentions()[head.site].side == Side::decoder;
  });
}

std::vector<HeadArray> record_heads(const Session& session, const Input& input,
                                    const std::vector<HeadIndex>& heads, const std::string& what) {
  HeadRecorder recorder(session.model(), heads, what);
  const ForwardOptions forward = session.forward(&recorder);
  TokenBatch batch, decoder;
  batch.add(input.encoding.ids, input.encoding.type_ids);
  if (!input.decoder_ids.empty() && asks_decoder(session.model(), heads)) {
    decoder.add(input.decoder_ids);
    (void)session.model().forward(batch, decoder, forward);
  } else {
    (void)session.model().forward(batch, forward);
  }
  return std::move(recorder.arrays);
}

}  // namespace headwise::program
