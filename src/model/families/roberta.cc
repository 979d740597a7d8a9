// RoBERTa and XLM-RoBERTa: BERT whose positions are counted from padding, with output layers of its
// own.
#include "model/families/roberta.h"

#include <fmt/format.h>

#include "model/families/bert.h"
#include "model/families/output_layers.h"

namespace headwise {
namespace {

void read_roberta(ConfigFields& fields, ModelConfig& config) {
  read_bert_fields(fields, config);
  config.token_types = fields.size("type_vocab_size", 2);
  offset_positions(fields, config, config.pad.value_or(1));
}

}  // namespace

void offset_positions(ConfigFields& fields, ModelConfig& config, int32_t pad) {
  config.pad = pad;
  config.position_offset = int64_t{pad} + 1;
  if (config.max_positions <= config.position_offset) {
    fields.object().refuse("max_position_embeddings", "no position is left for a token",
                           fmt::format("above {}", config.position_offset));
  }
  config.max_positions -= config.position_offset;
}

TaskNames roberta_masked_lm(const ModelConfig&, const std::string&) {
  return {.steps = {{"lm_head.dense", Activation::gelu, "lm_head.layer_norm"}},
          .output = "lm_head.decoder",
          .bias = "lm_head.bias",
          .has_bias = true,
          .tied = true};
}

TaskNames roberta_classifier(const ModelConfig&, const std::string&) {
  return {.rows = TaskRows::first,
          .steps = {{"classifier.dense", Activation::tanh}},
          .output = "classifier.out_proj",
          .has_bias = true,
          .drops_input = true,
          .drops_output = true};
}

std::vector<ModelClass> roberta_classes() {
  return {{"Model", Task::hidden},
          {"ForMaskedLM", Task::masked_lm, roberta_masked_lm},
          {"ForSequenceClassification", Task::classify, roberta_classifier},
          {"ForTokenClassification", Task::classify_tokens, token_classifier},
          {"ForQuestionAnswering", Task::answer, answer_span}};
}

Family roberta_family() {
  return {.type = "roberta",
          .name = "Roberta",
          .read = read_roberta,
          .classes = roberta_classes(),
          .names = bert_names("roberta."),
          .buffers = {kPositionIds},
          .unused = {"pooler.dense.weight", "pooler.dense.bias"}};
}

Family xlm_roberta_family() {
  Family family = roberta_family();
  family.type = "xlm-roberta";
  family.name = "XLMRoberta";
  return family;
}

}  // namespace headwise
