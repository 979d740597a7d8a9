// All layers of a model: its stacks and its output layer. It runs, and is trained with tapes.
#pragma once

#include <string>
#include <vector>

#include "headwise/model/config.h"
#include "headwise/model/model.h"
#include "model/stack.h"
#include "model/task_head.h"
#include "model/weight_source.h"

namespace headwise {

struct Transformer {
  /// `prefix`: of the base model's tensors. `fresh_output`: the checkpoint has no such layer.
  Transformer(ModelConfig config, WeightSource& source, const std::string& prefix,
              bool fresh_output);
  Transformer(const Transformer&) = delete;  // its layers point to its config and its sites
  Transformer& operator=(const Transformer&) = delete;

  /// The stack that hidden states of a text come from: the encoder, if there is one.
  const Stack& first() const { return config.encoder.layers() > 0 ? encoder : decoder; }

  const Stack& stack(Side side) const { return side == Side::encoder ? encoder : decoder; }
  const AttentionLayer& layer(const AttentionSite& site) const;

  ModelConfig config;
  std::vector<AttentionSite> sites;
  Stack encoder, decoder;
  TaskHead head;
};

}  // namespace headwise
