// Pooling, dense layers and normalisation of sentence embeddings.
#include "headwise/model/sentence_embedding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "headwise/core/error.h"
#include "headwise/io/tensor_file.h"
#include "io/file.h"
#include "io/json.h"
#include "model/layers.h"
#include "model/pooling.h"
#include "model/weight_reader.h"

namespace headwise {
namespace {

struct Pooling {
  std::vector<Pool> modes{};
};
struct Dense {
  Linear linear;
  Activation activation = Activation::none;
};
struct Normalize {};
using Module = std::variant<Pooling, Dense, Normalize>;

Activations pool(View<const float, 2> hidden, std::span<const int64_t> offsets,
                 const Pooling& pooling) {
  const int64_t B = std::ssize(offsets) - 1, C = hidden.extent(1);
  Activations pooled(B, C * std::ssize(pooling.modes));
  for (int64_t b = 0; b < B; ++b) {
    if (offsets[b] == offsets[b + 1]) {
      throw Error(
          {.what = "a text without tokens has no embedding", .where = fmt::format("text {}", b)});
    }
    for (size_t m = 0; m < pooling.modes.size(); ++m) {
      pool(hidden.rows(offsets[b], offsets[b + 1]), pooling.modes[m], &pooled.rows(b, m * C));
    }
  }
  return pooled;
}

void normalize(View<float, 2> rows) {
  for (int64_t b = 0; b < rows.extent(0); ++b) {
    double squares = 0;
    for (int64_t c = 0; c < rows.extent(1); ++c) squares += double{rows(b, c)} * rows(b, c);
    const double norm = std::max(std::sqrt(squares), 1e-12);
    for (int64_t c = 0; c < rows.extent(1); ++c) {
      rows(b, c) = static_cast<float>(rows(b, c) / norm);
    }
  }
}

Dense read_dense(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  const nlohmann::json json = read_json(file);
  const JsonObject object(json, file.string());
  const std::string activation = object.optional_text("activation_function").value_or("");
  Dense dense;
  if (activation.ends_with(".Tanh")) {
    dense.activation = Activation::tanh;
  } else if (activation.ends_with(".ReLU")) {
    dense.activation = Activation::relu;
  } else if (activation.ends_with(".GELU")) {
    dense.activation = Activation::gelu;
  } else if (!activation.empty() && !activation.ends_with(".Identity")) {
    object.refuse("activation_function", "the activation function is not known",
                  "Identity, Tanh, ReLU or GELU of torch.nn.modules");
  }
  WeightReader reader(TensorFiles::open(folder), {});
  const bool bias = object.optional_boolean("bias").value_or(true);
  dense.linear = Linear(reader, {"linear.weight", bias ? "linear.bias" : ""},
                        object.integer("out_features", 1), object.integer("in_features", 1));
  return dense;
}

Module read_module(const JsonObject& module, const std::filesystem::path& folder) {
  const std::string type = module.text("type");
  const auto inside =
      std::filesystem::path(module.optional_text("path").value_or("")).lexically_normal();
  if (inside.is_absolute() || (!inside.empty() && *inside.begin() == "..")) {
    module.refuse("path", "a module lies outside the model's folder", "a folder inside it");
  }
  const std::filesystem::path path = folder / inside;
  if (type.ends_with(".Pooling")) return Pooling{read_pooling(path)};
  if (type.ends_with(".Dense")) return read_dense(path);
  if (type.ends_with(".Normalize")) return Normalize{};
  module.refuse("type", "a module of the sentence embedding is not known",
                "Transformer, Pooling, Dense or Normalize of sentence_transformers");
}

}  // namespace

struct SentencePooling::Parts {
  std::vector<Module> modules;
  std::optional<int64_t> max_tokens;
};

SentencePooling::SentencePooling(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
SentencePooling::SentencePooling(SentencePooling&&) noexcept = default;
SentencePooling& SentencePooling::operator=(SentencePooling&&) noexcept = default;
SentencePooling::~SentencePooling() = default;

std::optional<SentencePooling> SentencePooling::find(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "modules.json";
  if (!is_there(file)) return std::nullopt;
  const nlohmann::json json = nlohmann::json{{"modules", read_json(file)}};
  auto parts = std::make_unique<Parts>();
  for (const JsonObject& module : JsonObject(json, file.string()).objects("modules")) {
    if (module.text("type").ends_with(".Transformer")) continue;  // the model itself
    parts->modules.push_back(read_module(module, folder));
  }
  const std::filesystem::path limits = folder / "sentence_bert_config.json";
  if (is_there(limits)) {
    const nlohmann::json values = read_json(limits);
    parts->max_tokens = JsonObject(values, limits.string()).optional_integer("max_seq_length", 1);
  }
  if (parts->modules.empty() || !std::holds_alternative<Pooling>(parts->modules.front())) {
    throw Error({.what = "the sentence embedding pools no hidden states",
                 .where = file.string(),
                 .expected = "a Pooling after the Transformer"});
  }
  return SentencePooling(std::move(parts));
}

SentencePooling SentencePooling::mean() {
  auto parts = std::make_unique<Parts>();
  parts->modules.push_back(Pooling{{Pool::mean}});
  return SentencePooling(std::move(parts));
}

std::optional<int64_t> SentencePooling::max_tokens() const { return parts_->max_tokens; }

Activations SentencePooling::embed(View<const float, 2> hidden,
                                   std::span<const int64_t> offsets) const {
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != hidden.extent(0) ||
      !std::ranges::is_sorted(offsets)) {
    throw Error({.what = "the offsets of texts do not cover their hidden states",
                 .where = "embed",
                 .got = fmt::format("[{}]", fmt::join(offsets, ", ")),
                 .expected = fmt::format("ascending from 0 to {}", hidden.extent(0))});
  }
  Activations x;
  for (const Module& module : parts_->modules) {
    if (const auto* pooling = std::get_if<Pooling>(&module)) {
      x = pool(hidden, offsets, *pooling);
    } else if (const auto* dense = std::get_if<Dense>(&module)) {
      Activations next(x.rows.extent(0), dense->linear.outputs());
      dense->linear(x.rows, next.rows, {.activation = dense->activation});
      x = std::move(next);
    } else {
      normalize(x.rows);
    }
  }
  return x;
}

}  // namespace headwise
