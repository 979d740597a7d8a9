// DistilBERT.
#include "model/families/family.h"
#include "model/families/output_layers.h"
#include "model/families/stack_fields.h"

namespace headwise {
namespace {

void read_distilbert(ConfigFields& fields, ModelConfig& config) {
  config.width = config.embedding_width = fields.size("dim");
  config.vocabulary = fields.size("vocab_size");
  config.embedding_norm = true;
  config.epsilon = 1e-12f;  // fixed in the architecture
  config.activation = fields.activation("activation", "gelu");
  config.positions = PositionKind::learned;
  config.max_positions = fields.size("max_position_embeddings", 512);
  fields.must_be("is_decoder", false);
  config.encoder = read_stack(fields, config, {"n_layers", "n_heads"}, false);
  config.encoder.intermediate = fields.size("hidden_dim");
}

TaskNames distilbert_masked_lm(const ModelConfig& config, const std::string&) {
  return {.steps = {{"vocab_transform", config.activation, "vocab_layer_norm"}},
          .output = "vocab_projector",
          .has_bias = true,
          .tied = true};
}

TaskNames distilbert_classifier(const ModelConfig&, const std::string&) {
  return {.rows = TaskRows::first,
          .steps = {{"pre_classifier", Activation::relu}},
          .output = "classifier",
          .has_bias = true,
          .drops_output = true};
}

}  // namespace

Family distilbert_family() {
  return {.type = "distilbert",
          .name = "DistilBert",
          .read = read_distilbert,
          .classes = {{"Model", Task::hidden},
                      {"ForMaskedLM", Task::masked_lm, distilbert_masked_lm},
                      {"ForSequenceClassification", Task::classify, distilbert_classifier},
                      {"ForTokenClassification", Task::classify_tokens, token_classifier},
                      {"ForQuestionAnswering", Task::answer, answer_span}},
          .names = {.prefixes = {"distilbert."},
                    .encoder = {.layer = "transformer.layer.{}.",
                                .self = {.query = "attention.q_lin",
                                         .key = "attention.k_lin",
                                         .value = "attention.v_lin",
                                         .output = "attention.out_lin",
                                         .norm = "sa_layer_norm"},
                                .up = "ffn.lin1",
                                .down = "ffn.lin2",
                                .feed_forward_norm = "output_layer_norm",
                                .word = "embeddings.word_embeddings",
                                .position = "embeddings.position_embeddings"},
                    .embedding_norm = "embeddings.LayerNorm"},
          .buffers = {"embeddings.position_ids"},
          .dropouts = {.attention_branch = false}};
}

}  // namespace headwise
