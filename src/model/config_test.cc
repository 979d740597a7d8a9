// What config.json may not say, and how that is said.
#include "headwise/model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "headwise/core/error.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const json kBert = {{"model_type", "bert"},    {"architectures", {"BertModel"}},
                    {"hidden_size", 32},       {"vocab_size", 100},
                    {"num_hidden_layers", 2},  {"num_attention_heads", 4},
                    {"intermediate_size", 64}, {"max_position_embeddings", 40},
                    {"layer_norm_eps", 1e-12}, {"hidden_act", "gelu"}};
const json kLlama = {{"model_type", "llama"},
                     {"architectures", {"LlamaForCausalLM"}},
                     {"hidden_size", 32},
                     {"vocab_size", 100},
                     {"num_hidden_layers", 4},
                     {"num_attention_heads", 4},
                     {"num_key_value_heads", 2},
                     {"intermediate_size", 64},
                     {"max_position_embeddings", 40}};
const json kMarian = {{"model_type", "marian"},
                      {"d_model", 32},
                      {"vocab_size", 100},
                      {"max_position_embeddings", 40},
                      {"encoder_layers", 1},
                      {"decoder_layers", 2},
                      {"encoder_attention_heads", 4},
                      {"decoder_attention_heads", 2},
                      {"encoder_ffn_dim", 64},
                      {"decoder_ffn_dim", 64}};

json with(json config, const json& changes) {
  config.update(changes);
  return config;
}

json of_type(const char* type, const json& changes = json::object()) {
  return with(with(kLlama, {{"model_type", type}, {"architectures", nullptr}}), changes);
}

ModelConfig parse(const json& config, const ConfigOptions& options = {}) {
  return parse_config(config.dump(), "config.json", options);
}

/// The message for a config that is refused.
std::string refused(const std::string& text) {
  try {
    (void)parse_config(text, "config.json");
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << text;
  return "";
}
std::string refused(const json& config) { return refused(config.dump()); }

void expect_refused(const json& config, const std::string& field, const std::string& what,
                    const std::string& expected) {
  const std::string message = refused(config);
  EXPECT_THAT(message, HasSubstr("config.json: " + field));
  EXPECT_THAT(message, HasSubstr(what));
  EXPECT_THAT(message, HasSubstr(expected));
}

TEST(ConfigErrors, NotJsonOrNoObject) {
  EXPECT_THAT(refused(std::string("{")), HasSubstr("json: not valid"));
  EXPECT_THAT(refused(std::string("[]")), HasSubstr("not an object"));
  EXPECT_THAT(refused(std::string(R"({"model_type": "bert", "model_type": "t5"})")),
              HasSubstr("a key is there twice"));
}

TEST(ConfigErrors, WidthThatDoesNotDivideAmongHeads) {
  expect_refused(with(kBert, {{"num_attention_heads", 5}}), "num_attention_heads",
                 "the width does not divide among the heads", "a number that divides 32");
  EXPECT_EQ(parse(with(kLlama, {{"num_attention_heads", 6}, {"head_dim", 8}})).decoder.head_dim, 8);
}

TEST(ConfigErrors, HeadsThatDoNotDivideAmongKeyValueHeads) {
  expect_refused(with(kLlama, {{"num_key_value_heads", 3}}), "num_key_value_heads",
                 "the heads do not divide among the key/value heads", "a number that divides 4");
}

TEST(ConfigErrors, NoLayersOrHeads) {
  for (const json& none : {json(0), json(-1), json(1.5), json("12"), json(true), json(nullptr),
                           json(uint64_t{1} << 63)}) {
    for (const char* field : {"num_hidden_layers", "num_attention_heads", "hidden_size"}) {
      expect_refused(with(kBert, {{field, none}}), field, "json: a field is", "");
    }
  }
  json without = kBert;
  without.erase("num_hidden_layers");
  expect_refused(without, "num_hidden_layers", "a field is missing", "");
}

TEST(ConfigErrors, SizesThatWouldFillMemoryBeforeATensorIsSeen) {
  expect_refused(with(kBert, {{"num_hidden_layers", 1 << 30}}), "num_hidden_layers",
                 "no such number", "from 1 to 4096");
  expect_refused(with(kBert, {{"hidden_size", 1 << 30}, {"num_attention_heads", 1 << 20}}),
                 "num_attention_heads", "no such number", "from 1 to 1024");
  expect_refused(with(kLlama, {{"hidden_size", 1 << 30}}), "num_attention_heads",
                 "a head is too wide", "at most 65536");
  expect_refused(with(kMarian, {{"max_position_embeddings", 1 << 30}}), "max_position_embeddings",
                 "no such number", "from 1 to 65536");
}

TEST(ConfigErrors, EpsilonThatIsNotPositive) {
  for (const double epsilon : {0., -1e-12, 1e-60, 1e60}) {
    expect_refused(with(kBert, {{"layer_norm_eps", epsilon}}), "layer_norm_eps",
                   "the epsilon of a norm", "above 0");
    expect_refused(with(kLlama, {{"rms_norm_eps", epsilon}}), "rms_norm_eps",
                   "the epsilon of a norm", "above 0");
  }
}

TEST(ConfigErrors, UnknownActivationListsTheKnown) {
  expect_refused(with(kBert, {{"hidden_act", "mish"}}), "hidden_act",
                 "the activation function is not known", "gelu, gelu_fast, gelu_new");
  EXPECT_THAT(refused(with(kBert, {{"hidden_act", "mish"}})), HasSubstr("\"mish\""));
}

TEST(ConfigErrors, UnknownKindOfClassificationListsTheKnown) {
  expect_refused(with(kBert, {{"problem_type", "ranking"}}), "problem_type",
                 "the kind of classification is not known", "multi_label_classification");
}

TEST(ConfigErrors, UnknownPositionsListTheKnown) {
  expect_refused(with(kBert, {{"position_embedding_type", "relative_key"}}),
                 "position_embedding_type", "not supported", "absolute");
  expect_refused(with(kLlama, {{"rope_scaling", {{"rope_type", "longrope"}, {"factor", 2}}}}),
                 "rope_scaling", "the scaling of rotary positions is not known",
                 "default, linear, dynamic, yarn or llama3");
}

TEST(ConfigErrors, UnknownArchitectureListsTheKnown) {
  expect_refused(
      with(kBert, {{"model_type", "mamba"}}), "model_type", "the architecture is not known",
      "bert, distilbert, electra, gpt2, gpt_neox, llama, marian, mistral, mpnet, normless, qwen2, "
      "qwen3, roberta, smollm3, t5, xlm-roberta");
  expect_refused(with(kBert, {{"architectures", {"BertForMultipleChoice"}}}), "architectures",
                 "the class of the model is not known", "BertForMaskedLM");
  expect_refused(with(kBert, {{"architectures", {"RobertaForMaskedLM"}}}), "architectures",
                 "the class of the model is not known", "BertForMaskedLM");
}

TEST(ConfigErrors, PrunedHeads) {
  const auto pruned = [](const json& base, const json& heads) {
    return with(base, {{"pruned_heads", heads}});
  };
  expect_refused(pruned(kBert, {{"0", {1, 4}}}), "pruned_heads.0[1]", "no such number",
                 "from 0 to 3");
  expect_refused(pruned(kBert, {{"0", {-1}}}), "pruned_heads.0[0]", "no such number",
                 "from 0 to 3");
  expect_refused(pruned(kBert, {{"1", {2, 0, 2}}}), "pruned_heads.1",
                 "a pruned head is named twice", "each head once");
  expect_refused(pruned(kBert, {{"2", {0}}}), "pruned_heads.2", "an attention that is not there",
                 "the number of a layer");
  expect_refused(pruned(kBert, {{"0", {0}}, {"L0", {1}}}), "pruned_heads.0",
                 "an attention that is not there", "once");
  expect_refused(pruned(kMarian, {{"dec.L1", {2}}}), "pruned_heads.dec.L1[0]", "no such number",
                 "from 0 to 1");
  expect_refused(pruned(kMarian, {{"0", {0}}}), "pruned_heads.0", "an attention that is not there",
                 "cross.L0");
  const ModelConfig marian = parse(pruned(kMarian, {{"enc.L0", {2}}, {"cross.L1", {0, 1}}}));
  EXPECT_EQ(marian.encoder.attention[0].heads, (std::vector<int32_t>{0, 1, 3}));
  EXPECT_TRUE(marian.decoder.cross[1].heads.empty());
}

TEST(ConfigErrors, AllHeadsOfALayerMayBePruned) {
  const ModelConfig config =
      parse(with(kLlama, {{"pruned_heads", {{"0", {0, 1, 2, 3}}, {"2", {2, 3, 0}}}}}));
  EXPECT_TRUE(config.decoder.attention[0].heads.empty());
  EXPECT_TRUE(config.decoder.attention[0].kv_heads.empty());
  EXPECT_EQ(config.decoder.attention[2].heads, std::vector<int32_t>{1});
  EXPECT_EQ(config.decoder.attention[2].kv_heads, std::vector<int32_t>{0});
  EXPECT_EQ(config.decoder.attention[2].kv_head, std::vector<int32_t>{0});
}

json own(int64_t heads, int64_t head_dim, int64_t value_dim) {
  return {{"heads", heads}, {"head_dim", head_dim}, {"value_dim", value_dim}};
}

json with_heads(const json& base, const json& attention) {
  return with(base, {{"model_type", "headwise_" + base["model_type"].get<std::string>()},
                     {"headwise", {{"attention", attention}}}});
}

TEST(Config, AttentionsMayHaveHeadsOfTheirOwn) {
  const ModelConfig bert = parse(with(with_heads(kBert, {{"L1", own(3, 5, 7)}}),
                                      {{"pruned_heads", {{"1", {0}}, {"0", {3}}}}}));
  EXPECT_EQ(bert.model_type, "bert");
  EXPECT_EQ(bert.encoder.attention[0].heads, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(bert.encoder.attention[0].head_dim, 8);
  EXPECT_EQ(bert.encoder.attention[0].value_dim, 8);
  EXPECT_EQ(bert.encoder.attention[1].heads, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(bert.encoder.attention[1].head_dim, 5);
  EXPECT_EQ(bert.encoder.attention[1].value_dim, 7);

  const ModelConfig marian =
      parse(with_heads(kMarian, {{"cross.L1", with(own(4, 2, 3), {{"kv_heads", 2}})}}));
  EXPECT_EQ(marian.decoder.attention[1].heads.size(), 2u);
  EXPECT_EQ(marian.decoder.cross[1].heads.size(), 4u);
  EXPECT_EQ(marian.decoder.cross[1].kv_head, (std::vector<int32_t>{0, 0, 1, 1}));
  EXPECT_EQ(marian.decoder.cross[1].group, 2);
  EXPECT_EQ(parse(with_heads(kLlama, {{"L0", own(3, 8, 2)}})).decoder.attention[0].value_dim, 2);
}

TEST(ConfigErrors, HeadsOfTheirOwn) {
  expect_refused(with_heads(kBert, {{"L2", own(3, 5, 7)}}), "headwise.attention.L2",
                 "an attention that is not there", "the number of a layer");
  expect_refused(with_heads(kMarian, {{"L0", own(3, 5, 7)}}), "headwise.attention.L0",
                 "an attention that is not there", "enc.L0");
  expect_refused(with_heads(kBert, {{"L0", own(0, 5, 7)}}), "headwise.attention.L0.heads",
                 "no such number", "from 1 to 1024");
  expect_refused(with_heads(kBert, {{"L0", with(own(3, 5, 7), {{"kv_heads", 2}})}}),
                 "headwise.attention.L0.kv_heads", "do not divide", "divides 3");
  expect_refused(with_heads(kBert, {{"L0", with(own(3, 5, 7), {{"mask", 2}})}}),
                 "headwise.attention.L0.mask", "not known", "one of heads");
  expect_refused(with(kBert, {{"headwise", {{"routers", 1}}}}), "headwise.routers", "not known",
                 "one of attention, fixed, routing");
  expect_refused(with_heads(kLlama, {{"L1", own(4, 6, 8)}}), "headwise.attention.L1.head_dim",
                 "with rotary positions all heads are of one width", "8");
  expect_refused(with(with_heads(kBert, {{"L0", own(3, 5, 7)}}),
                      {{"model_type", "mpnet"}, {"architectures", nullptr}}),
                 "headwise.attention", "cannot have heads of its own", "without relative bias");
}

json with_headwise(const json& base, const json& headwise) {
  return with(base, {{"headwise", headwise}});
}

TEST(Config, FixedHeadsComeAfterLearnedOnes) {
  const ModelConfig bert =
      parse(with(with_headwise(kBert, {{"fixed", {{"L0.H1", "previous"}, {"L0.H0", "window(3)"}}}}),
                 {{"pruned_heads", {{"0", {2, 1}}}}}));
  const AttentionConfig& attention = bert.encoder.attention[0];
  EXPECT_EQ(attention.heads, (std::vector<int32_t>{3, 0}));
  EXPECT_EQ(attention.kv_heads, (std::vector<int32_t>{3, 0}));
  EXPECT_EQ(attention.kv_head, (std::vector<int32_t>{0, 1}));
  ASSERT_EQ(attention.fixed.size(), 1u);
  EXPECT_EQ(to_string(attention.fixed[0]), "window(3)");

  // A key/value head of two fixed heads comes after one that a learned head reads.
  const ModelConfig llama =
      parse(with_headwise(kLlama, {{"fixed", {{"L1.H0", "first"}, {"L1.H1", "previous"}}}}));
  const int64_t H = llama.decoder.heads, K = llama.decoder.kv_heads;
  ASSERT_EQ(H / K, 2);
  EXPECT_EQ(llama.decoder.attention[1].heads.front(), 2);
  EXPECT_EQ(llama.decoder.attention[1].kv_heads.front(), 1);
  EXPECT_EQ(llama.decoder.attention[1].kv_heads.back(), 0);
}

TEST(Config, RoutedHeadsAreTheLearnedOnesThatAreNotShared) {
  const ModelConfig bert =
      parse(with(with_headwise(kBert, {{"fixed", {{"L0.H1", "previous"}}},
                                       {"routing", {{"shared", 1}, {"active", 1}}}}),
                 {{"pruned_heads", {{"1", {1}}}}}));
  EXPECT_EQ(bert.encoder.attention[0].heads, (std::vector<int32_t>{0, 2, 3, 1}));
  EXPECT_EQ(bert.encoder.attention[0].routing->heads, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(bert.encoder.attention[0].routing->active, 1);
  EXPECT_EQ(bert.encoder.attention[1].routing->heads, (std::vector<int32_t>{-1, 1, 2}));
}

TEST(ConfigErrors, FixedAndRoutedHeads) {
  const auto fixed = [](const json& base, const char* name, const json& pattern) {
    return with_headwise(base, {{"fixed", {{name, pattern}}}});
  };
  const auto routing = [](const json& routing) {
    return with_headwise(kBert, {{"routing", routing}});
  };
  expect_refused(fixed(kBert, "L0.H4", "first"), "headwise.fixed.L0.H4", "no such head", "L0.H0");
  expect_refused(fixed(kBert, "L9.H0", "first"), "headwise.fixed.L9.H0", "no such head", "L0.H0");
  expect_refused(fixed(kMarian, "L0.H0", "first"), "headwise.fixed.L0.H0", "no such head",
                 "cross.L0.H0");
  expect_refused(fixed(kBert, "L0.H0", "last"), "headwise.fixed.L0.H0", "not known", "window(n)");
  expect_refused(fixed(kBert, "L0.H0", "window(3"), "headwise.fixed.L0.H0", "not known", "window");
  expect_refused(fixed(kBert, "L0.H0", "window(-1)"), "headwise.fixed.L0.H0", "not known",
                 "from 1");
  expect_refused(fixed(kLlama, "L0.H0", "next"), "headwise.fixed.L0.H0",
                 "does not see the next token", "previous");
  expect_refused(fixed(kMarian, "cross.L0.H0", "previous"), "headwise.fixed.cross.L0.H0",
                 "not beside", "first");
  expect_refused(routing({{"shared", 1}}), "headwise.routing.active", "missing", "");
  expect_refused(routing({{"shared", 1}, {"active", 0}}), "headwise.routing.active",
                 "no such number", "from 1");
  expect_refused(routing({{"shared", 2}, {"active", 3}}), "headwise.routing.active",
                 "L0 has 4 learned heads, of which 2 are shared", "at most");
  expect_refused(routing({{"shared", 2}, {"active", 1}, {"balance", -1}}),
                 "headwise.routing.balance", "cannot be this", "0 or more");
  expect_refused(routing({{"shared", 2}, {"active", 1}, {"top", 1}}), "headwise.routing.top",
                 "not known", "one of shared");
}

TEST(ConfigErrors, AFieldThatIsNotUnderstood) {
  expect_refused(with(kBert, {{"attention_softcap", 30.0}}), "attention_softcap", "not understood",
                 "ignore it by its name");
  expect_refused(with(kBert, {{"quantization_config", {{"bits", 4}}}}), "quantization_config",
                 "not understood", "");
  expect_refused(with(kLlama, {{"sliding_window", 16}}), "sliding_window", "not understood", "");
  expect_refused(
      with(kLlama, {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2}, {"extra", 1}}}}),
      "rope_scaling.extra", "not understood", "one of attention_factor");
  EXPECT_NO_THROW(parse(with(kBert, {{"attention_softcap", nullptr}})));
  EXPECT_NO_THROW(
      parse(with(kBert, {{"attention_softcap", 30.0}}), {.ignore_fields = {"attention_softcap"}}));
}

TEST(ConfigErrors, VariantsThatAreNotSupported) {
  expect_refused(with(kBert, {{"is_decoder", true}}), "is_decoder", "not supported", "false");
  expect_refused(with(kBert, {{"add_cross_attention", true}}), "add_cross_attention",
                 "not supported", "false");
  expect_refused(with(kLlama, {{"rope_interleaved", true}}), "rope_interleaved", "not supported",
                 "false");
  expect_refused(of_type("qwen2", {{"use_mrope", true}}), "use_mrope", "not supported", "false");
  expect_refused(with(kMarian, {{"normalize_before", true}}), "normalize_before", "not supported",
                 "false");
}

TEST(ConfigErrors, RotaryPositions) {
  const auto rope = [](const json& scaling) { return with(kLlama, {{"rope_scaling", scaling}}); };
  expect_refused(rope({{"type", "linear"}}), "rope_scaling.factor", "missing", "");
  expect_refused(rope({{"type", "linear"}, {"factor", 0}}), "rope_scaling.factor", "out of range",
                 "above 0");
  expect_refused(rope({{"rope_type", "llama3"},
                       {"factor", 8},
                       {"low_freq_factor", 4},
                       {"high_freq_factor", 4}}),
                 "rope_scaling.high_freq_factor", "begin below", "above low_freq_factor");
  expect_refused(with(kLlama, {{"rope_theta", 0}}), "rope_theta", "out of range", "above 1");
  expect_refused(with(kLlama, {{"head_dim", 9}}), "rope_scaling", "odd number of columns", "even");
  expect_refused(with(kLlama, {{"partial_rotary_factor", 1.5}}), "", "not a fraction", "at most 1");
}

TEST(ConfigErrors, ListsThatAreNotOnePerLayer) {
  expect_refused(of_type("qwen3", {{"layer_types", {"full_attention"}}}), "layer_types",
                 "not one type per layer", "4 types");
  expect_refused(
      of_type("qwen3",
              {{"layer_types", {"full_attention", "full_attention", "mamba", "full_attention"}}}),
      "layer_types", "not known", "sliding_attention");
  expect_refused(of_type("smollm3", {{"no_rope_layers", {1, 0}}}), "no_rope_layers",
                 "not one number per layer", "4 numbers");
  expect_refused(
      of_type("qwen2",
              {{"num_key_value_heads", nullptr},
               {"layer_types",
                {"full_attention", "sliding_attention", "full_attention", "full_attention"}}}),
      "sliding_window", "no window is in use", "use_sliding_window");
}

TEST(ConfigErrors, LabelsThatAreNotNumbered) {
  expect_refused(with(kBert, {{"id2label", {{"0", "no"}, {"2", "yes"}}}}), "id2label.1", "missing",
                 "");
}

/// Layers whose rows see only so many keys back; the others see all.
std::map<int64_t, int64_t> windows(const json& config) {
  std::map<int64_t, int64_t> result;
  const ModelConfig parsed = parse(config);
  for (int64_t layer = 0; layer < parsed.decoder.layers(); ++layer) {
    const int64_t left = parsed.decoder.attention[layer].left;
    if (left != kUnlimited) result[layer] = left;
  }
  return result;
}

TEST(Config, WindowsFollowTheRulesOfEachArchitecture) {
  using Windows = std::map<int64_t, int64_t>;
  const json used = {{"use_sliding_window", true}, {"sliding_window", 8}};
  EXPECT_EQ(windows(of_type("mistral", {{"sliding_window", 8}})),
            (Windows{{0, 7}, {1, 7}, {2, 7}, {3, 7}}));
  EXPECT_EQ(windows(of_type("mistral", {{"sliding_window", nullptr}})), Windows{});
  EXPECT_EQ(windows(of_type("mistral")), (Windows{{0, 4095}, {1, 4095}, {2, 4095}, {3, 4095}}));
  EXPECT_EQ(windows(of_type("qwen2", {{"sliding_window", 8}})), Windows{});
  EXPECT_EQ(windows(of_type("qwen2", with(used, {{"max_window_layers", 3}}))), (Windows{{3, 7}}));
  EXPECT_EQ(windows(of_type("qwen3", with(used, {{"max_window_layers", 0}}))).size(), 4u);
  EXPECT_EQ(windows(of_type("qwen3", used)), Windows{});  // from layer 28
  EXPECT_EQ(windows(of_type("smollm3", with(used, {{"no_rope_layers", {1, 0, 1, 0}}}))),
            (Windows{{1, 7}, {3, 7}}));
  const json types = {"full_attention", "sliding_attention", "full_attention", "full_attention"};
  EXPECT_EQ(windows(of_type("qwen3", with(used, {{"layer_types", types}}))), (Windows{{1, 7}}));
}

TEST(Config, DefaultsAreThoseOfTransformers) {
  json bert = kBert;
  bert.erase("layer_norm_eps");
  for (const char* type : {"bert", "roberta", "xlm-roberta", "mpnet"}) {
    EXPECT_EQ(parse(with(bert, {{"model_type", type}, {"architectures", nullptr}})).epsilon, 1e-12f)
        << type;
  }
  EXPECT_EQ(parse(kLlama).epsilon, 1e-6f);
  EXPECT_FALSE(parse(kLlama).tied);
  EXPECT_TRUE(parse(of_type("smollm3")).tied);
  EXPECT_EQ(parse(of_type("qwen3")).decoder.head_dim, 128);
  json without = kLlama;
  without.erase("num_key_value_heads");
  EXPECT_EQ(parse(without).decoder.kv_heads, 4);
  without["model_type"] = "mistral";
  without["architectures"] = nullptr;
  expect_refused(without, "num_key_value_heads", "a field is missing", "");
  EXPECT_EQ(parse(with(without, {{"num_key_value_heads", nullptr}})).decoder.kv_heads, 4);
  // MPNet's positions begin after 1, whatever is said to be padding.
  EXPECT_EQ(
      parse(with(kBert, {{"model_type", "mpnet"}, {"architectures", nullptr}, {"pad_token_id", 5}}))
          .position_offset,
      2);
  EXPECT_EQ(
      parse(
          with(kBert, {{"model_type", "roberta"}, {"architectures", nullptr}, {"pad_token_id", 5}}))
          .position_offset,
      6);
}

}  // namespace
}  // namespace headwise
