// Draws the first weights of a model.
#include "train/initialise.h"

#include <cmath>

#include "headwise/core/random.h"
#include "io/json.h"

namespace headwise {
namespace {

uint64_t stream_of(std::string_view name) {  // FNV-1a
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

double positive(const JsonObject& object, const char* field, double otherwise) {
  const double value = object.optional_number(field).value_or(otherwise);
  if (!(value >= 0) || !std::isfinite(value)) {
    object.refuse(field, "a standard deviation cannot be negative", "0 or more");
  }
  return value;
}

InitStd t5_init_std(const ModelConfig& config, double factor) {
  const StackConfig& stack = config.encoder;
  const auto C = static_cast<double>(config.width), D = static_cast<double>(stack.head_dim);
  const double wide = factor / std::sqrt(C);
  return {.word = factor,
          .position = factor,
          .relative = wide,
          .query = wide / std::sqrt(D),
          .key_value = wide,
          .attention_output = factor / std::sqrt(static_cast<double>(stack.heads) * D),
          .up = wide,
          .down = factor / std::sqrt(static_cast<double>(stack.intermediate)),
          .output = factor};
}

}  // namespace

InitStd read_init_std(const ModelConfig& config, std::string_view config_json) {
  const nlohmann::json json = parse_json(config_json, "config.json");
  const JsonObject object(json, "config.json");
  if (config.model_type == "t5") {
    return t5_init_std(config, positive(object, "initializer_factor", 1));
  }
  const char* const field = object.has("initializer_range") ? "initializer_range" : "init_std";
  const double all = positive(object, field, 0.02);
  // GPT-2 accounts for the sum of two branches per layer.
  const double branch =
      config.model_type == "gpt2"
          ? all / std::sqrt(2 * static_cast<double>(std::max<int64_t>(1, config.decoder.layers())))
          : all;
  return {.word = all,
          .position = all,
          .relative = all,
          .query = all,
          .key_value = all,
          .attention_output = branch,
          .up = all,
          .down = branch,
          .output = all};
}

void initialise(const ParameterList::Tensor& tensor, uint64_t seed) {
  Random random(seed, stream_of(tensor.stored.name));
  const auto next = [&]() -> float {
    switch (tensor.init.kind) {
      case Init::Kind::zeros:
        return 0;
      case Init::Kind::ones:
        return 1;
      case Init::Kind::normal:
        return tensor.init.deviation * random.normal();
    }
    return 0;
  };
  int64_t stored_row = 0;
  for (const TensorPart& part : tensor.stored.parts) {
    for (int64_t row = 0; row < part.values.extent(0); ++row, ++stored_row) {
      for (int64_t column = 0; column < part.values.extent(1); ++column) {
        const float value = next();
        part.values(row, column) = stored_row == tensor.init.zero_row ? 0 : value;
      }
    }
  }
}

}  // namespace headwise
