// relation: whether a word attends to its syntactic head, and a head at its dependent (Clark et al.
// 2019). Items of English probes are weighted so that words are as far apart as in real text.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "headwise/core/parallel.h"
#include "observe/accuracy.h"
#include "observe/head_metric.h"
#include "observe/maps_in_parts.h"
#include "observe/real_offsets.h"

namespace headwise {
namespace {

/// A word that may be predicted: it has tokens, and is no punctuation.
struct Candidate {
  int64_t word = 0;
  TokenSpan tokens{};
};

const std::string kRelation = "relation/";

/// An item: a word whose prediction is right if it is one of some words.
struct RelationItem {
  int32_t question = 0;  // which relation and direction
  int32_t half = 0;
  int64_t asked = 0;           // the word
  int64_t first = 0, end = 0;  // its answers
  int64_t weight = 1;
};

/// A word that must be predicted from, and the items that this is for.
struct RowWord {
  int64_t candidate = 0;
  int64_t first = 0, end = 0;  // items
};

struct Sentence {
  std::vector<Candidate> candidates{};
  std::vector<RowWord> rows{};
};

/// The items of all sentences, in their order, and the best fixed offset of every question.
class Questions {
 public:
  explicit Questions(int64_t heads) : heads_(heads) {}

  Sentence add(const TreeSentence& tree, const Encoding& encoding) {
    std::vector<TokenSpan> bytes;
    for (const TreeWord& word : tree.words) bytes.push_back(word.bytes);
    const std::vector<TokenSpan> tokens = tokens_of_spans(encoding, bytes);
    Sentence sentence;
    std::vector<std::vector<int64_t>> dependents(tree.words.size());
    for (int64_t w = 0; w < std::ssize(tokens); ++w) {
      if (tokens[w].begin == tokens[w].end || tree.words[w].upos == "PUNCT") continue;
      sentence.candidates.push_back({w, tokens[w]});
      if (tree.words[w].head >= 0) dependents[tree.words[w].head].push_back(w);
    }
    for (int64_t c = 0; c < std::ssize(sentence.candidates); ++c) {
      const int64_t w = sentence.candidates[c].word, first = std::ssize(items);
      const TreeWord& word = tree.words[w];
      if (word.head >= 0) add_item(kRelation + word.relation + "/to_head", w, {&word.head, 1});
      add_dependents(tree, w, dependents[w]);
      if (first < std::ssize(items)) sentence.rows.push_back({c, first, std::ssize(items)});
    }
    return sentence;
  }

  /// After the last sentence: what the best offsets give.
  void set_baselines() {
    for (size_t q = 0; q < answers.size(); ++q) {
      for (const auto& [offset, right] : offsets_[q]) answers[q].raise_baseline(right);
    }
  }

  /// After the last sentence: weighs the relations that real text has distances of. The baseline is
  /// what the best offset finds there.
  void weigh() {
    std::vector<std::vector<RelationItem*>> of_question(answers.size());
    for (RelationItem& item : items) of_question[item.question].push_back(&item);
    for (size_t q = 0; q < answers.size(); ++q) {
      Answers& question = answers[q];
      const RealOffsets* const real =
          real_offsets(std::string_view(question.name).substr(kRelation.size()));
      if (real == nullptr) continue;
      std::vector<int64_t> offsets;
      for (const RelationItem* item : of_question[q]) offsets.push_back(nearest(*item));
      const std::vector<int64_t> weights = offset_weights(*real, offsets);
      Answers::Weighting weighting;
      for (size_t i = 0; i < weights.size(); ++i) {
        RelationItem& item = *of_question[q][i];
        const auto weight = static_cast<double>(weights[i]);
        item.weight = weights[i];
        weighting.sum[item.half] += weights[i];
        weighting.squares[item.half] += weight * weight;
      }
      weighting.covered = static_cast<double>(weighting.sum[0] + weighting.sum[1]) / kWeightOne;
      question.weighting = weighting;
      question.baseline = static_cast<double>(real->best) / 10000;
      question.of_halves = {question.baseline, question.baseline};
    }
  }

  bool is_right(const RelationItem& item, int64_t word) const {
    return std::find(words.begin() + item.first, words.begin() + item.end, word) !=
           words.begin() + item.end;
  }

  std::vector<Answers> answers;
  std::vector<RelationItem> items;
  std::vector<int64_t> words;  // the answers of items

 private:
  /// The offset of the nearest answer; of two as near, the later.
  int64_t nearest(const RelationItem& item) const {
    int64_t best = 0;
    for (int64_t i = item.first; i < item.end; ++i) {
      const int64_t offset = words[i] - item.asked;
      const int64_t closer = std::abs(offset) - std::abs(best);
      if (best == 0 || closer < 0 || (closer == 0 && offset > best)) best = offset;
    }
    return best;
  }

  /// One item for every relation of a word's dependents.
  void add_dependents(const TreeSentence& tree, int64_t word, std::vector<int64_t>& dependents) {
    const auto relation = [&](int64_t w) -> const std::string& { return tree.words[w].relation; };
    std::ranges::stable_sort(dependents, {}, relation);
    for (size_t first = 0, end; first < dependents.size(); first = end) {
      const std::string& name = relation(dependents[first]);
      for (end = first + 1; end < dependents.size() && relation(dependents[end]) == name;) ++end;
      add_item(kRelation + name + "/to_dependent", word,
               std::span(dependents).subspan(first, end - first));
    }
  }

  void add_item(const std::string& name, int64_t word, std::span<const int64_t> right) {
    const auto [at, is_new] = index_.try_emplace(name, static_cast<int32_t>(answers.size()));
    const int32_t question = at->second;
    if (is_new) {
      answers.push_back({.name = name, .right = std::vector<Answers::Halves>(heads_)});
      offsets_.emplace_back();
    }
    const auto half = static_cast<int32_t>(answers[question].all() % 2);
    ++answers[question].items[half];
    items.push_back({.question = question,
                     .half = half,
                     .asked = word,
                     .first = std::ssize(words),
                     .end = std::ssize(words) + std::ssize(right)});
    for (const int64_t one : right) {
      words.push_back(one);
      ++offsets_[question][one - word][half];
    }
  }

  int64_t heads_;
  std::map<std::string, int32_t> index_;
  std::vector<std::map<int64_t, Answers::Halves>> offsets_;  // how often each is right
};

/// A token of a word of the batch.
struct Row {
  const Sentence* sentence;
  const RowWord* word;
};

/// Adds the weights of a row on all candidates.
void add_weights(const Row& row, std::span<const float> weights, std::vector<double>& sums) {
  const std::vector<Candidate>& candidates = row.sentence->candidates;
  sums.resize(candidates.size());
  for (size_t c = 0; c < candidates.size(); ++c) {
    const TokenSpan tokens = candidates[c].tokens;
    for (int64_t key = tokens.begin; key < tokens.end; ++key) sums[c] += weights[key];
  }
}

/// The other word that a word gives the largest weight; -1 if there is none. The sum over the
/// word's tokens does for their mean.
int64_t predicted(const Row& row, std::span<const double> sums) {
  const std::vector<Candidate>& candidates = row.sentence->candidates;
  int64_t best = -1;
  for (int64_t c = 0; c < std::ssize(candidates); ++c) {
    if (c != row.word->candidate && (best < 0 || sums[c] > sums[best])) best = c;
  }
  return best < 0 ? -1 : candidates[best].word;
}

class Relations : public HeadMetric {
 public:
  explicit Relations(const MetricContext& context)
      : context_(context), heads_(heads_within_text(context)), questions_(context.model.heads()) {
    for (const ObservedText& text : context.corpus.texts) {
      sentences_.push_back(text.tree == nullptr ? Sentence{}
                                                : questions_.add(*text.tree, text.encoding));
    }
    questions_.set_baselines();
    if (context.as_far_apart) questions_.weigh();
  }

  bool has_items() const { return !questions_.items.empty(); }

  void begin(const MetricBatch& batch) override { batch_ = &batch; }

  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention& layer,
            View<const float, 3>, View<const float, 2>) override {
    if (!has_any(site, heads_)) return;
    std::vector<Row> rows;
    std::vector<int64_t> tokens;  // where they are in the batch
    for (size_t b = 0; b < batch_->texts.size(); ++b) {
      const Sentence& sentence = sentences_[batch_->texts[b]];
      for (const RowWord& word : sentence.rows) {
        const TokenSpan own = sentence.candidates[word.candidate].tokens;
        for (int64_t t = own.begin; t < own.end; ++t) {
          rows.push_back({&sentence, &word});
          tokens.push_back(batch_->source.offsets[b] + t);
        }
      }
    }
    const int64_t heads = std::ssize(site.heads), last = std::ssize(rows) - 1;
    std::vector<std::vector<double>> sums(heads);  // on the candidates, of the word at hand
    const auto use = [&](int64_t begin, int64_t end, const AttentionMaps& maps) {
      parallel_for(heads, [&](int64_t h) {
        for (int64_t r = begin; r < end; ++r) {
          add_weights(rows[r], maps.row(r - begin, h), sums[h]);
          if (r < last && rows[r + 1].word == rows[r].word) continue;
          score(site.first + h, *rows[r].word, predicted(rows[r], sums[h]));
          sums[h].clear();
        }
      });
    };
    maps_in_parts(layer, attention, tokens, use);
  }

  void finish(std::span<Measures> heads, Evidence& evidence) override {
    for (const Answers& answers : questions_.answers) {
      report(answers, context_, heads_, heads, evidence);
    }
  }

 private:
  void score(int64_t head, const RowWord& word, int64_t prediction) {
    for (int64_t i = word.first; i < word.end; ++i) {
      const RelationItem& item = questions_.items[i];
      questions_.answers[item.question].right[head][item.half] +=
          questions_.is_right(item, prediction) ? item.weight : 0;
    }
  }

  const MetricContext& context_;
  std::vector<uint8_t> heads_;
  Questions questions_;
  std::vector<Sentence> sentences_;  // of the corpus
  const MetricBatch* batch_ = nullptr;
};

}  // namespace

std::unique_ptr<HeadMetric> relations_metric(const MetricContext& context) {
  auto metric = std::make_unique<Relations>(context);
  if (!metric->has_items()) return nullptr;
  return metric;
}

}  // namespace headwise
