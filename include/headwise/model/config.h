// The configuration of a model, read from config.json: one struct for every architecture.
//
// Reading is strict. A field that is not understood is an error that names it; fields that
// transformers fills with a default of the architecture get the same default.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/kernels/attention.h"
#include "headwise/kernels/gemm.h"
#include "headwise/model/fixed_pattern.h"

namespace headwise {

enum class NormKind { layer, rms, none };
enum class NormPlace { before, after };  // of attention and feed-forward: pre-norm, post-norm
enum class PositionKind { none, learned, sinusoidal, rotary };

/// The task of the model, from the class named in "architectures".
enum class Task {
  hidden,     // no output layer: hidden states
  masked_lm,  // a distribution over the vocabulary at every token, seeing both sides
  causal_lm,  // the next token
  seq2seq_lm,
  classify,         // one row of scores per text
  classify_tokens,  // one row of scores per token
  answer,           // scores for being the first and the last token of the answer
  detect,           // ELECTRA's discriminator: a score per token for having been replaced
};
std::string_view to_string(Task task);

struct RotaryConfig {
  int64_t width = 0;                         // the first columns of a head, which are rotated
  std::vector<float> inverse_frequencies{};  // [width / 2], scaling applied
  double attention_factor = 1;               // multiplies cos and sin
  double theta = 0;  // the base, which "dynamic" scaling raises for texts longer than the model's
  double dynamic_factor = 0;  // positions; 0: no such scaling, nor such texts
};

/// The learned bias of T5 and MPNet.
struct RelativeConfig {
  int64_t buckets = 0;  // 0: there is none
  int64_t max_distance = 0;
};

/// Routed heads (mixture of heads): every row uses a subset of them, chosen by a router.
struct RoutingConfig {
  int64_t active = 0;            // how many
  std::vector<int32_t> heads{};  // [R], index of each routed head, or -1 if it was pruned
  float balance = 0;             // weight of the loss that spreads rows over heads
};

/// One attention of one layer. Heads keep their names after others were pruned.
struct AttentionConfig {
  std::vector<int32_t> heads{};       // the names of the query heads: learned ones, then fixed ones
  std::vector<int32_t> kv_heads{};    // the names of the key/value heads
  std::vector<int32_t> kv_head{};     // per query head, the index (not the name) of its kv head
  int64_t head_dim = 0;               // D
  int64_t value_dim = 0;              // Dv
  int64_t group = 1;                  // query heads per kv head, before pruning
  int64_t left = kUnlimited;          // a row sees no key farther back
  bool rotary = true;                 // if the model's positions are rotary
  std::optional<float> scale{};       // 1 / sqrt(head_dim) unless given
  std::vector<FixedPattern> fixed{};  // of the last heads
  std::optional<RoutingConfig> routing{};  // none: every row uses all heads
};

struct StackConfig {
  // Of layers that have none of their own, before pruning; see attention for what each one has.
  int64_t heads = 0, kv_heads = 0;
  int64_t head_dim = 0;
  int64_t intermediate = 0;  // width of the feed-forward layer
  bool causal = false;
  std::vector<AttentionConfig> attention{};  // [L]
  std::vector<AttentionConfig> cross{};      // [L], or empty

  int64_t layers() const { return static_cast<int64_t>(attention.size()); }
};

struct ModelConfig {
  std::string model_type{};    // "bert"
  std::string architecture{};  // "BertForMaskedLM", or empty
  Task task = Task::hidden;

  int64_t width = 0;               // C
  int64_t vocabulary = 0;          // V
  int64_t decoder_vocabulary = 0;  // of encoder-decoders
  int64_t embedding_width = 0;     // C, except in ELECTRA
  int64_t token_types = 0;
  float embedding_scale = 1;
  bool embedding_norm = false;

  PositionKind positions = PositionKind::none;
  int64_t max_positions = 0;    // the longest text; 0: any
  int64_t position_offset = 0;  // RoBERTa's positions start at pad + 1, and count no padding
  RotaryConfig rotary{};
  RelativeConfig relative{};

  NormKind norm = NormKind::layer;
  NormPlace norm_place = NormPlace::after;
  float epsilon = 0;
  bool parallel = false;  // attention and feed-forward read the same input (GPT-NeoX)
  bool qk_norm = false;   // queries and keys are normalised per head (Qwen3)
  bool projection_bias = true, output_bias = true, feed_forward_bias = true;
  bool key_bias = true, value_bias = true;  // with projection_bias: not of queries alone
  bool glu = false;  // the feed-forward layer: down(activation(gate(x)) * up(x))
  Activation activation = Activation::gelu;

  StackConfig encoder{};  // no layers: there is none
  StackConfig decoder{};

  bool tied = true;               // the output layer is the input embedding
  bool shared_embeddings = true;  // encoder and decoder have the same embedding
  float output_scale = 1;         // of hidden states before a tied output layer (T5)
  bool translates = false;        // text to text is translation (Marian)

  std::vector<std::string> labels{};
  bool regression = false;
  bool multi_label = false;

  std::optional<int32_t> pad{}, bos{}, decoder_start{}, forced_eos{};
  std::vector<int32_t> eos{};
  std::string dtype{};  // as the file says it, for people

  bool encoder_decoder() const { return encoder.layers() > 0 && decoder.layers() > 0; }
};

struct ConfigOptions {
  std::set<std::string> ignore_fields{};  // fields the caller knows to be harmless
};

/// Reads config.json of a folder.
ModelConfig read_config(const std::filesystem::path& folder, const ConfigOptions& options = {});

/// The same from its text; `where` names it in errors.
ModelConfig parse_config(std::string_view text, const std::string& where,
                         const ConfigOptions& options = {});

}  // namespace headwise
