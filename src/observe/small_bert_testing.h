// A small BERT whose weights tests set by hand.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "headwise/core/random.h"
#include "headwise/model/model.h"
#include "headwise/observe/evidence.h"
#include "headwise/train/trainable_model.h"
#include "io/io_testing.h"

namespace headwise::tests {

struct SmallBertShape {
  int64_t width = 8, heads = 2, layers = 1;
};

class SmallBert {
 public:
  /// Weights are drawn, and larger than BERT begins with, so that rows attend to some keys more.
  explicit SmallBert(const SmallBertShape& shape)
      : model_(TrainableModel::create(nlohmann::json{{"model_type", "bert"},
                                                     {"architectures", {"BertModel"}},
                                                     {"hidden_size", shape.width},
                                                     {"vocab_size", 50},
                                                     {"num_hidden_layers", shape.layers},
                                                     {"num_attention_heads", shape.heads},
                                                     {"intermediate_size", 16},
                                                     {"max_position_embeddings", 64}}
                                          .dump(),
                                      {})),
        head_width_(shape.width / shape.heads) {
    Random random(7);
    for (int64_t layer = 0; layer < shape.layers; ++layer) {
      for (const char* part : {"self.query", "self.key", "self.value", "output.dense"}) {
        const View<float, 2> matrix = weight(layer, part);
        for (int64_t i = 0; i < shape.width * shape.width; ++i) {
          matrix.data()[i] = 2 * random.normal() / std::sqrt(static_cast<float>(shape.width));
        }
      }
    }
  }

  /// "self.query", "self.key", "self.value" or "output.dense", as transformers stores them.
  View<float, 2> weight(int64_t layer, const std::string& part) {
    return tensor(layer, part + ".weight");
  }
  View<float, 2> bias(int64_t layer, const std::string& part) {
    return tensor(layer, part + ".bias");
  }

  /// The rows of one head in a projection, or in the transposed output projection.
  View<float, 2> head(int64_t layer, const std::string& part, int64_t index) {
    View<float, 2> matrix = weight(layer, part);
    if (part == "output.dense") matrix = transposed(matrix);
    return matrix.rows(index * head_width_, (index + 1) * head_width_);
  }

  Model load() {
    const TemporaryFolder folder;
    model_.save(folder.path());
    return headwise::load(folder.path());
  }

 private:
  View<float, 2> tensor(int64_t layer, const std::string& part) {
    const std::string name = "encoder.layer." + std::to_string(layer) + ".attention." + part;
    for (const StoredTensor& tensor : model_.tensors()) {
      if (tensor.name == name) return tensor.parts.front().values;
    }
    ADD_FAILURE() << name;
    return {};
  }

  TrainableModel model_;
  int64_t head_width_;
};

inline void copy(View<const float, 2> from, View<float, 2> to) {
  for (int64_t i = 0; i < from.extent(0); ++i) {
    for (int64_t j = 0; j < from.extent(1); ++j) to(i, j) = from(i, j);
  }
}

inline void swap(View<float, 2> a, View<float, 2> b) {
  for (int64_t i = 0; i < a.extent(0); ++i) {
    for (int64_t j = 0; j < a.extent(1); ++j) std::swap(a(i, j), b(i, j));
  }
}

inline constexpr const char* kProjections[] = {"self.query", "self.key", "self.value",
                                               "output.dense"};

/// The matrix with its rows and columns in another order.
inline PairMatrix permuted(const PairMatrix& matrix, const std::vector<int64_t>& order) {
  PairMatrix result = matrix;
  for (size_t a = 0; a < order.size(); ++a) {
    for (size_t b = 0; b < order.size(); ++b) {
      result.at(static_cast<int64_t>(a), static_cast<int64_t>(b)) = matrix.at(order[a], order[b]);
    }
  }
  return result;
}

/// NaN where NaN is expected.
inline void expect_near(const PairMatrix& got, const PairMatrix& expected, double tolerance) {
  ASSERT_EQ(got.heads, expected.heads);
  for (size_t i = 0; i < got.values.size(); ++i) {
    if (std::isnan(expected.values[i])) {
      EXPECT_TRUE(std::isnan(got.values[i])) << i << ' ' << got.values[i];
    } else {
      EXPECT_NEAR(got.values[i], expected.values[i], tolerance) << i;
    }
  }
}

inline void expect_symmetric(const PairMatrix& matrix) {
  for (int64_t a = 0; a < std::ssize(matrix.heads); ++a) {
    for (int64_t b = 0; b < a; ++b) EXPECT_EQ(matrix.at(a, b), matrix.at(b, a)) << a << ' ' << b;
  }
}

/// Texts of drawn tokens.
inline TokenBatch drawn_texts(const std::vector<int64_t>& lengths, uint64_t seed = 1) {
  Random random(seed);
  TokenBatch batch;
  for (const int64_t length : lengths) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < length; ++i) ids.push_back(static_cast<int32_t>(random.below(30)));
    batch.add(ids);
  }
  return batch;
}

}  // namespace headwise::tests
