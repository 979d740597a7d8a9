// BERT.
#include "model/families/bert.h"

#include <nlohmann/json.hpp>

#include "model/families/new_model.h"
#include "model/families/output_layers.h"
#include "model/families/stack_fields.h"

namespace headwise {
namespace {

void read_bert(ConfigFields& fields, ModelConfig& config) {
  read_bert_fields(fields, config);
  config.token_types = fields.size("type_vocab_size", 2);
}

TaskNames bert_masked_lm(const ModelConfig& config, const std::string&) {
  return {.steps = {{"cls.predictions.transform.dense", config.activation,
                     "cls.predictions.transform.LayerNorm"}},
          .output = "cls.predictions.decoder",
          .bias = "cls.predictions.bias",
          .has_bias = true,
          .tied = true};
}

TaskNames bert_pooled(const std::string& prefix, const char* output) {
  return {.rows = TaskRows::first,
          .steps = {{prefix + "pooler.dense", Activation::tanh}},
          .output = output,
          .has_bias = true,
          .drops_output = true};
}

TaskNames bert_classifier(const ModelConfig&, const std::string& prefix) {
  return bert_pooled(prefix, "classifier");
}

TaskNames bert_next_sentence(const ModelConfig&, const std::string& prefix) {
  return bert_pooled(prefix, "cls.seq_relationship");
}

void write_new_bert(nlohmann::ordered_json& json, const NewModelSizes& sizes,
                    const Tokenizer::SpecialTokens& special) {
  json["hidden_size"] = sizes.width;
  json["num_hidden_layers"] = sizes.encoder.size();
  json["num_attention_heads"] = stated_heads(sizes.encoder, sizes.width);
  json["intermediate_size"] = sizes.feed_forward;
  json["hidden_act"] = sizes.activation;
  json["max_position_embeddings"] = sizes.positions;
  json["type_vocab_size"] = 2;
  json["layer_norm_eps"] = 1e-12;
  write_token(json, "pad_token_id", special.pad);
  if (!fields_describe({}, sizes.encoder, sizes.width)) write_own_heads(json, "", sizes.encoder);
}

}  // namespace

void read_bert_fields(ConfigFields& fields, ModelConfig& config) {
  config.width = config.embedding_width = fields.size("hidden_size");
  config.vocabulary = fields.size("vocab_size");
  config.embedding_norm = true;
  config.epsilon = fields.epsilon("layer_norm_eps", 1e-12);
  config.activation = fields.activation("hidden_act", "gelu");
  config.positions = PositionKind::learned;
  config.max_positions = fields.size("max_position_embeddings");
  fields.must_be("position_embedding_type", "absolute");
  fields.must_be("is_decoder", false);
  config.encoder = read_stack(fields, config, {"num_hidden_layers", "num_attention_heads"}, false);
  config.encoder.intermediate = fields.size("intermediate_size");
}

WeightNames bert_names(std::string_view prefix) {
  return {.prefixes = {prefix},
          .encoder = {.layer = "encoder.layer.{}.",
                      .self = {.query = "attention.self.query",
                               .key = "attention.self.key",
                               .value = "attention.self.value",
                               .output = "attention.output.dense",
                               .norm = "attention.output.LayerNorm"},
                      .up = "intermediate.dense",
                      .down = "output.dense",
                      .feed_forward_norm = "output.LayerNorm",
                      .word = "embeddings.word_embeddings",
                      .position = "embeddings.position_embeddings"},
          .token_type = "embeddings.token_type_embeddings",
          .embedding_norm = "embeddings.LayerNorm"};
}

Family bert_family() {
  return {.type = "bert",
          .name = "Bert",
          .read = read_bert,
          .classes = {{"Model", Task::hidden},
                      {"ForMaskedLM", Task::masked_lm, bert_masked_lm},
                      {"ForPreTraining", Task::masked_lm, bert_masked_lm},
                      {"ForSequenceClassification", Task::classify, bert_classifier},
                      {"ForNextSentencePrediction", Task::classify, bert_next_sentence},
                      {"ForTokenClassification", Task::classify_tokens, token_classifier},
                      {"ForQuestionAnswering", Task::answer, answer_span}},
          .names = bert_names("bert."),
          .buffers = {kPositionIds},
          .unused = {"pooler.dense.weight", "pooler.dense.bias", "cls.seq_relationship.weight",
                     "cls.seq_relationship.bias"},
          .new_model = {.tasks = {Task::masked_lm, Task::classify, Task::hidden},
                        .activation = "gelu",
                        .positions = PositionKind::learned,
                        .write = write_new_bert}};
}

}  // namespace headwise
