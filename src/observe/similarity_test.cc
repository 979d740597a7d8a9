// output_cka against that of stored contributions, and laws that it follows.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "golden/folder.h"
#include "headwise/core/parallel.h"
#include "observe/metric_testing.h"
#include "observe/small_bert_testing.h"

namespace headwise::tests {
namespace {

using Rows = std::vector<std::vector<double>>;

/// What every head adds to the residual stream, of every row.
class Contributions : public ForwardObserver {
 public:
  void on_z(const AttentionSite& site, const Attention&, const MultiHeadAttention& layer,
            View<float, 3> z, View<const float, 2>) override {
    const auto weights = layer.weights();
    const View<float, 2> output = weights->output();
    for (int64_t h = 0; h < z.extent(1); ++h) {
      for (int64_t t = 0; t < z.extent(0); ++t) {
        std::vector<double> row(output.extent(0));
        for (size_t c = 0; c < row.size(); ++c) {
          for (int64_t d = 0; d < z.extent(2); ++d) {
            row[c] += double{z(t, h, d)} * output(c, h * z.extent(2) + d);
          }
        }
        rows[site.head_name(h)].push_back(std::move(row));
      }
    }
  }

  std::map<std::string, Rows> rows;
};

Rows centred(Rows rows) {
  for (size_t c = 0; c < rows[0].size(); ++c) {
    double mean = 0;
    for (const auto& row : rows) mean += row[c] / static_cast<double>(rows.size());
    for (auto& row : rows) row[c] -= mean;
  }
  return rows;
}

/// ‖X' Y‖², as Σ over pairs of rows of (x·x') (y·y').
double squared_norm(const Rows& x, const Rows& y) {
  const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (size_t c = 0; c < a.size(); ++c) sum += a[c] * b[c];
    return sum;
  };
  double sum = 0;
  for (size_t s = 0; s < x.size(); ++s) {
    for (size_t t = 0; t < x.size(); ++t) sum += dot(x[s], x[t]) * dot(y[s], y[t]);
  }
  return sum;
}

PairMatrix plain_cka(const AttentionSite& site, const std::map<std::string, Rows>& rows) {
  std::vector<std::string> names;
  std::vector<Rows> heads;
  for (int64_t h = 0; h < std::ssize(site.heads); ++h) {
    names.push_back(site.head_name(h));
    heads.push_back(centred(rows.at(names.back())));
  }
  PairMatrix matrix = pair_matrix(names);
  for (size_t a = 0; a < heads.size(); ++a) {
    for (size_t b = 0; b < heads.size(); ++b) {
      matrix.at(static_cast<int64_t>(a), static_cast<int64_t>(b)) =
          squared_norm(heads[a], heads[b]) /
          std::sqrt(squared_norm(heads[a], heads[a]) * squared_norm(heads[b], heads[b]));
    }
  }
  return matrix;
}

void expect_plain(const Model& model, const std::vector<TextPair>& batches, double tolerance) {
  Contributions contributions;
  for (const TextPair& batch : batches) {
    const ForwardOptions options{.observer = &contributions};
    (void)(batch.target.sequences() > 0 ? model.forward(batch.source, batch.target, options)
                                        : model.forward(batch.source, options));
  }
  const Evidence evidence = MetricRun{.model = model, .make = similarity_metric}.run(batches);
  for (const AttentionSite& site : model.attentions()) {
    const PairMatrix& matrix = evidence.pairs.at("output_cka").at(site.name);
    expect_near(matrix, plain_cka(site, contributions.rows), tolerance);
    expect_symmetric(matrix);
    for (int64_t h = 0; h < std::ssize(site.heads); ++h) EXPECT_EQ(matrix.at(h, h), 1);
  }
}

TEST(Similarity, EqualsThatOfStoredContributions) {
  for (const char* name : {"bert", "llama", "gpt2_mixed"}) {
    SCOPED_TRACE(name);
    expect_plain(load_golden_model(name), {{drawn_texts({9, 1, 14})}, {drawn_texts({12, 3}, 2)}},
                 1e-6);
  }
  expect_plain(load_golden_model("marian"), {{drawn_texts({9, 12}), drawn_texts({5, 8}, 2)}}, 1e-6);
}

/// More rows than are multiplied at once, in several texts.
TEST(Similarity, OfManyRows) {
  const Model model = SmallBert({.width = 12, .heads = 3}).load();
  expect_plain(model, {{drawn_texts({40, 60, 64, 64, 64, 64, 33})}, {drawn_texts({50}, 2)}}, 1e-6);
}

/// What a head says everywhere is not what it is like: a common part 1e4 times the differences does
/// not reach the numbers.
TEST(Similarity, IsOfDifferencesHoweverLargeTheMean) {
  SmallBert bert({.width = 12, .heads = 3});
  const View<float, 2> bias = bert.bias(0, "self.value");
  for (int64_t i = 0; i < 12; ++i) bias.data()[i] = i % 2 == 0 ? 1000 : -3000;
  // The first batch is not like the others: its mean is not that of all.
  expect_plain(bert.load(), {{drawn_texts({1})}, {drawn_texts({60, 64, 64, 64, 20}, 2)}}, 1e-5);
}

TEST(Similarity, HeadsThatSayTheSameTurnedAndScaledAreAlike) {
  SmallBert bert({.width = 12, .heads = 3});
  for (const char* part : kProjections) copy(bert.head(0, part, 0), bert.head(0, part, 1));
  // Turned: every column of the residual stream goes to another one; scaled by -3.
  const View<float, 2> from = bert.head(0, "output.dense", 0), to = bert.head(0, "output.dense", 1);
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t c = 0; c < 12; ++c) to(i, (c + 5) % 12) = -3 * from(i, c);
  }
  const std::vector<TextPair> texts = {{drawn_texts({20, 13})}};
  const Model model = bert.load();
  const Evidence evidence = MetricRun{.model = model, .make = similarity_metric}.run(texts);
  const PairMatrix& cka = evidence.pairs.at("output_cka").at("L0");
  EXPECT_NEAR(cka.at(0, 1), 1, 1e-6);
  EXPECT_NEAR(cka.at(0, 2), cka.at(1, 2), 1e-6);
  EXPECT_LT(cka.at(0, 2), 0.95);
}

TEST(Similarity, AHeadThatSaysNothingNewIsLikeNone) {
  SmallBert bert({.width = 12, .heads = 3});
  const View<float, 2> value = bert.head(0, "self.value", 1);
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t c = 0; c < 12; ++c) value(i, c) = 0;
  }
  const Model model = bert.load();
  const std::vector<TextPair> texts = {{drawn_texts({20, 13})}};
  const Evidence evidence = MetricRun{.model = model, .make = similarity_metric}.run(texts);
  const PairMatrix& cka = evidence.pairs.at("output_cka").at("L0");
  EXPECT_TRUE(std::isnan(cka.at(0, 1)) && std::isnan(cka.at(1, 1)) && std::isnan(cka.at(1, 2)));
  EXPECT_EQ(cka.at(0, 0), 1);
}

TEST(Similarity, PermutedHeadsAndThreads) {
  SmallBert bert({.width = 12, .heads = 3});
  const std::vector<TextPair> texts = {{drawn_texts({20, 7})}, {drawn_texts({30}, 2)}};
  const auto cka = [&] {
    const Model model = bert.load();
    const MetricRun metric_run{.model = model, .make = similarity_metric};
    return metric_run.run(texts).pairs.at("output_cka").at("L0");
  };
  const int before = threads();
  set_threads(1);
  const PairMatrix one = cka();
  set_threads(3);
  expect_near(cka(), one, 0);
  set_threads(before);
  for (const char* part : kProjections) swap(bert.head(0, part, 0), bert.head(0, part, 1));
  expect_near(cka(), permuted(one, {1, 0, 2}), 1e-6);
}

}  // namespace
}  // namespace headwise::tests
