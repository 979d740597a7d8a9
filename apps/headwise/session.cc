// Loading a model with its tokenizer, and setting its gates.
#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/observe/match.h"
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
          load(options.model, {.allow_nonfinite = options.allow_nonfinite}))) {
  for (const std::string& gate : options.gates) {
    const size_t equals = gate.rfind('=');
    if (equals == std::string::npos) {
      usage_error(fmt::format("--gate {}: expected HEADS=VALUE, for instance L0.H1=0", gate));
    }
    const std::string_view heads = std::string_view(gate).substr(0, equals);
    const std::string_view value = std::string_view(gate).substr(equals + 1);
    const bool mean = value == "mean";
    set_gate(model(), heads, mean ? 1 : gate_value(gate, value), gates_);
    for (const HeadIndex head : model().find_heads(heads)) {
      const int64_t number = model().attentions()[head.site].first + head.index;
      std::erase(mean_heads_, number);
      if (mean) mean_heads_.push_back(number);
    }
  }
}

void Session::measure_means(const ObservedCorpus& corpus) {
  if (mean_heads_.empty()) return;
  replaced_->outputs =
      mean_outputs(model(), corpus, mean_heads_, [](int64_t, int64_t) { throw_if_interrupted(); });
  replaced_->observer = ReplacedHeads(replaced_->outputs);
}

void Session::measure_means(std::span<const Input> inputs) {
  if (mean_heads_.empty()) return;
  ObservedCorpus corpus;
  for (const Input& input : inputs) {
    corpus.texts.push_back({.ids = input.encoding.ids,
                            .types = input.encoding.type_ids,
                            .decoder_ids = input.decoder_ids});
  }
  measure_means(corpus);
}

void Session::refuse_means(const std::string& why) const {
  if (mean_heads_.empty()) return;
  throw Error({.what = fmt::format("mean ablation {}", why),
               .where = fmt::format("--gate {}=mean", model().head_name(mean_heads_.front())),
               .expected = "a number from 0 (the head is ablated) to 1 (as it is)"});
}

void check_same_vocabulary(const Session& a, const Session& b) {
  if (a.tokenizer() != nullptr && b.tokenizer() != nullptr) {
    check_same_tokens(*a.tokenizer(), *b.tokenizer(), b.model().folder().string());
  } else if (a.config().vocabulary != b.config().vocabulary) {
    throw Error({.what = "the models do not have the same tokens",
                 .where = b.model().folder().string(),
                 .got = fmt::format("{} tokens", b.config().vocabulary),
                 .expected = fmt::format("{}", a.config().vocabulary)});
  }
}

void set_gate(const Model& model, std::string_view heads, float value, std::vector<float>& gates) {
  if (gates.empty()) gates.assign(model.heads(), 1);
  for (const HeadIndex head : model.find_heads(heads)) {
    gates[model.attentions()[head.site].first + head.index] = value;
  }
}

Session Session::with(std::vector<float> gates, ForwardObserver* observer) const {
  Session other = *this;
  other.gates_ = std::move(gates);
  other.mean_heads_.clear();
  other.replaced_ = std::make_shared<Replaced>();
  other.observer_ = observer;
  return other;
}

std::vector<std::string> Session::tokens(std::span<const int32_t> ids) const {
  std::vector<std::string> tokens;
  for (const int32_t id : ids) {
    tokens.push_back(tokenizer() != nullptr ? tokenizer()->token(id) : std::to_string(id));
  }
  return tokens;
}

ForwardOptions Session::forward(ForwardObserver* observer) const {
  static Interruptible interruptible;
  if (observer == nullptr) observer = observer_;
  ForwardOptions options{.observer = observer == nullptr ? &interruptible : observer};
  if (!replaced_->outputs.empty()) {
    replaced_->observer.show(options.observer);
    options.observer = &replaced_->observer;
  }
  if (!gates_.empty()) options.gates = {gates_.data(), {1, std::ssize(gates_)}};
  return options;
}

}  // namespace headwise::program
