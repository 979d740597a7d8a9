// Loading a model with its tokenizer, and setting its gates.
#include <fmt/format.h>

#include <charconv>
#include <future>

#include "headwise/core/error.h"
#include "headwise/io/model_folder.h"
#include "inputs.h"

namespace headwise::program {
namespace {

class Interruptible : public ForwardObserver {
  void reached(Side, int64_t, View<const float, 2>) override { throw_if_interrupted(); }
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
               .expected = "a number from 0 (the head is off) to 1 (as it is)"});
}

/// Both at once: each takes a good part of the time to the first result.
Model load(const std::filesystem::path& folder, const LoadOptions& how,
           std::optional<Tokenizer>& tokenizer) {
  std::future<std::optional<Tokenizer>> reading =
      std::async(std::launch::async, [&folder] { return Tokenizer::find(folder); });
  Model model = Model::load(folder, how);
  tokenizer = reading.get();
  return model;
}

}  // namespace

Session::Session(const InputOptions& options)
    : folder_(find_model(options.model)),
      model_(load(folder_, {.allow_nonfinite = options.allow_nonfinite}, tokenizer_)) {
  set_gates(options.gates);
}

void Session::set_gates(const std::vector<std::string>& gates) {
  if (gates.empty()) return;
  gates_.assign(model_.heads(), 1);
  for (const std::string& gate : gates) {
    const size_t equals = gate.rfind('=');
    if (equals == std::string::npos) {
      misuse(fmt::format("--gate {}: expected HEADS=VALUE, for instance L0.H1=0", gate));
    }
    const float value = gate_value(gate, std::string_view(gate).substr(equals + 1));
    for (const HeadIndex head : model_.find_heads(std::string_view(gate).substr(0, equals))) {
      gates_[model_.attentions()[head.site].first + head.index] = value;
    }
  }
}

std::vector<std::string> Session::tokens(std::span<const int32_t> ids) const {
  std::vector<std::string> tokens;
  for (const int32_t id : ids) {
    tokens.push_back(tokenizer_ ? tokenizer_->token(id) : std::to_string(id));
  }
  return tokens;
}

ForwardOptions Session::forward(ForwardObserver* observer) const {
  static Interruptible interruptible;
  ForwardOptions options{.observer = observer == nullptr ? &interruptible : observer};
  if (!gates_.empty()) options.gates = {gates_.data(), {1, std::ssize(gates_)}};
  return options;
}

}  // namespace headwise::program
