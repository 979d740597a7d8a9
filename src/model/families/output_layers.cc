// Names and rows of shared output layers.
#include "model/families/output_layers.h"

namespace headwise {

TaskNames lm_head(const ModelConfig&, const std::string&) {
  return {.output = "lm_head", .tied = true};
}

TaskNames last_token_score(const ModelConfig&, const std::string&) {
  return {.rows = TaskRows::last, .output = "score"};
}

TaskNames token_score(const ModelConfig&, const std::string&) {
  return {.output = "score", .has_bias = true, .drops_output = true};
}

TaskNames token_classifier(const ModelConfig&, const std::string&) {
  return {.output = "classifier", .has_bias = true, .drops_output = true};
}

TaskNames answer_span(const ModelConfig&, const std::string&) {
  return {.output = "qa_outputs", .has_bias = true};
}

}  // namespace headwise
