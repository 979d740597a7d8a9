// What weights are before training: how far random numbers are spread, as transformers draws them.
#pragma once

#include "headwise/model/config.h"
#include "io/json.h"

namespace headwise {

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
