// Runs two models over the same texts, and assigns their heads to each other by js.
#include "headwise/observe/match.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <utility>

#include "core/assignment.h"
#include "headwise/core/error.h"
#include "headwise/io/json.h"
#include "observe/data_pass.h"
#include "observe/kept_heads.h"
#include "observe/repeated.h"

namespace headwise {
namespace {

/// What every attention of a model did in one pass, by its name.
class Keeper : public ForwardObserver {
 public:
  bool wants_hidden() const override { return false; }
  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention& layer,
            View<float, 3>, View<const float, 2> lse) override {
    const LayerHeads heads(attention, layer, lse);
    for (const AttendedHeads& group : heads.groups()) kept[site.name].emplace_back(group);
  }

  std::map<std::string, std::vector<KeptHeads>> kept;
};

/// Heads of both models that may be matched.
struct Candidates {
  std::vector<const AttentionSite*> sites_a{}, sites_b{};
  std::vector<std::string> heads_a{}, heads_b{};
  DivergenceSums sums{};  // of those of a, then those of b
};

class Matching {
 public:
  Matching(const Model& a, const Model& b, const ObservedCorpus& corpus,
           const MatchOptions& options)
      : a_(a), b_(b), corpus_(corpus), options_(options) {
    check_texts(a, "the first model");
    check_texts(b, "the second model");
    for (const AttentionSite& site : a.attentions()) {
      if (!site.heads.empty()) add(site, &Candidates::sites_a, &Candidates::heads_a);
    }
    for (const AttentionSite& site : b.attentions()) {
      if (!site.heads.empty()) add(site, &Candidates::sites_b, &Candidates::heads_b);
    }
    std::erase_if(layers_, [](const auto& layer) {
      return layer.second.heads_a.empty() || layer.second.heads_b.empty();
    });
    if (layers_.empty()) {
      throw Error({.what = "the models have no attention in common",
                   .got = b.config().model_type,
                   .expected = fmt::format("layers with heads as in {}", a.config().model_type)});
    }
    for (auto& [name, layer] : layers_) {
      layer.sums = DivergenceSums(std::ssize(layer.heads_a) + std::ssize(layer.heads_b));
    }
  }

  ModelMatch run() {
    int64_t done = 0;
    for (const std::vector<int64_t>& texts : text_batches(
             corpus_, std::min(dynamic_ntk_length(a_.config()), dynamic_ntk_length(b_.config())))) {
      const Keeper a = keep(a_, options_.gates_a, texts), b = keep(b_, options_.gates_b, texts);
      for (auto& [name, layer] : layers_) {
        std::vector<AttendedHeads> groups;
        const auto put = [&](const Keeper& keeper, std::span<const AttentionSite* const> sites) {
          for (const AttentionSite* site : sites) {
            for (const KeptHeads& kept : keeper.kept.at(site->name)) {
              groups.push_back(kept.heads());
            }
          }
        };
        put(a, layer.sites_a);
        put(b, layer.sites_b);
        layer.sums.add(groups);
      }
      done += std::ssize(texts);
      if (options_.progress) options_.progress(done, std::ssize(corpus_.texts));
    }
    return assigned();
  }

 private:
  void add(const AttentionSite& site, std::vector<const AttentionSite*> Candidates::*sites,
           std::vector<std::string> Candidates::*heads) {
    const std::string name = options_.across ? type_of(site) : site.name;
    auto at = std::ranges::find(layers_, name, &std::pair<std::string, Candidates>::first);
    if (at == layers_.end()) at = layers_.emplace(at, name, Candidates());
    (at->second.*sites).push_back(&site);
    for (int64_t h = 0; h < std::ssize(site.heads); ++h) {
      (at->second.*heads).push_back(site.head_name(h));
    }
  }

  Keeper keep(const Model& model, const std::vector<float>& gates,
              std::span<const int64_t> texts) const {
    TokenBatch source, target;
    for (const int64_t i : texts) {
      const ObservedText& text = corpus_.texts[i];
      source.add(text.ids, model.config().token_types > 0 ? std::span<const int32_t>(text.types)
                                                          : std::span<const int32_t>());
      if (!text.decoder_ids.empty()) target.add(text.decoder_ids);
    }
    Keeper keeper;
    ForwardOptions options{.observer = &keeper};
    if (!gates.empty()) options.gates = {gates.data(), {1, std::ssize(gates)}};
    (void)(target.sequences() > 0 ? model.forward(source, target, options)
                                  : model.forward(source, options));
    return keeper;
  }

  ModelMatch assigned() const {
    ModelMatch match;
    int64_t matches = 0;
    for (const auto& [name, layer] : layers_) {
      const LayerMatch& one = match.layers.emplace_back(assigned(name, layer));
      const auto count = std::ssize(one.matches);
      match.mean += one.mean * static_cast<double>(count);
      match.random_mean += one.random_mean * static_cast<double>(count);
      matches += count;
    }
    match.mean /= static_cast<double>(matches);
    match.random_mean /= static_cast<double>(matches);
    return match;
  }

  static LayerMatch assigned(const std::string& name, const Candidates& layer) {
    const auto A = std::ssize(layer.heads_a), B = std::ssize(layer.heads_b);
    std::vector<double> js(A * B);
    for (int64_t a = 0; a < A; ++a) {
      for (int64_t b = 0; b < B; ++b) {
        const double mean = layer.sums.mean(a, A + b);
        js[a * B + b] = std::isnan(mean) ? std::numbers::ln2 : mean;
      }
    }
    LayerMatch match{.layer = name};
    const std::vector<int64_t> column_of = least_assignment({js.data(), {A, B}});
    for (int64_t a = 0; a < A; ++a) {
      if (column_of[a] < 0) continue;
      match.matches.push_back(
          {layer.heads_a[a], layer.heads_b[column_of[a]], js[a * B + column_of[a]]});
      match.mean += match.matches.back().js;
    }
    match.mean /= static_cast<double>(match.matches.size());
    // By chance every pair is as likely as any other.
    match.random_mean = std::accumulate(js.begin(), js.end(), 0.) / static_cast<double>(js.size());
    return match;
  }

  void check_texts(const Model& model, const char* which) const {
    if (corpus_.texts.empty()) {
      throw Error({.what = "there are no texts to compare heads on", .where = corpus_.name});
    }
    for (const ObservedText& text : corpus_.texts) {
      if (model.config().encoder_decoder() != text.decoder_ids.empty()) continue;
      throw Error({.what = "a model cannot read the same texts as the other",
                   .where = which,
                   .got = model.config().model_type,
                   .expected = "two encoder-decoders, or none"});
    }
  }

  const Model &a_, &b_;
  const ObservedCorpus& corpus_;
  const MatchOptions& options_;
  std::vector<std::pair<std::string, Candidates>> layers_;
};

}  // namespace

ModelMatch match_heads(const Model& a, const Model& b, const ObservedCorpus& corpus,
                       const MatchOptions& options) {
  return Matching(a, b, corpus, options).run();
}

void check_same_tokens(const Tokenizer& a, const Tokenizer& b, const std::string& where) {
  const auto refuse = [&](std::string got, std::string expected) {
    throw Error({.what = "the models do not have the same tokens",
                 .where = where,
                 .got = std::move(got),
                 .expected = std::move(expected),
                 .hint = "only models with the same vocabulary can be compared on the same text"});
  };
  if (a.size() != b.size()) {
    refuse(fmt::format("{} tokens", b.size()), fmt::format("{}", a.size()));
  }
  for (int32_t id = 0; id < a.size(); ++id) {
    if (a.token(id) == b.token(id)) continue;
    refuse(fmt::format("token {} is {}", id, quote(b.token(id))), quote(a.token(id)));
  }
}

void check_same_tokens(const Model& a, const Model& b) {
  const std::string where = b.folder().string();
  if (a.tokenizer() != nullptr && b.tokenizer() != nullptr) {
    check_same_tokens(*a.tokenizer(), *b.tokenizer(), where);
  } else if (a.config().vocabulary != b.config().vocabulary) {
    throw Error({.what = "the models do not have the same tokens",
                 .where = where,
                 .got = fmt::format("{} tokens", b.config().vocabulary),
                 .expected = fmt::format("{}", a.config().vocabulary)});
  }
}

ObservedCorpus random_corpus(const ModelConfig& config, uint64_t seed) {
  ObservedCorpus corpus{.name = "random tokens"};
  RepeatedSequences sequences = repeated_sequences(config, nullptr, seed);
  for (size_t i = 0; i < sequences.ids.size(); ++i) {
    ObservedText& text = corpus.texts.emplace_back();
    text.ids = std::move(sequences.ids[i]);
    if (!sequences.decoder_ids.empty()) text.decoder_ids = std::move(sequences.decoder_ids[i]);
  }
  return corpus;
}

}  // namespace headwise
