// The parts of an observation, one after the other.
#include "headwise/observe/observe.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "headwise/core/error.h"
#include "headwise/observe/head_weights.h"
#include "io/file.h"
#include "observe/data_pass.h"
#include "observe/layers.h"
#include "observe/repeated.h"

namespace headwise {
namespace {

constexpr const char* kProbes = "probes";

void check_vocabulary(std::span<const int32_t> ids, int64_t vocabulary, const std::string& where) {
  for (const int32_t id : ids) {
    if (id >= 0 && id < vocabulary) continue;
    throw Error({.what = "a token id is not in the vocabulary",
                 .where = where,
                 .got = fmt::format("{}", id),
                 .expected = fmt::format("0 to {}", vocabulary - 1)});
  }
}

class Observation {
 public:
  Observation(const Model& model, const ObserveData& data, const ObserveOptions& options,
              Evidence so_far)
      : model_(model),
        tokenizer_(model.tokenizer()),
        data_(data),
        options_(options),
        evidence_(std::move(so_far)) {
    check_heads();
    check_ids();
    check_replaced();
  }

  Evidence run() {
    const MeasureSelection& asked = options_.measures;
    const bool words = tokenizer_ != nullptr;
    const bool texts = !data_.corpus.texts.empty();
    const auto wants = [&](DataPass pass) { return is_wanted(pass, asked); };
    const bool similarity = wants(DataPass::similarity) && texts;
    // One pass over the corpus for both.
    const bool both = similarity && !is_finished("similarity");
    part(
        "attention", wants(DataPass::attention) && texts,
        [&] {
          std::vector<DataPass> passes = {DataPass::attention};
          if (both) passes.push_back(DataPass::similarity);
          run_pass(data_.corpus, passes);
          count_rows();
        },
        both ? "similarity" : "");
    part("treebank", wants(DataPass::treebank) && words && !data_.treebank.empty(), [&] {
      run_pass(corpus_of(data_.treebank, &ObservedText::tree, "treebank"), {DataPass::treebank});
    });
    part("coreference", wants(DataPass::coreference) && words && !data_.coreference.empty(), [&] {
      run_pass(corpus_of(data_.coreference, &ObservedText::item, "coreference"),
               {DataPass::coreference});
    });
    part("alignment", wants(DataPass::alignment) && is_aligned(),
         [&] { run_pass(data_.corpus, {DataPass::alignment}); });
    part("similarity", similarity, [&] { run_pass(data_.corpus, {DataPass::similarity}); });
    part("weights",
         std::ranges::any_of(weight_measures(),
                             [&](std::string_view measure) { return asked.has(measure); }),
         [&] {
           if (options_.progress) options_.progress("weights", 0, 1);
           observe_weights(model_, options_.seed, evidence_);
         });
    part("repeated sequences", wants(DataPass::repeated) && options_.probes,
         [&] { measure_repeated(); });
    const bool probed = wants(DataPass::treebank) || wants(DataPass::coreference) ||
                        wants(DataPass::fields) || wants(DataPass::rare);
    part("probes", probed && options_.probes && words, [&] { measure_probes(); });
    const bool importance = asked.has_group("importance") && data_.evaluation;
    const bool gradient = asked.has("gradient") || asked.has("gradient_normalised");
    part("gradient", importance && gradient && options_.importance.gradient,
         [&] { measure_gradient(); });
    part("ablation", importance && ablates(), [&] { measure_ablations(); });
    keep_wanted();
    evidence_.layers = sum_up_layers(evidence_);
    return std::move(evidence_);
  }

 private:
  /// `along`: another part that the same work finishes.
  template <class F>
  void part(const std::string& name, bool wanted, const F& work, const std::string& along = "") {
    if (!wanted || is_finished(name)) return;
    at_ = name;
    work();
    drop_unwanted();
    evidence_.finished.push_back(name);
    if (!along.empty()) evidence_.finished.push_back(along);
    if (options_.saved) options_.saved(evidence_);
  }

  bool is_finished(const std::string& part) const {
    return std::ranges::find(evidence_.finished, part) != evidence_.finished.end();
  }

  bool ablates() const {
    const ImportanceOptions& params = options_.importance;
    return options_.measures.has("ablation_zero") || options_.measures.has("ablation_mean") ||
           !params.groups.empty() || params.layers ||
           params.pairs != ImportanceOptions::Pairs::none;
  }

  /// What came along with measures that were asked for.
  void drop_unwanted() {
    const auto drop = [this](Measures& measures) {
      Measures kept;
      for (const auto& [name, measure] : measures) {
        if (options_.measures.has(name)) kept.add(name, measure);
      }
      measures = std::move(kept);
    };
    for (HeadEvidence& head : evidence_.heads) {
      drop(head.measures);
      drop(head.probes);
    }
    std::erase_if(evidence_.pairs,
                  [this](const auto& pairs) { return !options_.measures.has(pairs.first); });
  }

  bool is_aligned() const {
    return std::ranges::any_of(data_.corpus.texts,
                               [](const ObservedText& text) { return !text.aligned.empty(); });
  }

  void run_pass(const ObservedCorpus& corpus, const std::vector<DataPass>& passes,
                bool probes = false) {
    const MetricContext context{.model = model_,
                                .tokenizer = tokenizer_,
                                .corpus = corpus,
                                .seed = options_.seed,
                                .all_pairs = options_.all_pairs,
                                .probes = probes,
                                .as_far_apart = probes && !options_.lexicon,
                                .wanted = wanted(),
                                .gates = gates(),
                                .replaced = options_.replaced,
                                .measures = options_.measures};
    std::vector<Measures> heads(evidence_.heads.size());
    run_data_pass(context, passes, progress(), heads, evidence_);
    for (size_t h = 0; h < heads.size(); ++h) {
      Measures& to = probes ? evidence_.heads[h].probes : evidence_.heads[h].measures;
      for (const auto& [name, measure] : heads[h]) to.add(name, measure);
    }
  }

  std::vector<uint8_t> wanted() const {
    std::vector<uint8_t> heads(options_.only.empty() ? 0 : model_.heads());
    for (const HeadIndex& head : options_.only) {
      heads[model_.attentions()[head.site].first + head.index] = 1;
    }
    return heads;
  }

  View<const float, 2> gates() const {
    if (options_.gates.empty()) return {};
    return {options_.gates.data(), {1, std::ssize(options_.gates)}};
  }

  /// Induction and its kin are measures of their own, and probes.
  void measure_repeated() {
    const RepeatedSequences sequences =
        repeated_sequences(model_.config(), tokenizer_, options_.seed);
    ObservedCorpus corpus{.name = "repeated sequences"};
    for (size_t i = 0; i < sequences.ids.size(); ++i) {
      corpus.texts.push_back({.ids = sequences.ids[i]});
      if (!sequences.decoder_ids.empty()) {
        corpus.texts.back().decoder_ids = sequences.decoder_ids[i];
      }
    }
    run_pass(corpus, {DataPass::repeated});
    for (HeadEvidence& head : evidence_.heads) {
      for (const char* name : {"induction", "duplicate", "previous_on_random"}) {
        if (const Measure* measure = head.measures.find(name)) head.probes.add(name, *measure);
      }
    }
  }

  void measure_probes() {
    const ProbeLexicon lexicon = options_.lexicon.value_or(ProbeLexicon::english());
    const auto trees = probe_sentences(lexicon, kProbeSentences, options_.seed);
    const auto pronouns = probe_coreference(lexicon, kProbeCount, options_.seed);
    const auto fields = probe_fields(lexicon, kProbeCount, options_.seed);
    const auto rare = probe_rare(lexicon, kProbeCount, options_.seed);
    run_pass(corpus_of(trees, &ObservedText::tree, kProbes), {DataPass::treebank}, true);
    run_pass(corpus_of(pronouns, &ObservedText::item, kProbes), {DataPass::coreference}, true);
    run_pass(corpus_of(fields, &ObservedText::field, kProbes), {DataPass::fields}, true);
    run_pass(corpus_of(rare, &ObservedText::rare, kProbes), {DataPass::rare}, true);
  }

  void measure_gradient() {
    ImportanceOptions options = importance_options();
    options.ablation_zero = options.ablation_mean = options.layers = false;
    options.groups.clear();
    options.pairs = ImportanceOptions::Pairs::none;
    observe_importance(model_, *data_.evaluation, options, evidence_);
  }

  void measure_ablations() {
    ImportanceOptions options = importance_options();
    options.gradient = false;
    options.ablation_zero &= options_.measures.has("ablation_zero");
    options.ablation_mean &= options_.measures.has("ablation_mean");
    observe_importance(model_, *data_.evaluation, options, evidence_);
  }

  ImportanceOptions importance_options() const {
    ImportanceOptions options = options_.importance;
    options.gates = options_.gates;
    options.seed = options_.seed;
    options.bleu = true;
    for (const HeadIndex& head : options_.only) {
      options.heads.push_back(model_.attentions()[head.site].first + head.index);
    }
    if (options_.progress) {
      options.progress = [this](std::string_view step, int64_t done, int64_t total) {
        options_.progress(std::string(step), done, total);
      };
    }
    return options;
  }

  PassProgress progress() const {
    if (!options_.progress) return {};
    return [this](int64_t done, int64_t total) { options_.progress(at_, done, total); };
  }

  void count_rows() {
    int64_t tokens = 0, decoded = 0;
    for (const ObservedText& text : data_.corpus.texts) {
      tokens += std::ssize(text.ids);
      decoded += std::ssize(text.decoder_ids);
    }
    for (const AttentionSite& site : model_.attentions()) {
      const bool decoder = model_.config().encoder_decoder() && site.side == Side::decoder;
      for (size_t h = 0; h < site.heads.size(); ++h) {
        evidence_.heads[site.first + h].rows = decoder ? decoded : tokens;
      }
    }
  }

  bool fits(const std::string& text) const {
    const std::vector<int32_t> ids = tokenizer_->encode(text).ids;
    const int64_t most = model_.config().max_positions;
    return !ids.empty() && (most == 0 || std::ssize(ids) <= most) &&
           std::ranges::max(ids) < model_.config().vocabulary;
  }

  /// Probes that the model has no positions or tokens for are left out.
  template <class Item>
  ObservedCorpus corpus_of(const std::vector<Item>& items, const Item* ObservedText::*what,
                           const std::string& name) const {
    ObservedCorpus corpus{.name = name};
    for (const Item& item : items) {
      if (name == kProbes && !fits(item.text)) continue;
      corpus.texts.push_back(observed_text(model_, *tokenizer_, item.text, item.id));
      corpus.texts.back().*what = &item;
    }
    return corpus;
  }

  /// The numbers of metrics go to the heads of the model in their order.
  void check_heads() const {
    const Evidence fresh = no_evidence(model_);
    if (std::ranges::equal(evidence_.heads, fresh.heads, {}, &HeadEvidence::head,
                           &HeadEvidence::head)) {
      return;
    }
    throw Error({.what = "the evidence to be continued is not of all heads of the model",
                 .got = fmt::format("{} heads", evidence_.heads.size()),
                 .expected = fmt::format("{}", fresh.heads.size())});
  }

  void check_ids() const {
    for (const ObservedText& text : data_.corpus.texts) {
      check_vocabulary(text.ids, model_.config().vocabulary, data_.corpus.name);
      check_vocabulary(text.decoder_ids, model_.config().decoder_vocabulary, data_.corpus.name);
      if (text.aligned.empty() || text.aligned.size() == text.decoder_ids.size()) continue;
      throw Error({.what = "an alignment is not of the tokens that the decoder reads",
                   .where = data_.corpus.name,
                   .got = fmt::format("{} tokens", text.aligned.size()),
                   .expected = fmt::format("{}", text.decoder_ids.size())});
    }
  }

  void check_replaced() const {
    if (options_.replaced.empty() || !options_.measures.has_group("importance") ||
        !data_.evaluation) {
      return;
    }
    throw Error({.what = "importance cannot be measured of a model with mean-ablated heads",
                 .expected = "heads with gates from 0 to 1, or other measures",
                 .hint = "leave it out: --measure attention,linguistic,similarity"});
  }

  void keep_wanted() {
    if (options_.only.empty()) return;
    std::set<std::string> wanted;
    for (const HeadIndex& head : options_.only) {
      wanted.insert(model_.attentions()[head.site].head_name(head.index));
    }
    std::erase_if(evidence_.heads,
                  [&](const HeadEvidence& head) { return !wanted.contains(head.head); });
    for (auto& [name, groups] : evidence_.pairs) {
      for (auto& [group, matrix] : groups) {
        matrix = part_of(matrix, [&](const std::string& head) { return wanted.contains(head); });
      }
      std::erase_if(groups, [](const auto& group) { return group.second.heads.empty(); });
    }
  }

  const Model& model_;
  const Tokenizer* tokenizer_;
  const ObserveData& data_;
  const ObserveOptions& options_;
  Evidence evidence_;
  std::string at_;  // the part that is under way
};

}  // namespace

Evidence no_evidence(const Model& model) {
  Evidence evidence;
  for (const AttentionSite& site : model.attentions()) {
    for (int64_t h = 0; h < std::ssize(site.heads); ++h) {
      evidence.heads.push_back({.head = site.head_name(h)});
    }
  }
  return evidence;
}

ObservedText observed_text(const Model& model, const Tokenizer& tokenizer, const std::string& text,
                           const std::string& where, const EncodeOptions& options) {
  Encoding encoding = tokenizer.encode(text, options);
  const int64_t most = model.config().max_positions;
  if (encoding.ids.empty()) {
    throw Error({.what = "the text has no tokens", .where = where, .expected = "some text"});
  }
  if (most > 0 && std::ssize(encoding.ids) > most) {
    throw Error({.what = "the text is longer than the model's positions",
                 .where = where,
                 .got = fmt::format("{} tokens", encoding.ids.size()),
                 .expected = fmt::format("at most {}", most)});
  }
  check_vocabulary(encoding.ids, model.config().vocabulary, where);
  ObservedText result{.ids = encoding.ids};
  if (model.config().token_types > 0) result.types = encoding.type_ids;
  result.encoding = std::move(encoding);
  return result;
}

Evidence observe(const Model& model, const ObserveData& data, const ObserveOptions& options,
                 Evidence so_far) {
  return Observation(model, data, options, std::move(so_far)).run();
}

Evidence observe(const Model& model, const ObserveData& data, const ObserveOptions& options) {
  Evidence so_far = identify(model, data, options);
  if (options.out.empty()) return observe(model, data, options, std::move(so_far));
  const std::string part = options.out.string() + ".part";
  if (options.resume && is_there(part)) {
    Evidence left = read_evidence(part);
    check_continues(left, so_far, part);
    so_far = std::move(left);
  }
  ObserveOptions saving = options;
  saving.saved = [&](const Evidence& evidence) {
    write_file_whole(part, to_json(evidence));
    if (options.saved) options.saved(evidence);
  };
  Evidence evidence = observe(model, data, saving, std::move(so_far));
  write_file_whole(options.out, to_json(evidence));
  std::filesystem::remove(part);
  return evidence;
}

}  // namespace headwise
