// Output layers that several families share.
#pragma once

#include <string>

#include "headwise/model/config.h"
#include "model/weight_names.h"

namespace headwise {

/// "lm_head": the next token.
TaskNames lm_head(const ModelConfig& config, const std::string& prefix);

/// "score" at the last token, without a bias: decoders that classify texts.
TaskNames last_token_score(const ModelConfig& config, const std::string& prefix);

/// "score" or "classifier" at every token.
TaskNames token_score(const ModelConfig& config, const std::string& prefix);
TaskNames token_classifier(const ModelConfig& config, const std::string& prefix);

/// "qa_outputs": the first and the last token of an answer.
TaskNames answer_span(const ModelConfig& config, const std::string& prefix);

}  // namespace headwise
