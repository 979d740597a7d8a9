// A summary of a model folder from config.json and the tensor headers, without loading weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "headwise/model/config.h"
#include "headwise/model/model.h"
#include "headwise/model/multi_head_attention.h"

namespace headwise {

/// One attention and what it holds: its projections and their biases.
struct AttentionSummary {
  AttentionSite site{};
  MultiHeadAttentionConfig shape{};
  std::optional<RoutingConfig> routing{};
  int64_t parameters = 0;          // with those of a router
  int64_t head_parameters = 0;     // what goes with one learned head: keys and values if its own
  int64_t kv_head_parameters = 0;  // of a key/value head that several heads share; else 0
};

struct ModelSummary {
  ModelConfig config{};
  std::vector<AttentionSummary> attentions{};
  int64_t parameters = 0;  // each once, however often it is stored; buffers are none
  int64_t attention_parameters = 0;
  std::string dtype{};  // of the most parameters: "float16"
  int64_t bytes = 0;    // of the files with weights
};

ModelSummary summarize(const std::filesystem::path& folder);

}  // namespace headwise
