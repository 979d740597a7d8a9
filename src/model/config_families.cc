// One reader per family of architectures.
#include "model/config_families.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "model/rotary_frequencies.h"

namespace headwise {
namespace {

const Classes kEncoderClasses = {{"Model", Task::hidden},
                                 {"ForMaskedLM", Task::masked_lm},
                                 {"ForSequenceClassification", Task::classify},
                                 {"ForTokenClassification", Task::classify_tokens},
                                 {"ForQuestionAnswering", Task::answer}};
const Classes kBertClasses = [] {
  Classes classes = kEncoderClasses;
  classes["ForPreTraining"] = Task::masked_lm;
  classes["ForNextSentencePrediction"] = Task::classify;
  return classes;
}();
const Classes kElectraClasses = [] {
  Classes classes = kEncoderClasses;
  classes["ForPreTraining"] = Task::detect;
  return classes;
}();
const Classes kDecoderClasses = {{"Model", Task::hidden},
                                 {"ForCausalLM", Task::causal_lm},
                                 {"LMHeadModel", Task::causal_lm},
                                 {"ForSequenceClassification", Task::classify},
                                 {"ForTokenClassification", Task::classify_tokens},
                                 {"ForQuestionAnswering", Task::answer}};
const Classes kMarianClasses = {{"Model", Task::hidden}, {"MTModel", Task::seq2seq_lm}};
const Classes kT5Classes = {{"Model", Task::hidden},
                            {"EncoderModel", Task::hidden},
                            {"ForConditionalGeneration", Task::seq2seq_lm}};

// Far above any model; what it bounds is laid out before a tensor is seen.
constexpr int64_t kMostLayers = 4096;
constexpr int64_t kMostComputedPositions = 1 << 16;

struct StackSizes {
  const char* layers;
  const char* heads;
};

/// A stack whose heads divide the width, or have a width of their own.
StackConfig read_stack(ConfigFields& fields, const ModelConfig& config, const StackSizes& names,
                       bool causal, std::optional<int64_t> head_dim = {},
                       std::optional<int64_t> kv_heads = {}) {
  StackConfig stack{.heads = fields.size_at_most(names.heads, kMostHeads), .causal = causal};
  stack.kv_heads = kv_heads.value_or(stack.heads);
  if (!head_dim && config.width % stack.heads != 0) {
    fields.object().refuse(names.heads, "the width does not divide among the heads",
                           fmt::format("a number that divides {}", config.width));
  }
  stack.head_dim = head_dim.value_or(config.width / stack.heads);
  if (stack.head_dim > kWidestHead) {
    fields.object().refuse(names.heads, "a head is too wide",
                           fmt::format("at most {} columns each", kWidestHead));
  }
  if (stack.heads % stack.kv_heads != 0) {
    fields.object().refuse("num_key_value_heads",
                           "the heads do not divide among the key/value heads",
                           fmt::format("a number that divides {}", stack.heads));
  }
  stack.attention.resize(fields.size_at_most(names.layers, kMostLayers));
  return stack;
}

void read_bert(ConfigFields& fields, ModelConfig& config) {
  config.width = fields.size("hidden_size");
  config.vocabulary = fields.size("vocab_size");
  config.embedding_width =
      config.model_type == "electra" ? fields.size("embedding_size") : config.width;
  config.embedding_norm = true;
  config.epsilon = fields.epsilon("layer_norm_eps", 1e-12);
  config.activation = fields.activation("hidden_act", "gelu");
  config.positions = PositionKind::learned;
  config.max_positions = fields.size("max_position_embeddings");
  if (config.model_type == "mpnet") {
    if (fields.size("relative_attention_num_buckets", 32) != 32) {
      fields.object().refuse("relative_attention_num_buckets", "MPNet always uses 32 buckets",
                             "32");
    }
    config.relative = {.buckets = 32, .max_distance = 128};
    fields.use("type_vocab_size");  // written, but MPNet has no token types
  } else {
    config.token_types = fields.size("type_vocab_size", 2);
  }
  if (config.model_type != "bert" && config.model_type != "electra") {
    // MPNet's embedding takes 1 for padding, whatever the config says.
    config.pad = config.model_type == "mpnet" ? 1 : config.pad.value_or(1);
    config.position_offset = int64_t{*config.pad} + 1;
    if (config.max_positions <= config.position_offset) {
      fields.object().refuse("max_position_embeddings", "no position is left for a token",
                             fmt::format("above {}", config.position_offset));
    }
    config.max_positions -= config.position_offset;
  }
  fields.must_be("position_embedding_type", "absolute");
  fields.must_be("is_decoder", false);
  config.encoder = read_stack(fields, config, {"num_hidden_layers", "num_attention_heads"}, false);
  config.encoder.intermediate = fields.size("intermediate_size");
}

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

void read_gpt2(ConfigFields& fields, ModelConfig& config) {
  config.width = config.embedding_width = fields.size("n_embd");
  config.vocabulary = fields.size("vocab_size");
  config.norm_place = NormPlace::before;
  config.epsilon = fields.epsilon("layer_norm_epsilon", 1e-5);
  config.activation = fields.activation("activation_function", "gelu_new");
  config.positions = PositionKind::learned;
  config.max_positions = fields.size("n_positions");
  fields.use("is_decoder");
  config.decoder = read_stack(fields, config, {"n_layer", "n_head"}, true);
  config.decoder.intermediate = fields.size("n_inner", 4 * config.width);
  const bool scaled = fields.boolean("scale_attn_weights", true);
  const bool by_layer = fields.boolean("scale_attn_by_inverse_layer_idx", false);
  if (scaled && !by_layer) return;
  for (int64_t layer = 0; layer < config.decoder.layers(); ++layer) {
    const double scale = scaled ? 1 / std::sqrt(static_cast<double>(config.decoder.head_dim)) : 1.;
    config.decoder.attention[layer].scale =
        static_cast<float>(by_layer ? scale / static_cast<double>(layer + 1) : scale);
  }
}

void read_gpt_neox(ConfigFields& fields, ModelConfig& config) {
  config.width = config.embedding_width = fields.size("hidden_size");
  config.vocabulary = fields.size("vocab_size");
  config.norm_place = NormPlace::before;
  config.epsilon = fields.epsilon("layer_norm_eps", 1e-5);
  config.activation = fields.activation("hidden_act", "gelu");
  config.parallel = fields.boolean("use_parallel_residual", true);
  config.projection_bias = config.output_bias = fields.boolean("attention_bias", true);
  config.positions = PositionKind::rotary;
  config.max_positions = fields.size("max_position_embeddings");
  fields.use("is_decoder");
  config.decoder = read_stack(fields, config, {"num_hidden_layers", "num_attention_heads"}, true);
  config.decoder.intermediate = fields.size("intermediate_size");
  config.rotary = read_rotary(fields, config.decoder.head_dim, config.max_positions, 10000, 0.25);
  config.tied = fields.boolean("tie_word_embeddings", false);
}

/// Which layers see only a window: all of Mistral's, those after the first `max_window_layers` of
/// Qwen's, those of SmolLM3 that do not rotate; or those that "layer_types" names.
void read_windows(ConfigFields& fields, ModelConfig& config) {
  std::vector<AttentionConfig>& layers = config.decoder.attention;
  const bool mistral = config.model_type == "mistral", smollm = config.model_type == "smollm3";
  const bool used = mistral || fields.boolean("use_sliding_window", false);
  // Null says that there is no window.
  const bool by_default = !smollm && !fields.is_null("sliding_window");
  const int64_t window = fields.has("sliding_window") ? fields.size("sliding_window")
                         : by_default                 ? 4096
                                                      : 0;
  const int64_t from =
      fields.has("max_window_layers") ? fields.object().integer("max_window_layers") : 28;
  std::vector<std::string> types;
  if (!mistral && fields.has("layer_types")) types = fields.object().texts("layer_types");
  if (!types.empty() && types.size() != layers.size()) {
    fields.object().refuse("layer_types", "not one type per layer",
                           fmt::format("{} types", layers.size()));
  }
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    bool sliding =
        mistral || (smollm ? !layers[layer].rotary : static_cast<int64_t>(layer) >= from);
    if (!types.empty()) {
      if (types[layer] != "full_attention" && types[layer] != "sliding_attention") {
        fields.object().refuse("layer_types", "a type of layer is not known",
                               "full_attention or sliding_attention");
      }
      sliding = types[layer] == "sliding_attention";
      if (sliding && (!used || window == 0)) {
        fields.object().refuse("sliding_window", "layers slide, but no window is in use",
                               "its width in tokens, and use_sliding_window true");
      }
    }
    if (sliding && used && window > 0) layers[layer].left = window - 1;
  }
}

/// Which layers of SmolLM3 rotate.
void read_rotated_layers(ConfigFields& fields, ModelConfig& config) {
  std::vector<AttentionConfig>& layers = config.decoder.attention;
  const int64_t interval = fields.size("no_rope_layer_interval", 4);
  std::vector<int64_t> rotated;
  if (fields.has("no_rope_layers")) {
    rotated = fields.object().integers("no_rope_layers", 0, 1);
    if (rotated.size() != layers.size()) {
      fields.object().refuse("no_rope_layers", "not one number per layer",
                             fmt::format("{} numbers", layers.size()));
    }
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    layers[i].rotary =
        rotated.empty() ? (static_cast<int64_t>(i) + 1) % interval != 0 : rotated[i] == 1;
  }
}

/// Llama has as many as query heads if none are given, the others if null is.
int64_t read_kv_heads(ConfigFields& fields, const ModelConfig& config, int64_t heads) {
  constexpr const char* kName = "num_key_value_heads";
  const bool all = config.model_type == "llama" || fields.is_null(kName);
  return all ? fields.size(kName, heads) : fields.size(kName);
}

void read_llama(ConfigFields& fields, ModelConfig& config) {
  const std::string& type = config.model_type;
  config.width = config.embedding_width = fields.size("hidden_size");
  config.vocabulary = fields.size("vocab_size");
  config.norm = NormKind::rms;
  config.norm_place = NormPlace::before;
  config.epsilon = fields.epsilon("rms_norm_eps", 1e-6);
  config.glu = true;
  config.activation = fields.activation("hidden_act", "silu");
  config.qk_norm = type == "qwen3";
  const bool bias =
      type == "qwen2" || (type != "mistral" && fields.boolean("attention_bias", false));
  config.projection_bias = bias;
  config.output_bias = bias && type != "qwen2";
  config.feed_forward_bias = fields.boolean("mlp_bias", false);
  config.positions = PositionKind::rotary;
  config.max_positions = fields.size("max_position_embeddings");
  const int64_t heads = fields.size("num_attention_heads");
  std::optional<int64_t> head_dim;
  if (fields.has("head_dim")) head_dim = fields.size("head_dim");
  if (type == "qwen3" && !head_dim) head_dim = 128;
  config.decoder = read_stack(fields, config, {"num_hidden_layers", "num_attention_heads"}, true,
                              head_dim, read_kv_heads(fields, config, heads));
  config.decoder.intermediate = fields.size("intermediate_size");
  config.rotary = read_rotary(fields, config.decoder.head_dim, config.max_positions,
                              type == "smollm3" ? 2e6 : 10000, 1);
  fields.use("is_decoder");
  fields.must_be("use_mrope", false);
  if (type == "smollm3") read_rotated_layers(fields, config);
  if (type != "llama") read_windows(fields, config);
  config.tied = fields.boolean("tie_word_embeddings", type == "smollm3");
}

void read_marian(ConfigFields& fields, ModelConfig& config) {
  config.width = config.embedding_width = fields.size("d_model");
  config.vocabulary = fields.size("vocab_size");
  config.decoder_vocabulary = fields.size("decoder_vocab_size", config.vocabulary);
  config.epsilon = 1e-5f;  // fixed in the architecture
  config.activation = fields.activation("activation_function", "gelu");
  config.positions = PositionKind::sinusoidal;
  config.max_positions = fields.size_at_most("max_position_embeddings", kMostComputedPositions);
  if (fields.boolean("scale_embedding", false)) {
    config.embedding_scale = std::sqrt(static_cast<float>(config.width));
  }
  config.shared_embeddings = fields.boolean("share_encoder_decoder_embeddings", true);
  fields.must_be("is_decoder", false);
  fields.must_be("add_final_layer_norm", false);
  fields.must_be("normalize_before", false);
  fields.must_be("normalize_embedding", false);
  fields.must_be("static_position_embeddings", true);
  fields.use("num_hidden_layers");  // repeats encoder_layers
  config.encoder = read_stack(fields, config, {"encoder_layers", "encoder_attention_heads"}, false);
  config.encoder.intermediate = fields.size("encoder_ffn_dim");
  config.decoder = read_stack(fields, config, {"decoder_layers", "decoder_attention_heads"}, true);
  config.decoder.intermediate = fields.size("decoder_ffn_dim");
  config.decoder.cross.resize(config.decoder.layers());
}

void read_t5(ConfigFields& fields, ModelConfig& config) {
  config.width = config.embedding_width = fields.size("d_model");
  config.vocabulary = config.decoder_vocabulary = fields.size("vocab_size");
  config.norm = NormKind::rms;
  config.norm_place = NormPlace::before;
  config.epsilon = fields.epsilon("layer_norm_epsilon", 1e-6);
  config.projection_bias = config.output_bias = config.feed_forward_bias = false;
  config.relative = {.buckets = fields.size("relative_attention_num_buckets", 32),
                     .max_distance = fields.size("relative_attention_max_distance", 128)};
  const std::string projection = fields.text("feed_forward_proj", "relu");
  config.glu = projection.starts_with("gated-");
  const std::string activation = config.glu ? projection.substr(6) : projection;
  const auto found = find_activation(projection == "gated-gelu" ? "gelu_new" : activation);
  if (!found) {
    fields.object().refuse("feed_forward_proj", "the activation function is not known",
                           "relu, gelu, silu, or one of these after \"gated-\"");
  }
  config.activation = *found;
  fields.use("dense_act_fn");  // both repeat feed_forward_proj
  fields.use("is_gated_act");
  fields.must_be("is_decoder", false);
  const int64_t head_dim = fields.size("d_kv");
  config.encoder = read_stack(fields, config, {"num_layers", "num_heads"}, false, head_dim);
  config.encoder.intermediate = fields.size("d_ff");
  if (config.architecture != "T5EncoderModel") {
    const bool own = fields.has("num_decoder_layers");
    config.decoder = read_stack(
        fields, config, {own ? "num_decoder_layers" : "num_layers", "num_heads"}, true, head_dim);
    config.decoder.intermediate = config.encoder.intermediate;
    config.decoder.cross.resize(config.decoder.layers());
  }
  fields.use("num_decoder_layers");
  // T5 1.0 ties and scales, 1.1 does neither; version 5 of transformers writes only the latter.
  const bool tied = fields.boolean("tie_word_embeddings", true);
  config.tied = fields.boolean("scale_decoder_outputs", tied);
  if (config.tied) config.output_scale = 1 / std::sqrt(static_cast<float>(config.width));
  for (auto* attentions :
       {&config.encoder.attention, &config.decoder.attention, &config.decoder.cross}) {
    for (AttentionConfig& attention : *attentions) attention.scale = 1;
  }
}

}  // namespace

const std::map<std::string_view, Family>& families() {
  static const std::map<std::string_view, Family> families = {
      {"bert", {"Bert", kBertClasses, read_bert}},
      {"roberta", {"Roberta", kEncoderClasses, read_bert}},
      {"xlm-roberta", {"XLMRoberta", kEncoderClasses, read_bert}},
      {"electra", {"Electra", kElectraClasses, read_bert}},
      {"mpnet", {"MPNet", kEncoderClasses, read_bert}},
      {"distilbert", {"DistilBert", kEncoderClasses, read_distilbert}},
      {"gpt2", {"GPT2", kDecoderClasses, read_gpt2}},
      {"gpt_neox", {"GPTNeoX", kDecoderClasses, read_gpt_neox}},
      {"llama", {"Llama", kDecoderClasses, read_llama}},
      {"mistral", {"Mistral", kDecoderClasses, read_llama}},
      {"qwen2", {"Qwen2", kDecoderClasses, read_llama}},
      {"qwen3", {"Qwen3", kDecoderClasses, read_llama}},
      {"smollm3", {"SmolLM3", kDecoderClasses, read_llama}},
      {"marian", {"Marian", kMarianClasses, read_marian}},
      {"t5", {"T5", kT5Classes, read_t5}},
  };
  return families;
}

}  // namespace headwise
