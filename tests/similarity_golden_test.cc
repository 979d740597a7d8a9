// How heads relate, against plain PyTorch on the maps and weights of golden models, and of two with
// trained weights, which are skipped where they are not there.
// tests/golden/relate/README.md says what is compared.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "golden/folder.h"
#include "golden/golden_tensors.h"
#include "headwise/observe/head_weights.h"
#include "observe/metric_testing.h"

namespace headwise::tests {
namespace {

/// Of values, absolute and relative: what docs/measures.md promises.
constexpr double kTolerance = 1e-5;

std::filesystem::path golden(const std::string& path) { return golden_folder() / path; }

void expect_near(double got, double expected, const std::string& what, double more = 0) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(got)) << what << ' ' << got;
    return;
  }
  EXPECT_NEAR(got, expected, kTolerance * (1 + std::abs(expected)) + more) << what;
}

const std::filesystem::path kSource = project_folder();

struct Source {
  std::filesystem::path folder, texts;
};

Source source_of(const std::string& name) {
  const std::filesystem::path real = golden("real/" + name + ".safetensors");
  if (name == "minilm") return {kSource / "build/models/minilm", real};
  if (name == "stories15m") return {kSource / "../shared/models/stories15m", real};
  return {golden("models/" + name), golden("models/" + name + "/expected.safetensors")};
}

class RelateGolden : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const Source source = source_of(GetParam());
    if (!std::filesystem::exists(source.folder / "config.json")) {
      GTEST_SKIP() << source.folder << " is not there";
    }
    model.emplace(load(source.folder));
    stored.emplace(source.texts);
    expected.emplace(golden("relate/" + GetParam() + ".safetensors"));
  }

  TokenBatch batch(const std::string& ids, const std::string& lengths) const {
    TokenBatch batch;
    if (!stored->has(ids)) return batch;
    const std::vector<int64_t> all = stored->integers(ids);
    const bool typed = ids == "ids" && stored->has("type_ids");
    const std::vector<int64_t> types =
        typed ? stored->integers("type_ids") : std::vector<int64_t>();
    int64_t at = 0;
    for (const int64_t length : stored->integers(lengths)) {
      const std::vector<int32_t> text(all.begin() + at, all.begin() + at + length);
      std::vector<int32_t> kinds;
      if (typed) kinds.assign(types.begin() + at, types.begin() + at + length);
      batch.add(text, kinds);
      at += length;
    }
    return batch;
  }

  std::vector<TextPair> texts() const {
    return {{batch("ids", "lengths"), batch("decoder_ids", "decoder_lengths")}};
  }

  Evidence of_weights() const {
    Evidence evidence;
    for (const AttentionSite& site : model->attentions()) {
      for (int64_t h = 0; h < std::ssize(site.heads); ++h) {
        evidence.heads.push_back({.head = site.head_name(h)});
      }
    }
    observe_weights(*model, 0, evidence);
    return evidence;
  }

  /// All matrices of a pair measure against tensors PREFIX.GROUP; how many there are.
  int64_t expect_matrices(const Evidence& evidence, const std::string& name,
                          const std::string& prefix) const {
    const auto& matrices = evidence.pairs.at(name);
    for (const auto& [group, matrix] : matrices) {
      const std::vector<float> values = expected->floats(prefix + "." + group);
      const auto known = static_cast<int64_t>(std::lround(std::sqrt(values.size())));
      EXPECT_LE(known, std::ssize(matrix.heads)) << group;
      for (int64_t a = 0; a < std::ssize(matrix.heads); ++a) {
        for (int64_t b = 0; b < std::ssize(matrix.heads); ++b) {
          const std::string what = name + " " + matrix.heads[a] + " " + matrix.heads[b];
          if (a >= known || b >= known) {
            EXPECT_TRUE(std::isnan(matrix.at(a, b))) << what;
            continue;
          }
          const double value = values[a * known + b];
          // The arc cosine of what is nearly 1 has lost half of its digits.
          const bool lost = name.starts_with("principal") && value < 1e-3;
          expect_near(matrix.at(a, b), value, what, lost ? 1e-3 : 0);
        }
      }
    }
    return std::ssize(matrices);
  }

  std::optional<Model> model;
  std::optional<GoldenTensors> stored, expected;
};

TEST_P(RelateGolden, Divergences) {
  const MetricRun layers{.model = *model, .make = divergence_metric};
  const auto sites = std::ssize(model->attentions());
  EXPECT_EQ(expect_matrices(layers.run(texts()), "js", "js"), sites);
  const MetricRun all{.model = *model, .make = divergence_metric, .all_pairs = true};
  EXPECT_EQ(expect_matrices(all.run(texts()), "js", "js"),
            sites + (model->config().encoder_decoder() ? 3 : 1));
}

TEST_P(RelateGolden, SimilaritiesOfOutputs) {
  const MetricRun metric_run{.model = *model, .make = similarity_metric};
  EXPECT_EQ(expect_matrices(metric_run.run(texts()), "output_cka", "output_cka"),
            std::ssize(model->attentions()));
}

TEST_P(RelateGolden, Subspaces) {
  const Evidence evidence = of_weights();
  for (const std::string side : {"q", "k", "v", "o"}) {
    for (const std::string name : {"subspace_overlap", "principal_angle"}) {
      EXPECT_GE(expect_matrices(evidence, name + "/" + side, name + "." + side), 1);
    }
  }
}

TEST_P(RelateGolden, RanksAndCopying) {
  const Evidence evidence = of_weights();
  for (const AttentionSite& site : model->attentions()) {
    for (const std::string name : {"qk_rank", "ov_rank", "copying"}) {
      const std::vector<float> values = expected->floats(name + "." + site.name);
      for (int64_t h = 0; h < std::ssize(site.heads); ++h) {
        const Measure* const measure = evidence.head(site.head_name(h)).measures.find(name);
        ASSERT_EQ(measure != nullptr, h < std::ssize(values)) << name << ' ' << site.head_name(h);
        if (measure != nullptr) expect_near(measure->value, values[h], name + site.head_name(h));
      }
    }
  }
}

TEST_P(RelateGolden, Compositions) {
  const Evidence evidence = of_weights();
  const std::vector<float> random = expected->floats("composition.random");
  for (const std::string side : {"q", "k", "v"}) {
    const PairMatrix& matrix = evidence.pairs.at("composition/" + side).at("all");
    const std::vector<float> ratios = expected->floats("composition." + side);
    ASSERT_EQ(matrix.values.size(), ratios.size());
    for (size_t i = 0; i < ratios.size(); ++i) {
      // Both means are drawn, theirs of more and plainer draws.
      expect_near(matrix.values[i], ratios[i] - random[0], side + std::to_string(i), 4 * random[1]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RelateGolden,
                         ::testing::Values("bert", "gpt2", "llama", "marian", "bert_fixed",
                                           "llama_fixed", "minilm", "stories15m"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace headwise::tests
