// The families of architectures, and who reads the fields that only they have.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "model/config_fields.h"

namespace headwise {

/// What the classes of a family are called after its name, and what they are for.
using Classes = std::map<std::string_view, Task>;

// Far above any model; what they bound is laid out before a tensor is seen.
inline constexpr int64_t kMostHeads = 1024, kWidestHead = 1 << 16;

struct Family {
  const char* name;  // in the names of classes: "Bert" in BertForMaskedLM
  const Classes& classes;
  void (*read)(ConfigFields&, ModelConfig&);
};

/// By "model_type".
const std::map<std::string_view, Family>& families();

}  // namespace headwise
