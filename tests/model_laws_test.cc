// What holds for every model: texts do not see each other, threads change nothing, steps equal the
// whole pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "headwise/core/parallel.h"
#include "headwise/model/model.h"
#include "texts_testing.h"

namespace headwise {
namespace {

/// The largest difference that float32 may make, relative to the largest value.
constexpr double kLawTolerance = 2e-5;

std::vector<std::string> with_pruned(std::initializer_list<std::string> names) {
  std::vector<std::string> all;
  for (const std::string& name : names) {
    all.push_back(name);
    if (std::filesystem::exists(golden_model(name + "_pruned"))) all.push_back(name + "_pruned");
  }
  return all;
}

std::span<const int32_t> text_of(const TokenBatch& batch, int64_t b) {
  return std::span(batch.ids).subspan(batch.offsets[b], batch.offsets[b + 1] - batch.offsets[b]);
}

TokenBatch one_of(const TokenBatch& batch, int64_t b) {
  TokenBatch one;
  one.add(text_of(batch, b));
  return one;
}

void expect_rows(const Activations& all, int64_t begin, const Activations& expected,
                 int64_t expected_begin, int64_t count, const std::string& what) {
  const int64_t C = all.rows.extent(1);
  ASSERT_LE(begin + count, all.rows.extent(0)) << what;
  ASSERT_LE(expected_begin + count, expected.rows.extent(0)) << what;
  float largest = 0, error = 0;
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t c = 0; c < C; ++c) {
      const float got = all.rows(begin + i, c), want = expected.rows(expected_begin + i, c);
      largest = std::max(largest, std::abs(want));
      error = std::max(error, std::isnan(got) ? INFINITY : std::abs(got - want));
    }
  }
  EXPECT_LE(error, kLawTolerance * largest) << what;
}

const std::vector<int64_t> kLengths = {5, 1, 9, 2, 11, 4};
const std::vector<int64_t> kTargets = {3, 7, 1, 10, 2, 8};

class ModelLaws : public testing::TestWithParam<std::string> {
 protected:
  ModelLaws() : model_(load(golden_model(GetParam()))) {
    batch_ = texts_of(model_.config().vocabulary, kLengths, 1);
    target_ = texts_of(std::max(model_.config().decoder_vocabulary, int64_t{10}), kTargets, 50);
    // Text b has gates of its own.
    gates_.resize(batch_.sequences() * model_.heads());
    for (size_t i = 0; i < gates_.size(); ++i) gates_[i] = static_cast<float>(i * 7 % 5) / 4;
  }

  bool two() const { return model_.config().encoder_decoder(); }

  Activations run(const TokenBatch& batch, const TokenBatch& target,
                  const ForwardOptions& options = {}) const {
    return two() ? model_.forward(batch, target, options) : model_.forward(batch, options);
  }

  ForwardOptions gates_of(int64_t begin, int64_t count) const {
    return {.gates = {gates_.data() + begin * model_.heads(), {count, model_.heads()}}};
  }

  Model model_;
  TokenBatch batch_, target_;
  std::vector<float> gates_;
};

class DecoderLaws : public ModelLaws {};

TEST_P(ModelLaws, TextsDoNotSeeTheirNeighbours) {
  const std::vector<int64_t>& offsets = two() ? target_.offsets : batch_.offsets;
  const Activations together = run(batch_, target_);
  const Activations gated = run(batch_, target_, gates_of(0, batch_.sequences()));
  for (int64_t b = 0; b < batch_.sequences(); ++b) {
    const TokenBatch source = one_of(batch_, b), target = one_of(target_, b);
    const int64_t count = offsets[b + 1] - offsets[b];
    expect_rows(together, offsets[b], run(source, target), 0, count, "text " + std::to_string(b));
    expect_rows(gated, offsets[b], run(source, target, gates_of(b, 1)), 0, count,
                "gated text " + std::to_string(b));
  }
}

TEST_P(ModelLaws, ThreadsDoNotChangeABit) {
  const int before = threads();
  set_threads(1);
  const Activations one = run(batch_, target_);
  const size_t bytes = one.rows.extent(0) * one.rows.extent(1) * sizeof(float);
  for (const int count : {2, 3}) {
    set_threads(count);
    const Activations more = run(batch_, target_);
    EXPECT_EQ(std::memcmp(more.rows.data(), one.rows.data(), bytes), 0) << count << " threads";
  }
  set_threads(before);
}

TEST_P(DecoderLaws, StepsEqualTheWholePass) {
  const TokenBatch& texts = two() ? target_ : batch_;
  const int64_t B = texts.sequences();
  for (const bool gated : {false, true}) {
    const ForwardOptions options = gated ? gates_of(0, B) : ForwardOptions{};
    const Activations whole = run(batch_, target_, options);
    DecoderState state = model_.start(B, 11, two() ? batch_ : TokenBatch{}, options);
    // First some tokens at once, a different number of each text, then one by one; a text that is
    // at its end has no more.
    for (int64_t round = 0; round < 11; ++round) {
      TokenBatch step;
      std::vector<int64_t> begins;
      for (int64_t b = 0; b < B; ++b) {
        const auto text = text_of(texts, b);
        const int64_t begin = state.length(b);
        const int64_t wanted = round == 0 ? 1 + b % 3 : 1;
        begins.push_back(begin);
        step.add(text.subspan(begin, std::min(wanted, std::ssize(text) - begin)));
      }
      const Activations rows = model_.step(step, state, options);
      for (int64_t b = 0; b < B; ++b) {
        expect_rows(rows, step.offsets[b], whole, texts.offsets[b] + begins[b],
                    step.offsets[b + 1] - step.offsets[b], "text " + std::to_string(b));
      }
    }
    for (int64_t b = 0; b < B; ++b) EXPECT_EQ(state.length(b), std::ssize(text_of(texts, b)));
  }
}

TEST_P(DecoderLaws, ReorderedSequencesGoOnAsTheirOrigins) {
  TokenBatch sources, first, second;
  sources.add(text_of(batch_, 2));
  const std::vector<std::vector<int32_t>> begins = {{5, 6}, {7, 8}, {9, 5}};
  for (const auto& text : begins) first.add(text);
  for (const int32_t id : {6, 7, 8}) second.add(std::vector<int32_t>{id});
  // Three sequences of one source, as beams are.
  DecoderState state = model_.start(3, 4, two() ? sources : TokenBatch{});
  (void)model_.step(first, state);
  const std::vector<int64_t> from = {2, 0, 2};
  state.reorder(from);
  const Activations rows = model_.step(second, state);
  for (int64_t b = 0; b < 3; ++b) {
    std::vector<int32_t> text = begins[from[b]];
    text.push_back(second.ids[b]);
    TokenBatch whole;
    whole.add(text);
    expect_rows(rows, b, run(sources.sequences() > 0 && two() ? sources : whole, whole), 2, 1,
                "sequence " + std::to_string(b));
  }
}

const std::vector<std::string> kEncoders =
    with_pruned({"bert", "roberta", "xlm_roberta", "distilbert", "electra", "mpnet", "bert_fixed"});
const std::vector<std::string> kDecoders =
    with_pruned({"gpt2", "gpt_neox", "llama", "mistral", "qwen2", "qwen3", "smollm3", "marian",
                 "t5", "llama_fixed", "llama_routed", "gpt2_mixed", "marian_mixed"});

std::string law_name_of(const testing::TestParamInfo<std::string>& info) { return info.param; }

INSTANTIATE_TEST_SUITE_P(Encoders, ModelLaws, testing::ValuesIn(kEncoders), law_name_of);
INSTANTIATE_TEST_SUITE_P(Decoders, ModelLaws, testing::ValuesIn(kDecoders), law_name_of);
INSTANTIATE_TEST_SUITE_P(All, DecoderLaws, testing::ValuesIn(kDecoders), law_name_of);

}  // namespace
}  // namespace headwise
