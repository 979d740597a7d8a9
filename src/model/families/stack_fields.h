// The fields of config.json that describe a stack, by the names that an architecture has for them.
#pragma once

#include <cstdint>
#include <optional>

#include "model/config_fields.h"

namespace headwise {

// Far above any model; what they bound is laid out before a tensor is seen.
inline constexpr int64_t kMostHeads = 1024, kWidestHead = 1 << 16;

struct StackFields {
  const char* layers;
  const char* heads;
};

/// A stack whose heads divide the width, unless they have a width of their own.
StackConfig read_stack(ConfigFields& fields, const ModelConfig& config, const StackFields& names,
                       bool causal, std::optional<int64_t> head_dim = {},
                       std::optional<int64_t> kv_heads = {});

}  // namespace headwise
