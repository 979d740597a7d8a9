// What heads attend to, against a plain computation from stored maps, for models of several kinds.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "core/shuffle.h"
#include "headwise/core/parallel.h"
#include "headwise/core/random.h"
#include "headwise/core/seed.h"
#include "headwise/model/model.h"
#include "headwise/observe/observe.h"
#include "observe/data_pass.h"
#include "train_testing.h"

namespace headwise {
namespace {

/// measures.md: absolute and relative.
constexpr double kLookTolerance = 1e-5;

/// Everything about one attention of one text, stored.
struct StoredAttention {
  const AttentionSite* site = nullptr;
  int64_t rows = 0, keys = 0;
  std::vector<std::vector<std::vector<double>>> maps{};           // [H][N][M]
  std::vector<std::vector<std::vector<uint8_t>>> visible{};       // [H][N][M]
  std::vector<std::vector<std::vector<double>>> contributions{};  // [H][N][C]
  std::vector<std::vector<double>> whole{};                       // [N][C]
  std::vector<uint8_t> causal{};                                  // [H]: no row sees a later key
};

/// Whether a head may look there, from the mask alone.
bool sees(const AttentionMask& mask, int64_t row, int64_t key) {
  if (mask.causal && key > row) return false;
  if (mask.left != kUnlimited && key < row + mask.shift - mask.left) return false;
  if (mask.right != kUnlimited && key > row + mask.shift + mask.right) return false;
  return mask.first_keys == kUnlimited || key < mask.first_keys;
}

class Storing : public ForwardObserver {
 public:
  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention& layer,
            View<float, 3> z, View<const float, 2>) override {
    StoredAttention stored{.site = &site, .rows = z.extent(0), .keys = attention.v.extent(0)};
    std::vector<int64_t> rows(stored.rows);
    for (int64_t i = 0; i < stored.rows; ++i) rows[i] = i;
    const AttentionMaps maps = layer.maps(attention, rows);
    const auto layer_weights = layer.weights();
    const View<float, 2> output = layer_weights->output();
    const int64_t H = z.extent(1), Dv = z.extent(2);
    for (int64_t h = 0; h < H; ++h) {
      auto& map = stored.maps.emplace_back();
      auto& contribution = stored.contributions.emplace_back();
      for (int64_t i = 0; i < stored.rows; ++i) {
        const auto weights = maps.row(i, h);
        map.emplace_back(weights.begin(), weights.end());
        auto& sums = contribution.emplace_back(output.extent(0));
        for (int64_t c = 0; c < output.extent(0); ++c) {
          for (int64_t d = 0; d < Dv; ++d) sums[c] += double{z(i, h, d)} * output(c, h * Dv + d);
        }
      }
    }
    stored.visible.resize(H);
    stored.causal.resize(H);
    for (const HeadGroup& group : layer.groups(attention)) {
      const AttentionMask& mask = group.attention.mask;
      for (int64_t h = group.first; h < group.first + group.count; ++h) {
        stored.causal[h] =
            mask.causal || (mask.right != kUnlimited && mask.shift + mask.right <= 0);
        for (int64_t i = 0; i < stored.rows; ++i) {
          auto& row = stored.visible[h].emplace_back();
          const int64_t position = i + stored.keys - stored.rows;
          for (int64_t j = 0; j < stored.keys; ++j) {
            row.push_back(sees(mask, position, j));
          }
        }
      }
    }
    const View<float, 1> bias = layer_weights->output_bias();
    for (int64_t i = 0; i < stored.rows; ++i) {
      auto& sums = stored.whole.emplace_back(output.extent(0));
      for (int64_t c = 0; c < output.extent(0); ++c) {
        sums[c] = bias.extent(0) > 0 ? bias(c) : 0;
        for (int64_t h = 0; h < H; ++h) sums[c] += stored.contributions[h][i][c];
      }
    }
    all.push_back(std::move(stored));
  }

  std::vector<StoredAttention> all;
};

/// Means by name, of one head.
class PlainMeans {
 public:
  void add(const std::string& name, double value) {
    if (!std::isnan(value)) sums_[name] += {value, 1};
  }
  const std::map<std::string, RunningMean>& all() const { return sums_; }

 private:
  std::map<std::string, RunningMean> sums_;
};

double norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum);
}

double correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const auto n = static_cast<double>(x.size());
  double mx = 0, my = 0, xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < x.size(); ++i) mx += x[i] / n, my += y[i] / n;
  for (size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mx) * (x[i] - mx);
    yy += (y[i] - my) * (y[i] - my);
    xy += (x[i] - mx) * (y[i] - my);
  }
  // Differences that are rounding of floats say nothing.
  const auto n_x = n * mx * mx, n_y = n * my * my;
  const bool varies = xx > 1e-14 * (xx + n_x) && yy > 1e-14 * (yy + n_y);
  return varies ? xy / std::sqrt(xx * yy) : std::nan("");
}

struct PlainText {
  std::vector<int32_t> row_ids, key_ids;
  std::vector<uint8_t> special;              // of keys
  std::map<int32_t, int64_t> count;          // of keys, in the corpus
  std::vector<std::vector<double>> cosines;  // [N][M], self attention
  std::vector<int64_t> compared;             // rows of `semantic`
};

void add_row(const StoredAttention& stored, const PlainText& text, int64_t h, int64_t i,
             PlainMeans& means) {
  const std::vector<double>& p = stored.maps[h][i];
  const std::vector<uint8_t>& visible = stored.visible[h][i];
  const bool cross = stored.site->kind == AttentionKind::cross;
  const int64_t M = stored.keys, N = stored.rows;
  const double whole = norm(stored.whole[i]);
  if (whole > 0) means.add("contribution_norm", norm(stored.contributions[h][i]) / whole);
  const auto count = std::ranges::count(visible, 1);
  if (count == 0) return;
  double entropy = 0, confidence = 0, distance = 0, window = 0, special = 0, diagonal = 0;
  int64_t largest = -1, kept = -1;
  for (int64_t j = 0; j < M; ++j) {
    if (p[j] > 0) entropy -= p[j] * std::log(p[j]);
    if (largest < 0 ? visible[j] != 0 : p[j] > p[largest]) largest = j;
    if (visible[j] != 0 && text.special[j] == 0 && (kept < 0 || p[j] > p[kept])) kept = j;
    confidence = std::max(confidence, p[j]);
    distance += p[j] * static_cast<double>(std::abs(i - j));
    if (std::abs(i - j) <= 2) window += p[j];
    if (text.special[j] != 0) special += p[j];
    if (std::abs(static_cast<double>(j) / static_cast<double>(M) -
                 static_cast<double>(i) / static_cast<double>(N)) <= 0.1) {
      diagonal += p[j];
    }
  }
  means.add("entropy", entropy);
  if (count > 1) means.add("entropy_ratio", entropy / std::log(static_cast<double>(count)));
  means.add("confidence", confidence);
  means.add("mass_special", special);
  means.add("mass_first", p[0]);
  if (visible[M - 1] != 0 || stored.causal[h] == 0) means.add("mass_last", p[M - 1]);
  if (kept >= 0) {
    int64_t rarest = INT64_MAX, tied = 0, seen = 0;
    for (int64_t j = 0; j < M; ++j) {
      if (visible[j] != 0 && text.special[j] == 0) {
        rarest = std::min(rarest, text.count.at(text.key_ids[j]));
        ++seen;
      }
    }
    for (int64_t j = 0; j < M; ++j) {
      if (visible[j] != 0 && text.special[j] == 0 && text.count.at(text.key_ids[j]) == rarest) {
        ++tied;
      }
    }
    means.add("rare_share", text.count.at(text.key_ids[kept]) == rarest ? 1 : 0);
    means.add("rare_chance", static_cast<double>(tied) / static_cast<double>(seen));
  }
  if (cross) {
    means.add("diagonal", diagonal);
    return;
  }
  means.add("distance", distance);
  means.add("mass_window", window);
  const auto at = [&](int64_t j) { return j >= 0 && j < M && visible[j] != 0; };
  if (at(i - 1)) means.add("mass_previous", p[i - 1]);
  if (at(i)) means.add("mass_self", p[i]);
  if (at(i + 1)) means.add("mass_next", p[i + 1]);
  for (int64_t offset = -8; offset <= 8; ++offset) {
    if (at(i + offset)) {
      means.add("offset_share/" + std::to_string(offset), largest == i + offset ? 1 : 0);
    }
  }
  if (!std::ranges::binary_search(text.compared, i)) return;
  std::vector<double> weights, cosines;
  for (int64_t j = 0; j < M; ++j) {
    if (visible[j] == 0 || text.special[j] != 0 || text.key_ids[j] == text.row_ids[i]) continue;
    weights.push_back(p[j]);
    cosines.push_back(text.cosines[i][j]);
  }
  if (weights.size() >= 3) means.add("semantic", correlation(weights, cosines));
}

/// Random texts of a golden model, some tokens of which are special.
ObservedCorpus random_corpus(const Model& model) {
  ObservedCorpus corpus{.name = "random"};
  Random random(7);
  const auto draw = [&](int64_t length, int64_t vocabulary) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < length; ++i) {
      const auto most = static_cast<uint32_t>(vocabulary);
      ids.push_back(static_cast<int32_t>(std::min(random.below(most), random.below(most))));
    }
    return ids;
  };
  std::vector<int64_t> lengths = {1, 2, 7, 12, 19};
  lengths.resize(120, 19);                                        // more than one batch
  if (model.config().max_positions == 0) lengths.push_back(300);  // not all rows are compared
  for (const int64_t length : lengths) {
    ObservedText text{.ids = draw(length, model.config().vocabulary)};
    text.encoding.special.assign(length, 0);
    text.encoding.special.front() = 1;
    text.encoding.special.back() = 1;
    if (model.config().encoder_decoder()) {
      text.decoder_ids = draw(length + 2, model.config().decoder_vocabulary);
    }
    corpus.texts.push_back(std::move(text));
  }
  return corpus;
}

class Looking : public testing::TestWithParam<std::string> {
 protected:
  Looking() : model_(load(golden_model(GetParam()))), corpus_(random_corpus(model_)) {
    const ModelConfig& config = model_.config();
    if (config.pad) special_.push_back(*config.pad);
    if (config.bos) special_.push_back(*config.bos);
    if (config.decoder_start) special_.push_back(*config.decoder_start);
    special_.insert(special_.end(), config.eos.begin(), config.eos.end());
  }

  PlainText plain_text(const ObservedText& text, const AttentionSite& site) const {
    const bool decodes = !text.decoder_ids.empty() && site.side == Side::decoder;
    PlainText plain{.row_ids = decodes ? text.decoder_ids : text.ids};
    const bool from_source = !decodes || site.kind == AttentionKind::cross;
    plain.key_ids = from_source ? text.ids : text.decoder_ids;
    for (size_t j = 0; j < plain.key_ids.size(); ++j) {
      const bool named = std::ranges::find(special_, plain.key_ids[j]) != special_.end();
      plain.special.push_back(named || (from_source && text.encoding.special[j] != 0));
    }
    for (const ObservedText& other : corpus_.texts) {
      for (const int32_t id : from_source ? other.ids : other.decoder_ids) ++plain.count[id];
    }
    const Side side =
        model_.config().encoder.layers() > 0 && !decodes ? Side::encoder : Side::decoder;
    const Activations words = model_.word_embeddings(side, plain.row_ids);
    const auto number = static_cast<uint64_t>(&text - corpus_.texts.data());
    plain.compared = choose_below(256, std::ssize(plain.row_ids),
                                  Random(derived_seed(0, number, 0, 0x5E3A0001)));
    for (int64_t i = 0; i < words.rows.extent(0); ++i) {
      auto& row = plain.cosines.emplace_back();
      for (int64_t j = 0; j < words.rows.extent(0); ++j) {
        double ij = 0, ii = 0, jj = 0;
        for (int64_t c = 0; c < words.rows.extent(1); ++c) {
          ij += double{words.rows(i, c)} * words.rows(j, c);
          ii += double{words.rows(i, c)} * words.rows(i, c);
          jj += double{words.rows(j, c)} * words.rows(j, c);
        }
        row.push_back(ij / std::sqrt(ii * jj));
      }
    }
    return plain;
  }

  std::map<std::string, PlainMeans> plainly() const {
    std::map<std::string, PlainMeans> heads;
    std::map<std::string, std::vector<double>> mean;  // contributions
    std::map<std::string, RunningMean> squares;
    for (const ObservedText& text : corpus_.texts) {
      Storing storing;
      TokenBatch source, target;
      source.add(text.ids);
      if (text.decoder_ids.empty()) {
        (void)model_.forward(source, {.observer = &storing});
      } else {
        target.add(text.decoder_ids);
        (void)model_.forward(source, target, {.observer = &storing});
      }
      for (const StoredAttention& stored : storing.all) {
        const PlainText plain = plain_text(text, *stored.site);
        for (size_t h = 0; h < stored.maps.size(); ++h) {
          const std::string name = stored.site->head_name(static_cast<int64_t>(h));
          for (int64_t i = 0; i < stored.rows; ++i) {
            add_row(stored, plain, static_cast<int64_t>(h), i, heads[name]);
            const std::vector<double>& c = stored.contributions[h][i];
            mean[name].resize(c.size());
            for (size_t k = 0; k < c.size(); ++k) mean[name][k] += c[k];
            squares[name] += {norm(c) * norm(c), 1};
          }
        }
      }
    }
    for (auto& [name, means] : heads) {
      const RunningMean& all = squares[name];
      const double length = norm(mean[name]) / static_cast<double>(all.n);
      if (all.sum > 0) means.add("constancy", length * length / all.mean());
    }
    return heads;
  }

  Model model_;
  ObservedCorpus corpus_;
  std::vector<int32_t> special_;
};

TEST_P(Looking, GivesThePlainNumbers) {
  ObserveData data{.corpus = corpus_};
  const Evidence evidence = observe(model_, data, {.measures = {"attention"}, .probes = false});
  ASSERT_EQ(std::ssize(evidence.heads), model_.heads());
  std::map<std::string, PlainMeans> plain = plainly();
  for (const HeadEvidence& head : evidence.heads) {
    for (const auto& [measure, got] : head.measures) {
      if (measure == "direct_logit") continue;  // see below
      EXPECT_TRUE(plain[head.head].all().contains(measure)) << head.head << " " << measure;
    }
  }
  for (const auto& [name, means] : plain) {
    const Measures& measures = evidence.head(name).measures;
    for (const auto& [measure, running_mean] : means.all()) {
      const Measure* const got = measures.find(measure);
      ASSERT_NE(got, nullptr) << name << " " << measure;
      EXPECT_NEAR(got->value, running_mean.mean(),
                  kLookTolerance * (1 + std::abs(running_mean.mean())))
          << name << " " << measure;
      if (measure != "constancy") {
        EXPECT_EQ(got->n, running_mean.n) << name << " " << measure;
      }
    }
  }
}

TEST_P(Looking, GivesTheSameBitsForAnyNumberOfThreads) {
  const ObserveData data{.corpus = corpus_};
  const auto run = [&](int count) {
    set_threads(count);
    return observe(model_, data, {.measures = {"attention"}, .probes = false});
  };
  const int before = threads();
  const Evidence one = run(1), three = run(3);
  set_threads(before);
  EXPECT_EQ(one, three);
}

TEST_P(Looking, ReadsBackWhatItWrote) {
  const ObserveData data{.corpus = corpus_};
  const Evidence evidence = observe(model_, data, {.measures = {"attention"}, .probes = false});
  EXPECT_EQ(evidence_from_json(to_json(evidence), "evidence.json"), evidence);
}

INSTANTIATE_TEST_SUITE_P(Models, Looking,
                         testing::Values("bert", "gpt2", "llama", "mistral", "gpt_neox", "marian",
                                         "t5", "bert_fixed", "gpt2_mixed", "llama_pruned"),
                         [](const auto& info) { return info.param; });

/// Writes down what it is told of a pass.
class Progress : public ForwardObserver {
 public:
  explicit Progress(bool to_the_end) : to_the_end_(to_the_end) {}
  bool wants_hidden() const override { return to_the_end_; }
  void on_z(const AttentionSite& site, const Attention&, const MultiHeadAttention&,
            View<float, 3> z, View<const float, 2>) override {
    seen[site.name] = {z.data(), z.data() + z.extent(0) * z.extent(1) * z.extent(2)};
  }
  void on_resid_post(Side side, int64_t layer, View<const float, 2> rows) override {
    seen[fmt::format("{} {}", static_cast<int>(side), layer)] = {
        rows.data(), rows.data() + rows.extent(0) * rows.extent(1)};
  }
  std::map<std::string, std::vector<float>> seen;

 private:
  bool to_the_end_;
};

/// Who does not want what follows the last attention misses just that.
void expect_only_the_end_missing(const std::string& name, const TokenBatch& source,
                                 const TokenBatch& target) {
  const Model model = load(golden_model(name));
  const bool two = model.config().encoder_decoder();
  const auto run = [&](Progress& observer) {
    const ForwardOptions options{.observer = &observer};
    return two ? model.forward(source, target, options) : model.forward(source, options);
  };
  Progress whole(true), part(false);
  EXPECT_EQ(run(whole).rows.extent(0), two ? target.rows() : source.rows());
  EXPECT_EQ(run(part).rows.extent(0), 0);
  const bool decodes = model.config().decoder.layers() > 0;
  const StackConfig& last = decodes ? model.config().decoder : model.config().encoder;
  const Side side = decodes ? Side::decoder : Side::encoder;
  EXPECT_EQ(whole.seen.erase(fmt::format("{} {}", static_cast<int>(side), last.layers() - 1)), 1);
  EXPECT_EQ(part.seen, whole.seen);
}

TEST_P(Looking, EndsWithTheLastAttentionForThoseWhoAskNoMore) {
  TokenBatch source, target;
  source.add(std::vector<int32_t>{3, 1, 4, 1, 5});
  target.add(std::vector<int32_t>{2, 6, 5});
  expect_only_the_end_missing(GetParam(), source, target);
}

TEST(LongTexts, EndWithTheLastAttentionToo) {
  const std::string name = "llama_rope_dynamic";  // which runs them one by one
  const int64_t length = load(golden_model(name)).config().max_positions + 2;
  TokenBatch texts;
  for (const int32_t token : {3, 5}) texts.add(std::vector<int32_t>(length, token));
  expect_only_the_end_missing(name, texts, {});
}

/// The logit of the next token minus the mean logit, when a head's contribution is left out of the
/// last rows before a norm whose scale is held.
TEST(DirectLogits, SumToTheLogitWithEverythingElse) {
  for (const std::string name : {"gpt2", "llama"}) {
    const Model model = load(golden_model(name));
    const std::vector<int32_t> ids = {3, 1, 4, 1, 5, 9, 2, 6};
    TokenBatch batch;
    batch.add(ids);
    struct LastRows : ForwardObserver {
      void on_resid_post(Side, int64_t, View<const float, 2> rows) override {
        values.assign(rows.data(), rows.data() + rows.extent(0) * rows.extent(1));
      }
      std::vector<float> values;
    } last;
    const Activations hidden = model.forward(batch, {.observer = &last});
    const int64_t T = batch.rows(), C = model.config().width;
    const View<const float, 2> rows(last.values.data(), {T, C});
    const Activations logits = model.output(hidden.rows);
    std::vector<int32_t> next(ids.begin() + 1, ids.end());
    next.push_back(0);
    const Activations directions = model.logit_directions(rows, next);
    const auto beside_mean = [&](const Activations& all, int64_t t) {
      double mean = 0;
      for (int64_t v = 0; v < all.rows.extent(1); ++v) mean += all.rows(t, v);
      return all.rows(t, next[t]) - mean / static_cast<double>(all.rows.extent(1));
    };
    double constant = 0;
    for (int64_t t = 0; t < T; ++t) {
      double product = 0;
      for (int64_t c = 0; c < C; ++c) product += double{rows(t, c)} * directions.rows(t, c);
      // What does not come from the row: the norm's bias, the same for equal next tokens.
      const double rest = beside_mean(logits, t) - product;
      if (name == "llama") {
        EXPECT_NEAR(rest, 0, 1e-4) << t;
      } else if (t == 0) {
        constant = rest;
      } else if (next[t] == next[0]) {
        EXPECT_NEAR(rest, constant, 1e-4) << t;
      }
    }
  }
}

/// What the heads of a causal model add, one by one: their contributions along the directions.
TEST(DirectLogits, AreOfContributions) {
  for (const std::string name : {"gpt2", "llama"}) {
    const Model model = load(golden_model(name));
    const ObserveData data{
        .corpus = {.texts = {{.ids = {3, 1, 4, 1, 5, 9, 2, 6}}, {.ids = {5}}, {.ids = {8, 2, 7}}}}};
    const Evidence evidence = observe(model, data, {.measures = {"attention"}, .probes = false});
    struct LastRows : Storing {
      void on_resid_post(Side, int64_t, View<const float, 2> rows) override {
        values.assign(rows.data(), rows.data() + rows.extent(0) * rows.extent(1));
      }
      std::vector<float> values;
    };
    std::map<std::string, RunningMean> plain;
    for (const ObservedText& text : data.corpus.texts) {
      LastRows stored;
      TokenBatch batch;
      batch.add(text.ids);
      (void)model.forward(batch, {.observer = &stored});
      const int64_t N = std::ssize(text.ids), C = model.config().width;
      std::vector<int32_t> next(text.ids.begin() + 1, text.ids.end());
      next.push_back(0);
      const Activations directions = model.logit_directions({stored.values.data(), {N, C}}, next);
      for (const StoredAttention& attention : stored.all) {
        for (size_t h = 0; h < attention.maps.size(); ++h) {
          RunningMean& running_mean = plain[attention.site->head_name(static_cast<int64_t>(h))];
          for (int64_t i = 0; i + 1 < N; ++i) {
            double sum = 0;
            for (int64_t c = 0; c < C; ++c) {
              sum += attention.contributions[h][i][c] * directions.rows(i, c);
            }
            running_mean += {sum, 1};
          }
        }
      }
    }
    for (const HeadEvidence& head : evidence.heads) {
      const Measure* const got = head.measures.find("direct_logit");
      ASSERT_NE(got, nullptr) << name << " " << head.head;
      const double expected = plain.at(head.head).mean();
      EXPECT_NEAR(got->value, expected, kLookTolerance * (1 + std::abs(expected))) << head.head;
      EXPECT_EQ(got->n, 9);
    }
  }
}

}  // namespace
}  // namespace headwise
