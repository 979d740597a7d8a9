// Ranks of heads whose weights are known.
#include "headwise/model/head_ranks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "golden/folder.h"
#include "headwise/train/trainable_model.h"
#include "io/io_testing.h"

namespace headwise {
namespace {

const nlohmann::json kUnequalBert = {{"model_type", "bert"},    {"architectures", {"BertModel"}},
                                     {"hidden_size", 8},        {"vocab_size", 10},
                                     {"num_hidden_layers", 1},  {"num_attention_heads", 2},
                                     {"intermediate_size", 16}, {"max_position_embeddings", 8}};

/// The query and key matrix of one layer, as transformers stores them.
View<float, 2> matrix(TrainableModel& model, const std::string& name) {
  for (const StoredTensor& tensor : model.tensors()) {
    if (tensor.name == "encoder.layer.0.attention.self." + name + ".weight") {
      return tensor.parts.front().values;
    }
  }
  ADD_FAILURE() << name;
  return {};
}

TEST(HeadRanks, FollowTheSingularValues) {
  TrainableModel model = TrainableModel::create(kUnequalBert.dump(), {});
  const View<float, 2> query = matrix(model, "query"), key = matrix(model, "key");
  for (int64_t row = 0; row < 8; ++row) {
    for (int64_t c = 0; c < 8; ++c) {
      const bool one = row >= 4;  // the second head reads and compares one direction alone
      query(row, c) = one ? float(c) : row == c ? 1.f : 0.f;
      key(row, c) = one ? float(1 - c) : row == c ? float(1 << row) : 0.f;
    }
  }
  const TemporaryFolder folder;
  model.save(folder.path());
  const std::vector<double> ranks = qk_ranks(load(folder.path()));
  ASSERT_EQ(ranks.size(), 2u);
  double entropy = 0;  // of 1, 2, 4, 8
  for (const double value : {1., 2., 4., 8.}) entropy -= value / 15 * std::log(value / 15);
  EXPECT_NEAR(ranks[0], std::exp(entropy), 1e-6);
  EXPECT_NEAR(ranks[1], 1, 1e-5);
}

TEST(HeadRanks, FixedHeadsHaveNone) {
  const Model model = load(golden_folder() / "models/bert_fixed");
  const std::vector<double> ranks = qk_ranks(model);
  for (int64_t site = 0; site < std::ssize(model.attentions()); ++site) {
    const int64_t learned = model.layer(site).shape().learned();
    for (int64_t h = 0; h < std::ssize(model.attentions()[site].heads); ++h) {
      const double rank = ranks[model.attentions()[site].first + h];
      EXPECT_EQ(std::isnan(rank), h >= learned) << site << ' ' << h;
      EXPECT_TRUE(h >= learned || (rank > 1 && rank <= 8)) << rank;
    }
  }
}

}  // namespace
}  // namespace headwise
