// What weights are before training: how far random numbers are spread, as transformers draws them.
#pragma once

#include <cstdint>
#include <string_view>

#include "headwise/io/json.h"
#include "headwise/model/config.h"

namespace headwise {

/// Initialisation of a tensor in a new model.
struct Init {
  enum class Kind { zeros, ones, normal };
  Kind kind = Kind::zeros;
  float deviation = 0;    // of the normal distribution
  int64_t zero_row = -1;  // that of padding, or none

  static Init zeros() { return {}; }
  static Init ones() { return {.kind = Kind::ones}; }
  static Init normal(double deviation, int64_t zero_row = -1) {
    return {Kind::normal, static_cast<float>(deviation), zero_row};
  }
};

/// Standard deviations of the weights of a new model.
struct InitStd {
  double word = 0, position = 0;  // of embeddings; token types are like positions
  double relative = 0;
  double query = 0, key_value = 0, attention_output = 0;
  double up = 0, down = 0;  // of feed-forward layers
  double output = 0;        // of the output layer, and anything else
};

/// "initializer_range" or "init_std" of config.json for all weights.
InitStd usual_init_std(const ModelConfig& config, const JsonObject& json);

/// A field that scales standard deviations. Throws Error for a negative one.
double read_init_scale(const JsonObject& json, const char* field, double otherwise);

/// By the fields of config.json, or the defaults of the architecture.
InitStd read_init_std(const ModelConfig& config, std::string_view config_json);

}  // namespace headwise
