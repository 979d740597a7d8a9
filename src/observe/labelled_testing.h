// What tests of metrics share that need labels: a pass over a few texts, sentences made up by
// chance, and the maps of a text as they are.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "golden/folder.h"
#include "headwise/core/random.h"
#include "headwise/model/model.h"
#include "model/stack_layout.h"
#include "observe/head_metric.h"
#include "observe/metric_testing.h"

namespace headwise {

/// What a metric says after it went through the corpus in batches of so many texts.
struct MetricResult {
  std::vector<Measures> heads{};
  Evidence evidence{};
};

inline MetricResult run_metric(const MetricContext& context, std::unique_ptr<HeadMetric> metric,
                               int64_t texts_per_batch = 3) {
  PassOn observer(*metric);
  const auto& texts = context.corpus.texts;
  do {
    for (int64_t begin = 0; begin < std::ssize(texts); begin += texts_per_batch) {
      TokenBatch source, target;
      std::vector<int64_t> indices;
      for (int64_t i = begin; i < std::min(begin + texts_per_batch, std::ssize(texts)); ++i) {
        indices.push_back(i);
        source.add(texts[i].ids);
        if (!texts[i].decoder_ids.empty()) target.add(texts[i].decoder_ids);
      }
      const MetricBatch batch{.texts = indices, .source = source, .target = target};
      metric->begin(batch);
      const ForwardOptions options{.observer = &observer};
      batch.run(context.model, options);
      metric->end();
    }
  } while (metric->again());
  MetricResult observed{.heads = std::vector<Measures>(context.model.heads())};
  metric->finish(observed.heads, observed.evidence);
  return observed;
}

/// Weights and outputs of all heads within one text: [head][row][key], [head][row][Dv]; nothing for
/// heads of other attentions.
struct SeenText : ForwardObserver {
  explicit SeenText(int64_t heads) : maps(heads), z(heads) {}
  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention& layer,
            View<float, 3> out, View<const float, 2>) override {
    if (site.name.starts_with("cross") || site.name.starts_with("dec")) return;
    std::vector<int64_t> rows;
    for (int64_t row = 0; row < out.extent(0); ++row) rows.push_back(row);
    const AttentionMaps all = layer.maps(attention, rows);
    for (int64_t h = 0; h < out.extent(1); ++h) {
      for (const int64_t row : rows) {
        const auto weights = all.row(row, h);
        maps[site.first + h].emplace_back(weights.begin(), weights.end());
        z[site.first + h].emplace_back(&out(row, h, 0), &out(row, h, 0) + out.extent(2));
      }
    }
  }
  std::vector<std::vector<std::vector<float>>> maps, z;
};

inline SeenText see(const Model& model, const ObservedText& text) {
  SeenText seen(model.heads());
  TokenBatch source, target;
  source.add(text.ids);
  if (text.decoder_ids.empty()) {
    model.forward(source, {.observer = &seen});
  } else {
    target.add(text.decoder_ids);
    model.forward(source, target, {.observer = &seen});
  }
  return seen;
}

inline std::string head_name(const Model& model, int64_t head) {
  const AttentionSite& site = *site_of_head(model.attentions(), head);
  return site.head_name(head - site.first);
}

/// A text with a token for every piece of its words, and one before and after all.
class PiecedText {
 public:
  explicit PiecedText(uint64_t stream) : random_(7, stream) { put({}, -1); }

  /// A word of some pieces; each is two letters.
  TokenSpan add(int64_t pieces) {
    if (!text_.empty()) text_ += ' ';
    const auto begin = std::ssize(text_);
    for (int64_t i = 0; i < pieces; ++i) {
      const auto at = std::ssize(text_);
      text_ += static_cast<char>('a' + random_.below(5));
      text_ += static_cast<char>('a' + random_.below(3));
      put({at, at + 2}, 0);
    }
    return {begin, std::ssize(text_)};
  }

  ObservedText finish(bool two_sides) {
    put({}, -1);
    ObservedText observed{.ids = encoding_.ids, .encoding = encoding_};
    if (two_sides) observed.decoder_ids = {1, 5, 4, 9};
    return observed;
  }

  const std::string& text() const { return text_; }
  uint32_t below(uint32_t n) { return random_.below(n); }

 private:
  void put(TokenSpan bytes, int sequence) {
    encoding_.ids.push_back(static_cast<int32_t>(5 + random_.below(50)));
    encoding_.special.push_back(sequence < 0);
    encoding_.sequence.push_back(static_cast<int8_t>(sequence));
    encoding_.bytes.push_back(bytes);
  }

  Random random_;
  std::string text_;
  Encoding encoding_;
};

/// Sentences with trees and tags by chance.
struct ChanceTreebank {
  std::vector<TreeSentence> trees{};
  ObservedCorpus corpus{};

  ChanceTreebank(int64_t sentences, bool two_sides) {
    const char* const tags[] = {"NOUN", "VERB", "PUNCT", "DET", "_"};
    const char* const relations[] = {"det", "obj", "aux:pass"};
    for (int64_t s = 0; s < sentences; ++s) {
      PiecedText pieces(s);
      TreeSentence& tree = trees.emplace_back();
      std::vector<int64_t> order;  // the root, then words below those before them
      for (uint32_t w = 0, words = 1 + pieces.below(8); w < words; ++w) {
        const TokenSpan bytes = pieces.add(1 + pieces.below(2));
        tree.words.push_back({.form = pieces.text().substr(bytes.begin),
                              .upos = tags[pieces.below(5)],
                              .relation = relations[pieces.below(3)],
                              .bytes = bytes});
        order.insert(order.begin() + pieces.below(w + 1), w);
      }
      tree.words[order[0]].relation = "root";
      for (uint32_t k = 1; k < order.size(); ++k) {
        tree.words[order[k]].head = order[pieces.below(k)];
      }
      if (s % 5 == 4 && tree.words.size() > 2) {
        tree.words[2].bytes = tree.words[1].bytes;  // as in "du"
      }
      tree.text = pieces.text();
      corpus.texts.push_back(pieces.finish(two_sides));
    }
    for (int64_t s = 0; s < sentences; ++s) corpus.texts[s].tree = &trees[s];
  }
};

}  // namespace headwise
