// What a layer of multi-head attention promises: its shapes, its counts, what it refuses, and that
// a smaller layer equals a larger one with heads switched off.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "headwise/core/error.h"
#include "headwise/kernels/kv_cache.h"
#include "model/multi_head_attention_testing.h"

namespace headwise::tests {
namespace {

using Config = MultiHeadAttentionConfig;

TEST(MultiHeadAttentionShape, WidthAndHeadsGiveTheHeadWidth) {
  EXPECT_EQ(resolve({.width = 512, .heads = 8}).D, 64);
  EXPECT_EQ(resolve({.width = 512, .heads = 1}).D, 512);
  EXPECT_EQ(resolve({.width = 512, .heads = 512}).D, 1);
  EXPECT_EQ(resolve({.width = 1024, .heads = 16}).D, 64);
  EXPECT_EQ(resolve({.width = 512, .heads = 10, .head_dim = 64}).D, 64);
  EXPECT_EQ(resolve({.width = 512, .heads = 8}).K, 8);
  EXPECT_EQ(resolve({.width = 512, .heads = 8}).Dv, 64);
  EXPECT_EQ(resolve({.width = 512, .heads = 8}).Cs, 512);
  EXPECT_FALSE(resolve({.width = 512, .heads = 8}).cross);
  EXPECT_TRUE(resolve({.width = 512, .heads = 8, .source_width = 512}).cross);
}

void expect_refused(const std::string& where, const std::function<void()>& call) {
  SCOPED_TRACE(where);
  try {
    call();
    ADD_FAILURE() << "was not refused";
  } catch (const Error& error) {
    EXPECT_TRUE(error.detail().what.starts_with("multi_head_attention: ")) << error.what();
    EXPECT_EQ(error.detail().where, where);
    EXPECT_FALSE(error.detail().got.empty()) << error.what();
    EXPECT_FALSE(error.detail().expected.empty()) << error.what();
  }
}

TEST(MultiHeadAttentionShape, RefusesWhatIsNoLayer) {
  const auto refused = [](const char* where, const Config& config) {
    expect_refused(where, [&] { resolve(config); });
  };
  refused("heads", {.width = 512, .heads = 10});
  refused("heads", {.width = 512, .heads = -1});
  refused("width", {.width = 0, .heads = 0});
  refused("kv_heads", {.width = 512, .heads = 8, .kv_heads = 3});
  refused("kv_heads", {.width = 512, .heads = 8, .kv_heads = 0});
  refused("kv_heads", {.width = 512, .heads = 8, .kv_heads = -2});
  refused("head_dim", {.width = 512, .heads = 8, .head_dim = 0});
  refused("value_dim", {.width = 512, .heads = 8, .value_dim = 0});
  refused("source_width", {.width = 512, .heads = 8, .source_width = 0});
  Config uneven{.width = 512, .heads = 4, .kv_heads = 2};
  for (const std::vector<int32_t>& map :
       {std::vector<int32_t>{0, 1, 1}, {0, 1, 2, 1}, {0, -1, 1, 1}}) {
    uneven.kv_head = map;
    refused("kv_head", uneven);
  }
}

TEST(MultiHeadAttentionShape, TenHeadsAt512SayWhatToDo) {
  try {
    resolve({.width = 512, .heads = 10});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "multi_head_attention: the width does not divide among the heads\n"
                 "  where: heads\n  got: width 512, 10 heads\n"
                 "  expected: a number of heads that divides the width\n"
                 "  hint: or set head_dim, the width of one head");
  }
}

/// Every number is worked out by hand from the definition, not by the formula.
TEST(MultiHeadAttentionCount, ParametersAndMultiplyAdds) {
  const auto count = [](const Config& config, int64_t rows, int64_t keys) {
    const AttentionCount n = count_attention(config, rows, keys);
    EXPECT_EQ(n.parameters, std::ssize(MultiHeadAttentionWeights(config).all()));
    return std::vector<int64_t>{n.parameters, n.multiply_adds};
  };
  using List = std::vector<int64_t>;
  // 4 * 512^2 + 4 * 512; 4 products of 10 * 512^2, and twice 8 heads of 10 * 10 * 64.
  EXPECT_EQ(count({.width = 512, .heads = 8}, 10, 10), (List{1050624, 10588160}));
  // The number of heads changes nothing as long as they share the width.
  for (const int64_t heads : {1, 2, 16, 512}) {
    EXPECT_EQ(count({.width = 512, .heads = heads}, 10, 10), (List{1050624, 10588160})) << heads;
  }
  // No biases: 4 * 768^2.
  EXPECT_EQ(
      count({.width = 768, .heads = 12, .projection_bias = false, .output_bias = false}, 0, 0),
      (List{2359296, 0}));
  // Llama 3 8B: 2 * 4096^2 + 2 * 4096 * 1024. One new row over 100 keys: that, and 2 * 100 * 4096.
  EXPECT_EQ(count({.width = 4096,
                   .heads = 32,
                   .kv_heads = 8,
                   .projection_bias = false,
                   .output_bias = false},
                  1, 100),
            (List{41943040, 41943040 + 819200}));
  // q 12 x 10, k 8 x 6, v 10 x 6, o 10 x 15; biases 12 + 8 + 10 + 10. Two rows over three keys of a
  // source: q 2 * 120, k and v 3 * 108, scores 2 * 3 * 12, sums 2 * 3 * 15, o 2 * 150.
  EXPECT_EQ(count({.width = 10,
                   .heads = 3,
                   .kv_heads = 2,
                   .head_dim = 4,
                   .value_dim = 5,
                   .source_width = 6,
                   .kv_head = {0, 1, 1}},
                  2, 3),
            (List{378 + 40, 240 + 324 + 72 + 90 + 300}));
  EXPECT_EQ(count({.width = 512, .heads = 0}, 10, 10), (List{512, 0}));
  // A bias of queries and of the output: 4 * 12^2 + 2 * 12.
  const Config queries{.width = 12, .heads = 3, .key_bias = false, .value_bias = false};
  EXPECT_EQ(count_attention(queries, 0, 0).parameters, 600);
  EXPECT_THROW(count_attention({.width = 512, .heads = 8}, -1, 1), Error);
  EXPECT_THROW(count_attention({.width = INT64_MAX / 2, .heads = 1}, 1, 1), Error);
}

TEST(MultiHeadAttentionWeights, FusedAndSeparateAreTheSameMemory) {
  for (const bool bias : {true, false}) {
    LayerProblem problem{.config = {.width = 6,
                                    .heads = 4,
                                    .kv_heads = 2,
                                    .head_dim = 3,
                                    .value_dim = 5,
                                    .projection_bias = bias,
                                    .output_bias = bias}};
    problem.draw(1);
    const MultiHeadAttentionWeights& w = *problem.weights;
    EXPECT_EQ(w.in_proj().extent(0), 12 + 6 + 10);
    MultiHeadAttentionWeights fused(problem.config), separate(problem.config);
    // As GPT-2 stores it: [inputs, outputs].
    std::vector<float> c_attn(28 * 6);
    for (int64_t i = 0; i < 28; ++i) {
      for (int64_t j = 0; j < 6; ++j) c_attn[j * 28 + i] = w.in_proj()(i, j);
    }
    fused.set({.in_proj = transposed(View<const float, 2>(c_attn.data(), {6, 28})),
               .in_proj_bias = w.in_proj_bias()},
              {w.output(), w.output_bias()});
    separate.set({w.query(), w.key(), w.value(), w.query_bias(), w.key_bias(), w.value_bias()},
                 {w.output(), w.output_bias()});
    EXPECT_TRUE(std::ranges::equal(fused.all(), w.all()));
    EXPECT_TRUE(std::ranges::equal(separate.all(), w.all()));
  }
}

TEST(MultiHeadAttentionWeights, RefuseShapesThatDoNotFit) {
  LayerProblem problem{.config = {.width = 6, .heads = 2, .source_width = 4}};
  problem.draw(1);
  MultiHeadAttentionWeights& w = *problem.weights;
  const OutputProjection output{w.output(), w.output_bias()};
  const SeparateProjections sound{w.query(),      w.key(),      w.value(),
                                  w.query_bias(), w.key_bias(), w.value_bias()};
  w.set(sound, output);
  SeparateProjections wrong = sound;
  wrong.key = transposed(wrong.key);
  expect_refused("key", [&] { w.set(wrong, output); });
  wrong = sound;
  wrong.value_bias = {};
  expect_refused("value_bias", [&] { w.set(wrong, output); });
  expect_refused("output", [&] { w.set(sound, {w.query().rows(0, 2), w.output_bias()}); });
  expect_refused("in_proj", [&] { w.set(FusedProjections{}, output); });
  expect_refused("in_proj", [&] { w.in_proj(); });
  MultiHeadAttentionWeights plain(Config{.width = 6, .heads = 2, .projection_bias = false});
  expect_refused("in_proj_bias", [&] {
    plain.set({plain.in_proj(), w.query_bias()}, {plain.output(), {}});
  });
}

TEST(MultiHeadAttentionSteps, RefuseInputsThatDoNotFitAndTheWrongOrder) {
  LayerProblem problem{.config = {.width = 6, .heads = 2}},
      other{.config = {.width = 6, .heads = 3}};
  problem.draw(1);
  other.draw(1);
  const MultiHeadAttention layer(std::move(*problem.weights));
  MultiHeadAttentionWeights gradients = layer.weights()->zeros();
  MultiHeadAttention::Pass pass;
  const View<const float, 2> x = problem.x_view();
  const View<const float, 2> narrow(problem.x.data(), {12, 5});
  std::vector<float> numbers(12 * 6);
  const View<float, 2> out(numbers.data(), {12, 6});
  const Attention params = problem.attention_params();
  expect_refused("q", [&] { layer.attend(params, pass); });
  expect_refused("x", [&] { layer.project(narrow, {}, pass); });
  expect_refused("source", [&] { layer.project(x, x, pass); });
  layer.forward(x, {}, params, pass, out);
  expect_refused("out", [&] { layer.output(pass, out.rows(0, 3)); });
  expect_refused("q", [&] { MultiHeadAttention(std::move(*other.weights)).attend(params, pass); });
  expect_refused("dz", [&] { layer.backward_attend(params, pass); });
  expect_refused("dout", [&] { layer.backward_output(narrow, pass, {.to = &gradients}); });
  const std::vector<int64_t> twice = {0, 3, 3}, beyond = {0, 3, 12}, rows = {0, 3, 5};
  expect_refused("rows", [&] { layer.output_rows(twice, pass, out.rows(0, 3)); });
  expect_refused("rows", [&] { layer.output_rows(beyond, pass, out.rows(0, 3)); });
  expect_refused("out", [&] { layer.output_rows(rows, pass, out); });
  expect_refused("z_rows", [&] {
    layer.backward_output_rows(rows, out.rows(0, 3), pass, {.to = &gradients});
  });
  MultiHeadAttentionWeights foreign(other.config);
  expect_refused("gradients", [&] { layer.backward_output(out, pass, {.to = &foreign}); });
  layer.backward_output(out, pass, {.to = &gradients});
  expect_refused("dq", [&] { layer.backward_project(x, {}, pass, {}, {.to = &gradients}); });
  layer.backward_attend(params, pass);
  expect_refused("x",
                 [&] { layer.backward_project(x.rows(0, 3), {}, pass, {}, {.to = &gradients}); });
  expect_refused("dx", [&] {
    layer.backward_project(x, {}, pass, {.dx = out.rows(0, 3)}, {.to = &gradients});
  });
  expect_refused("dsource", [&] {
    layer.backward_project(x, {}, pass, {.dsource = out}, {.to = &gradients});
  });
  layer.backward_project(x, {}, pass, {}, {.to = &gradients});
  layer.project(x, {}, pass);  // what backward left there is of the rows before
  expect_refused("dz", [&] { layer.backward_attend(params, pass); });
  expect_refused("dq", [&] { layer.backward_project(x, {}, pass, {}, {.to = &gradients}); });
}

TEST(MultiHeadAttentionSteps, OnlyPlainWeightsCanChange) {
  LayerProblem problem{.config = {.width = 6, .heads = 2}};
  problem.draw(1);
  const LayerAnswers expected = solve(problem);
  using Storage = MultiHeadAttention::Storage;
  for (const Storage storage : {Storage::packed, Storage::plain}) {
    const MultiHeadAttention layer(MultiHeadAttentionWeights(problem.config), storage);
    MultiHeadAttention::Pass pass;
    EXPECT_NE(solve(layer, problem, pass).out, expected.out);
    std::ranges::copy(problem.weights->all(), layer.weights()->all().begin());
    EXPECT_EQ(solve(layer, problem, pass).out == expected.out, storage == Storage::plain);
  }
}

TEST(MultiHeadAttentionSteps, ALayerWithoutHeadsGivesItsBias) {
  LayerProblem problem{.config = {.width = 6, .heads = 0}};
  problem.draw(1);
  const LayerAnswers got = solve(problem);
  for (size_t i = 0; i < got.out.size(); ++i) {
    EXPECT_EQ(got.out[i], problem.weights->output_bias()(i % 6));
    EXPECT_EQ(got.dx[i], 0);
  }
}

TEST(MultiHeadAttentionSteps, BiasesThatAreNotThereStayZero) {
  for (const bool cross : {false, true}) {
    LayerProblem all{.config = {.width = 6, .heads = 2}}, some;
    if (cross) all.config.source_width = 4;
    if (cross) all.k_offsets = {0, 4, 5, 9};
    some.config = all.config;
    some.k_offsets = all.k_offsets;
    some.config.key_bias = some.config.value_bias = false;
    all.draw(1);
    some.draw(1);
    const MultiHeadAttentionWeights& w = *all.weights;
    std::ranges::fill(w.biases().subspan(6, 12), 0.f);  // of keys and values
    SeparateProjections projections{
        .query = w.query(), .key = w.key(), .value = w.value(), .query_bias = w.query_bias()};
    some.weights.emplace(some.config);
    some.weights->set(projections, {w.output(), w.output_bias()});
    projections.value_bias = w.value_bias();
    expect_refused("value_bias", [&] {
      some.weights->set(projections, {w.output(), w.output_bias()});
    });
    LayerAnswers expected = solve(all);
    const LayerAnswers got = solve(some);
    EXPECT_EQ(got.out, expected.out);
    EXPECT_EQ(got.dx, expected.dx);
    const size_t first = w.matrices().size() + 6;
    EXPECT_NE(expected.dweights[first + 6], 0);  // of a value
    std::fill_n(expected.dweights.begin() + static_cast<int64_t>(first), 12, 0.f);
    EXPECT_EQ(got.dweights, expected.dweights);
  }
}

/// Rows one at a time over a cache, by the same steps, equal all rows at once.
TEST(MultiHeadAttentionSteps, ACacheCanStandBetweenThem) {
  LayerProblem problem{.config = {.width = 12, .heads = 4, .kv_heads = 2, .value_dim = 5},
                       .q_offsets = {0, 6},
                       .causal = true};
  problem.draw(2);
  const LayerReference<Bounded> expected = solve_ref<Bounded>(problem, numbers_of(problem));
  const MultiHeadAttention layer(std::move(*problem.weights));
  KvCache cache({.sequences = 1, .capacity = 8, .kv_heads = 2, .head_dim = 3, .value_dim = 5});
  MultiHeadAttention::Pass pass;
  const std::vector<int64_t> one = {0, 1};
  std::vector<float> out(problem.x.size());
  for (int64_t t = 0; t < 6; ++t) {
    layer.project(problem.x_view().rows(t, t + 1), {}, pass);
    cache.append(pass.k, pass.v, one);
    Attention step{.q = pass.q, .q_offsets = one};
    step.mask.causal = true;
    attention_decode(step, cache, pass.z);
    layer.output(pass, {out.data() + t * 12, {1, 12}});
  }
  expect_within("out", out, expected.out);
}

/// Which heads stay, and the key/value heads they need.
struct Cut {
  std::vector<int64_t> heads, kv_heads;
};

/// Where each parameter of the smaller layer lies in the memory of the larger one.
std::vector<int64_t> kept(const MultiHeadAttentionWeights& weights, const Cut& cut) {
  const MultiHeadAttentionShape& s = weights.shape();
  std::vector<int64_t> all;
  const auto rows = [&](auto view, int64_t width, const std::vector<int64_t>& heads) {
    for (const int64_t h : heads) {
      for (int64_t i = h * width; i < (h + 1) * width; ++i) {
        if constexpr (requires { view(i, 0); }) {
          for (int64_t c = 0; c < view.extent(1); ++c)
            all.push_back(&view(i, c) - weights.all().data());
        } else {
          all.push_back(&view(i) - weights.all().data());
        }
      }
    }
  };
  rows(weights.query(), s.D, cut.heads);
  rows(weights.key(), s.D, cut.kv_heads);
  rows(weights.value(), s.Dv, cut.kv_heads);
  for (int64_t c = 0; c < s.C; ++c) {
    for (const int64_t h : cut.heads) {
      for (int64_t i = h * s.Dv; i < (h + 1) * s.Dv; ++i) {
        all.push_back(&weights.output()(c, i) - weights.all().data());
      }
    }
  }
  rows(weights.query_bias(), s.D, cut.heads);
  rows(weights.key_bias(), s.D, cut.kv_heads);
  rows(weights.value_bias(), s.Dv, cut.kv_heads);
  rows(weights.output_bias(), 1, [&] {
    std::vector<int64_t> columns(s.C);
    std::iota(columns.begin(), columns.end(), 0);
    return columns;
  }());
  return all;
}

/// |a - b| <= |a - exact| + |exact - b|, where both exact answers are the same number.
TEST(MultiHeadAttentionPruning, CompactEqualsMasked) {
  const std::vector<Cut> cuts = {
      {{0, 2, 3, 4, 5}, {0, 1}}, {{3, 4, 5}, {1}}, {{0, 5}, {0, 1}}, {{1, 2, 4}, {0, 1}}, {{}, {}}};
  for (const Cut& cut : cuts) {
    LayerProblem masked{.config = {.width = 18, .heads = 6, .kv_heads = 2, .value_dim = 4},
                        .causal = true,
                        .gates = std::vector<float>(6, 0.0f)};
    for (const int64_t h : cut.heads) masked.gates[h] = 1;
    masked.draw(9);
    LayerProblem compact{.config = masked.config, .causal = true};
    compact.config.heads = std::ssize(cut.heads);
    compact.config.kv_heads = std::ssize(cut.kv_heads);
    compact.config.head_dim = 3;
    for (const int64_t h : cut.heads) {
      const auto kv = std::ranges::find(cut.kv_heads, h / 3) - cut.kv_heads.begin();
      compact.config.kv_head.push_back(static_cast<int32_t>(kv));
    }
    compact.draw(9);
    const std::vector<int64_t> index = kept(*masked.weights, cut);
    ASSERT_EQ(index.size(), compact.weights->all().size());
    for (size_t i = 0; i < index.size(); ++i) {
      compact.weights->all()[i] = masked.weights->all()[index[i]];
    }
    compact.x = masked.x;
    compact.dout = masked.dout;
    const LayerAnswers small = solve(compact), large = solve(masked);
    const auto e_small = solve_ref<Bounded>(compact, numbers_of(compact));
    const auto e_large = solve_ref<Bounded>(masked, numbers_of(masked));
    for (size_t i = 0; i < small.out.size(); ++i) {
      ASSERT_NEAR(small.out[i], large.out[i], e_small.out[i].e + e_large.out[i].e);
      ASSERT_NEAR(small.dx[i], large.dx[i], e_small.dx[i].e + e_large.dx[i].e);
    }
    for (size_t i = 0; i < index.size(); ++i) {
      ASSERT_NEAR(small.dweights[i], large.dweights[index[i]],
                  e_small.dweights[i].e + e_large.dweights[index[i]].e);
    }
  }
}

}  // namespace
}  // namespace headwise::tests
