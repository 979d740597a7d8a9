// What weights are before training: random numbers, as transformers draws them for each
// architecture.
#pragma once

#include <cstdint>
#include <string_view>

#include "headwise/model/config.h"
#include "train/parameter_list.h"

namespace headwise {

/// Standard deviations of the weights of one architecture at their start.
struct InitStd {
  double word = 0, position = 0;  // of embeddings; token types are like positions
  double relative = 0;
  double query = 0, key_value = 0, attention_output = 0;
  double up = 0, down = 0;  // of feed-forward layers
  double output = 0;        // of the output layer, and anything else
};

/// By the fields of config.json, or the defaults of the architecture.
InitStd read_init_std(const ModelConfig& config, std::string_view config_json);

/// Fills a tensor by its Init; every tensor has a random stream of its own, by its name.
void initialise(const ParameterList::Tensor& tensor, uint64_t seed);

}  // namespace headwise
