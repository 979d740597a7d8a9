// What BERT shares with the encoders that descend from it.
#pragma once

#include <string_view>

#include "model/families/family.h"

namespace headwise {

/// Sizes, activation, learned positions and the stack; what follows is each family's own.
void read_bert_fields(ConfigFields& fields, ModelConfig& config);

WeightNames bert_names(std::string_view prefix);

inline constexpr std::string_view kPositionIds = "embeddings.position_ids";  // a buffer

}  // namespace headwise
