// Loading a model with its tokenizer, and setting its gates.
#include <fmt/format.h>

#include <charconv>
#include <future>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/io/model_folder.h"
#include "headwise/observe/match.h"
#include "inputs.h"
#include "model/stack_layout.h"

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

/// The last part of a folder's path, or an id as it was given.
std::string name_of(const std::string& model) {
  if (!std::filesystem::is_directory(model)) return model;
  const std::filesystem::path folder = std::filesystem::absolute(model).lexically_normal();
  return (folder.has_filename() ? folder : folder.parent_path()).filename().string();
}

/// Both at once: each takes a good part of the time to the first result.
Model load_both(const std::filesystem::path& folder, const LoadOptions& options,
                std::optional<Tokenizer>& tokenizer) {
  std::future<std::optional<Tokenizer>> reading =
      std::async(std::launch::async, [&folder] { return Tokenizer::find(folder); });
  Model model = Model::load(folder, options);
  tokenizer = reading.get();
  return model;
}

}  // namespace

Session::Loaded::Loaded(const InputOptions& options)
    : name(name_of(options.model)),
      folder(find_model(options.model)),
      load({.allow_nonfinite = options.allow_nonfinite}),
      model(load_both(folder, load, tokenizer)) {}

Session::Session(const InputOptions& options) : loaded_(std::make_shared<Loaded>(options)) {
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
  const AttentionSite& site = *site_of_head(model().attentions(), mean_heads_.front());
  throw Error(
      {.what = fmt::format("mean ablation {}", why),
       .where = fmt::format("--gate {}=mean", site.head_name(mean_heads_.front() - site.first)),
       .expected = "a number from 0 (the head is ablated) to 1 (as it is)"});
}

void check_same_vocabulary(const Session& a, const Session& b) {
  if (a.tokenizer() != nullptr && b.tokenizer() != nullptr) {
    check_same_tokens(*a.tokenizer(), *b.tokenizer(), b.folder().string());
  } else if (a.config().vocabulary != b.config().vocabulary) {
    throw Error({.what = "the models do not have the same tokens",
                 .where = b.folder().string(),
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
