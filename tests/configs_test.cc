// The config.json of published models (tests/configs): each must be read, and mean what it means to
// transformers.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "golden/folder.h"
#include "headwise/model/config.h"

namespace headwise {
namespace {

ModelConfig published(const std::string& name) {
  const auto file = golden_folder().parent_path() / "configs" / name;
  std::ostringstream text;
  text << std::ifstream(file.string() + ".json").rdbuf();
  return parse_config(text.str(), name);
}

struct ExpectedConfig {
  const char* name;
  Task task;
  int64_t encoder_layers, decoder_layers;
  int64_t heads, kv_heads, head_dim;
  int64_t width, intermediate, vocabulary, positions;
  double epsilon;
  bool tied;
};

constexpr Task kMasked = Task::masked_lm, kCausal = Task::causal_lm, kTwo = Task::seq2seq_lm;

// clang-format off
const std::vector<ExpectedConfig> kPublished = {
    //                                    layers   heads, kv, width     width  inner  vocabulary positions eps
    {"bert-base-uncased",            kMasked, 12, 0, 12, 12, 64,   768,  3072,  30522,    512, 1e-12, true},
    {"bert-base-multilingual-cased", kMasked, 12, 0, 12, 12, 64,   768,  3072, 119547,    512, 1e-12, true},
    {"all-MiniLM-L6-v2",        Task::hidden,  6, 0, 12, 12, 32,   384,  1536,  30522,    512, 1e-12, true},
    {"ms-marco-MiniLM-L6-v2", Task::classify,  6, 0, 12, 12, 32,   384,  1536,  30522,    512, 1e-12, true},
    {"roberta-base",                 kMasked, 12, 0, 12, 12, 64,   768,  3072,  50265,    512, 1e-5, true},
    {"xlm-roberta-base",             kMasked, 12, 0, 12, 12, 64,   768,  3072, 250002,    512, 1e-5, true},
    {"distilbert-base-uncased",      kMasked,  6, 0, 12, 12, 64,   768,  3072,  30522,    512, 1e-12, true},
    {"distilbert-base-uncased-finetuned-sst-2-english",
                              Task::classify,  6, 0, 12, 12, 64,   768,  3072,  30522,    512, 1e-12, true},
    {"electra-small-discriminator", Task::detect, 12, 0, 4, 4, 64, 256,  1024,  30522,    512, 1e-12, true},
    {"danish-electra-small-cased", Task::detect, 12, 0, 4, 4, 64,  256,  1024,  32000,    512, 1e-12, true},
    {"mpnet-base",                   kMasked, 12, 0, 12, 12, 64,   768,  3072,  30527,    512, 1e-5, true},
    {"all-mpnet-base-v2",            kMasked, 12, 0, 12, 12, 64,   768,  3072,  30527,    512, 1e-5, true},
    {"gpt2",                         kCausal, 0, 12, 12, 12, 64,   768,  3072,  50257,   1024, 1e-5, true},
    {"pythia-70m",                   kCausal, 0,  6,  8,  8, 64,   512,  2048,  50304,   2048, 1e-5, false},
    {"Llama-2-7b-hf",                kCausal, 0, 32, 32, 32, 128, 4096, 11008,  32000,   4096, 1e-5, false},
    {"Llama-3.1-8B",                 kCausal, 0, 32, 32,  8, 128, 4096, 14336, 128256, 131072, 1e-5, false},
    {"Llama-3.1-8B-Instruct",        kCausal, 0, 32, 32,  8, 128, 4096, 14336, 128256, 131072, 1e-5, false},
    {"Llama-3.2-1B",                 kCausal, 0, 16, 32,  8,  64, 2048,  8192, 128256, 131072, 1e-5, true},
    {"Mistral-7B-v0.1",              kCausal, 0, 32, 32,  8, 128, 4096, 14336,  32000,  32768, 1e-5, false},
    {"Mistral-7B-v0.3",              kCausal, 0, 32, 32,  8, 128, 4096, 14336,  32768,  32768, 1e-5, false},
    {"Qwen2-0.5B",                   kCausal, 0, 24, 14,  2,  64,  896,  4864, 151936, 131072, 1e-6, true},
    {"Qwen2.5-7B",                   kCausal, 0, 28, 28,  4, 128, 3584, 18944, 152064, 131072, 1e-6, false},
    {"Qwen3-0.6B",                   kCausal, 0, 28, 16,  8, 128, 1024,  3072, 151936,  40960, 1e-6, true},
    {"SmolLM-135M",                  kCausal, 0, 30,  9,  3,  64,  576,  1536,  49152,   2048, 1e-5, true},
    {"SmolLM2-135M",                 kCausal, 0, 30,  9,  3,  64,  576,  1536,  49152,   8192, 1e-5, true},
    {"SmolLM3-3B",                   kCausal, 0, 36, 16,  4, 128, 2048, 11008, 128256,  65536, 1e-6, true},
    {"opus-mt-en-de",                   kTwo, 6,  6,  8,  8,  64,  512,  2048,  58101,    512, 1e-5, true},
    {"t5-small",                        kTwo, 6,  6,  8,  8,  64,  512,  2048,  32128,      0, 1e-6, true},
    {"t5-v1_1-small",                   kTwo, 8,  8,  6,  6,  64,  512,  1024,  32128,      0, 1e-6, false},
    {"flan-t5-small",                   kTwo, 8,  8,  6,  6,  64,  512,  1024,  32128,      0, 1e-6, false},
};
// clang-format on

TEST(Configs, OfPublishedModels) {
  for (const ExpectedConfig& expected : kPublished) {
    SCOPED_TRACE(expected.name);
    const ModelConfig config = published(expected.name);
    EXPECT_EQ(config.task, expected.task);
    EXPECT_EQ(config.encoder.layers(), expected.encoder_layers);
    EXPECT_EQ(config.decoder.layers(), expected.decoder_layers);
    EXPECT_EQ(config.width, expected.width);
    EXPECT_EQ(config.vocabulary, expected.vocabulary);
    EXPECT_EQ(config.max_positions, expected.positions);
    EXPECT_EQ(config.epsilon, static_cast<float>(expected.epsilon));
    EXPECT_EQ(config.tied, expected.tied);
    for (const StackConfig* stack : {&config.encoder, &config.decoder}) {
      if (stack->layers() == 0) continue;
      EXPECT_EQ(stack->causal, stack == &config.decoder);
      EXPECT_EQ(stack->heads, expected.heads);
      EXPECT_EQ(stack->kv_heads, expected.kv_heads);
      EXPECT_EQ(stack->head_dim, expected.head_dim);
      EXPECT_EQ(stack->intermediate, expected.intermediate);
      for (const AttentionConfig& attention : stack->attention) {
        ASSERT_EQ(std::ssize(attention.heads), expected.heads);
        ASSERT_EQ(std::ssize(attention.kv_heads), expected.kv_heads);
        EXPECT_EQ(attention.kv_head.back(), expected.kv_heads - 1);
      }
    }
    EXPECT_EQ(config.encoder_decoder(), expected.task == kTwo);
    EXPECT_EQ(std::ssize(config.decoder.cross),
              config.encoder_decoder() ? expected.decoder_layers : 0);
  }
}

TEST(Configs, EncodersHaveTheirPositionsAndTypes) {
  const ModelConfig bert = published("bert-base-uncased");
  EXPECT_EQ(bert.positions, PositionKind::learned);
  EXPECT_EQ(bert.position_offset, 0);
  EXPECT_EQ(bert.token_types, 2);
  EXPECT_EQ(bert.norm_place, NormPlace::after);
  for (const char* name : {"roberta-base", "xlm-roberta-base", "mpnet-base"}) {
    EXPECT_EQ(published(name).position_offset, 2) << name;
    EXPECT_EQ(published(name).pad, 1) << name;
  }
  EXPECT_EQ(published("roberta-base").token_types, 1);
  EXPECT_EQ(published("mpnet-base").token_types, 0);
  EXPECT_EQ(published("mpnet-base").relative.buckets, 32);
  EXPECT_EQ(published("electra-small-discriminator").embedding_width, 128);
}

TEST(Configs, ClassifiersHaveTheirLabels) {
  const ModelConfig sentiment = published("distilbert-base-uncased-finetuned-sst-2-english");
  EXPECT_EQ(sentiment.labels, (std::vector<std::string>{"NEGATIVE", "POSITIVE"}));
  EXPECT_FALSE(sentiment.regression);
  EXPECT_TRUE(published("ms-marco-MiniLM-L6-v2").regression);
}

TEST(Configs, DecodersHaveTheirBiasesNormsAndWindows) {
  EXPECT_EQ(published("gpt2").activation, Activation::gelu_tanh);
  EXPECT_EQ(published("gpt2").eos, std::vector<int32_t>{50256});
  const ModelConfig pythia = published("pythia-70m");
  EXPECT_TRUE(pythia.parallel);
  EXPECT_EQ(pythia.rotary.width, 16);
  EXPECT_FALSE(published("Llama-2-7b-hf").projection_bias);
  EXPECT_EQ(published("Llama-3.1-8B-Instruct").eos, (std::vector<int32_t>{128001, 128008, 128009}));
  EXPECT_EQ(published("Mistral-7B-v0.1").decoder.attention[31].left, 4095);
  EXPECT_EQ(published("Mistral-7B-v0.3").decoder.attention[31].left, kUnlimited);
  const ModelConfig qwen2 = published("Qwen2-0.5B");
  EXPECT_TRUE(qwen2.projection_bias);
  EXPECT_FALSE(qwen2.output_bias);
  EXPECT_EQ(qwen2.decoder.attention[23].left, kUnlimited);
  EXPECT_TRUE(published("Qwen3-0.6B").qk_norm);
  const ModelConfig smollm = published("SmolLM3-3B");
  for (int64_t layer = 0; layer < 36; ++layer) {
    EXPECT_EQ(smollm.decoder.attention[layer].rotary, layer % 4 != 3) << layer;
    EXPECT_EQ(smollm.decoder.attention[layer].left, kUnlimited);
  }
}

void expect_frequencies(const RotaryConfig& rotary, const std::vector<double>& expected) {
  const auto& f = rotary.inverse_frequencies;
  const std::vector<float> got = {f[0], f[1], f[f.size() / 2], f[f.size() - 10], f.back()};
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], 2e-7 * expected[i]) << i;
  }
}

TEST(Configs, RotaryFrequenciesAreThoseOfTransformers) {
  expect_frequencies(published("Llama-3.1-8B").rotary,
                     {1, 0.8146172165870667, 0.0005248460220173001, 1.9426925064180978e-06,
                      3.068925877869333e-07});
  expect_frequencies(
      published("Llama-3.2-1B").rotary,
      {1, 0.663601279258728, 0.000429556705057621, 3.7740544485131977e-06, 9.418306490260875e-08});
  const std::string yarn = R"({"model_type": "qwen2", "hidden_size": 3584, "vocab_size": 10,
      "num_hidden_layers": 1, "num_attention_heads": 28, "num_key_value_heads": 4,
      "intermediate_size": 8, "max_position_embeddings": 131072, "rope_theta": 1000000.0,
      "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}})";
  const RotaryConfig scaled = parse_config(yarn, "qwen").rotary;
  expect_frequencies(scaled, {1, 0.8058422207832336, 0.0006029411451891065, 2.1649109385180054e-06,
                              3.102344408034696e-07});
  EXPECT_NEAR(scaled.attention_factor, 1.138629436111989, 1e-12);
}

TEST(Configs, EncoderDecodersHaveTheirScalesAndTokens) {
  const ModelConfig marian = published("opus-mt-en-de");
  EXPECT_EQ(marian.embedding_scale, std::sqrt(512.f));
  EXPECT_EQ(marian.positions, PositionKind::sinusoidal);
  EXPECT_EQ(marian.activation, Activation::silu);
  EXPECT_EQ(marian.decoder_start, 58100);
  EXPECT_EQ(marian.forced_eos, 0);
  EXPECT_EQ(marian.decoder_vocabulary, 58101);
  const ModelConfig t5 = published("t5-small"), newer = published("flan-t5-small");
  EXPECT_EQ(t5.output_scale, 1 / std::sqrt(512.f));
  EXPECT_FALSE(t5.glu);
  EXPECT_EQ(t5.activation, Activation::relu);
  EXPECT_EQ(newer.output_scale, 1);
  EXPECT_TRUE(newer.glu);
  EXPECT_EQ(newer.activation, Activation::gelu_tanh);
  for (const ModelConfig* config : {&t5, &newer}) {
    EXPECT_EQ(config->encoder.attention[0].scale, 1);
    EXPECT_EQ(config->decoder.cross[0].scale, 1);
    EXPECT_EQ(config->relative.buckets, 32);
    EXPECT_EQ(config->relative.max_distance, 128);
  }
}

}  // namespace
}  // namespace headwise
