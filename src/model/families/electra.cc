// ELECTRA: BERT with an embedding of another width, and a discriminator.
#include "model/families/bert.h"
#include "model/families/output_layers.h"

namespace headwise {
namespace {

void read_electra(ConfigFields& fields, ModelConfig& config) {
  read_bert_fields(fields, config);
  config.embedding_width = fields.size("embedding_size");
  config.token_types = fields.size("type_vocab_size", 2);
}

WeightNames electra_names() {
  WeightNames names = bert_names("electra.");
  names.embedding_projection = "embeddings_project";
  return names;
}

TaskNames electra_masked_lm(const ModelConfig&, const std::string&) {
  return {.steps = {{"generator_predictions.dense", Activation::gelu,
                     "generator_predictions.LayerNorm"}},
          .output = "generator_lm_head",
          .has_bias = true,
          .tied = true};
}

TaskNames electra_classifier(const ModelConfig&, const std::string&) {
  return {.rows = TaskRows::first,
          .steps = {{"classifier.dense", Activation::gelu}},
          .output = "classifier.out_proj",
          .has_bias = true,
          .drops_input = true,
          .drops_output = true};
}

TaskNames electra_discriminator(const ModelConfig& config, const std::string&) {
  return {.steps = {{"discriminator_predictions.dense", config.activation}},
          .output = "discriminator_predictions.dense_prediction",
          .has_bias = true};
}

}  // namespace

Family electra_family() {
  return {.type = "electra",
          .name = "Electra",
          .read = read_electra,
          .classes = {{"Model", Task::hidden},
                      {"ForMaskedLM", Task::masked_lm, electra_masked_lm},
                      {"ForPreTraining", Task::detect, electra_discriminator},
                      {"ForSequenceClassification", Task::classify, electra_classifier},
                      {"ForTokenClassification", Task::classify_tokens, token_classifier},
                      {"ForQuestionAnswering", Task::answer, answer_span}},
          .names = electra_names(),
          .buffers = {kPositionIds}};
}

}  // namespace headwise
