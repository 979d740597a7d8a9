// MPNet: BERT with relative positions and without token types.
#include "model/families/bert.h"
#include "model/families/roberta.h"

namespace headwise {
namespace {

void read_mpnet(ConfigFields& fields, ModelConfig& config) {
  read_bert_fields(fields, config);
  if (fields.size("relative_attention_num_buckets", 32) != 32) {
    fields.object().refuse("relative_attention_num_buckets", "MPNet always uses 32 buckets", "32");
  }
  config.relative = {.buckets = 32, .max_distance = 128};
  fields.use("type_vocab_size");        // written, but MPNet has no token types
  offset_positions(fields, config, 1);  // the embedding takes 1, whatever the config says
}

WeightNames mpnet_names() {
  WeightNames names = bert_names("mpnet.");
  names.encoder.self = {.query = "attention.attn.q",
                        .key = "attention.attn.k",
                        .value = "attention.attn.v",
                        .output = "attention.attn.o",
                        .norm = "attention.LayerNorm"};
  names.encoder.relative_bias = "encoder.relative_attention_bias";
  return names;
}

}  // namespace

Family mpnet_family() {
  return {.type = "mpnet",
          .name = "MPNet",
          .read = read_mpnet,
          .classes = roberta_classes(),
          .names = mpnet_names(),
          .buffers = {kPositionIds},
          .unused = {"pooler.dense.weight", "pooler.dense.bias"}};
}

}  // namespace headwise
