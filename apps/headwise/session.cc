// Loading a model with its tokenizer, and setting its gates.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "headwise/core/error.h"
#include "inputs.h"

namespace headwise::program {
namespace {

class Interruptible : public ForwardObserver {
  bool wants_heads() const override { return false; }
  void on_resid_post(Side, int64_t, View<const float, 2>) override { throw_if_interrupted(); }
};

float gate_value(std::string_view gate, std::string_view text) {
  float value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= 0 && value <= 1) {
    return value;
  }
  throw Error({.what = "a gate is not in range",
               .where = fmt::format("--gate {}", gate),
               .got = std::string(text),
               .expected = "a number from 0 (the head is ablated) to 1 (as it is), or mean"});
}

}  // namespace

Session::Session(const InputOptions& options)
    : model_(std::make_shared<const Model>(
          load(options.model, {.allow_nonfinite = options.allow_nonfinite}))),
      gates_(model()) {
  for (const std::string& gate : options.gates) {
    const size_t equals = gate.rfind('=');
    usage_error_if(equals == std::string::npos,
                   fmt::format("--gate {}: expected HEADS=VALUE, for instance L0.H1=0", gate));
    const std::string_view heads = std::string_view(gate).substr(0, equals);
    const std::string_view value = std::string_view(gate).substr(equals + 1);
    value == "mean" ? gates_.set_to_mean(heads) : gates_.set(heads, gate_value(gate, value));
  }
}

void Session::measure_means(const ObservedCorpus& corpus) {
  gates_.measure_means(corpus, [](int64_t, int64_t) { throw_if_interrupted(); });
}

void Session::measure_means(std::span<const Input> inputs) {
  if (gates_.mean_heads().empty()) return;
  ObservedCorpus corpus;
  for (const Input& input : inputs) {
    corpus.texts.push_back({.ids = input.encoding.ids,
                            .types = input.encoding.type_ids,
                            .decoder_ids = input.decoder_ids});
  }
  measure_means(corpus);
}

void Session::refuse_means(const std::string& why) const {
  const std::vector<int64_t>& heads = gates_.mean_heads();
  if (heads.empty()) return;
  throw Error({.what = fmt::format("mean ablation {}", why),
               .where = fmt::format("--gate {}=mean", model().head_name(heads.front())),
               .expected = "a number from 0 (the head is ablated) to 1 (as it is)"});
}

Session Session::with(HeadGates gates, ForwardObserver* observer) const {
  Session other = *this;
  other.gates_ = std::move(gates);
  other.observer_ = observer;
  return other;
}

std::vector<std::string> Session::tokens(std::span<const int32_t> ids) const {
  std::vector<std::string> tokens;
  for (const int32_t id : ids) tokens.push_back(token(id));
  return tokens;
}

std::string Session::token(int32_t id) const {
  return tokenizer() != nullptr ? tokenizer()->token(id) : std::to_string(id);
}

bool asks_decoder(const Model& model, const std::vector<HeadIndex>& heads) {
  return model.config().encoder_decoder() && std::ranges::any_of(heads, [&](const HeadIndex& head) {
           return model.attentions()[head.site].side == Side::decoder;
         });
}

std::vector<HeadArray> Session::record(const Input& input, const std::vector<HeadIndex>& heads,
                                       HeadArrayKind kind) const {
  HeadRecorder recorder(model(), heads, kind, throw_if_interrupted);
  TokenBatch batch, decoder;
  batch.add(input.encoding.ids, input.encoding.type_ids);
  if (!input.decoder_ids.empty() && asks_decoder(model(), heads)) {
    decoder.add(input.decoder_ids);
    (void)model().forward(batch, decoder, forward(&recorder));
  } else {
    (void)model().forward(batch, forward(&recorder));
  }
  return std::move(recorder.arrays);
}

ForwardOptions Session::forward(ForwardObserver* observer) const {
  static Interruptible interruptible;
  if (observer == nullptr) observer = observer_;
  return gates_.options(observer == nullptr ? &interruptible : observer);
}

}  // namespace headwise::program
