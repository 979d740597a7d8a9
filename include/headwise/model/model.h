// A transformer from a Hugging Face folder. Every head of its forward pass can be gated and
// observed.
//
// Batches are ragged: the tokens of all sequences lie one after the other, without padding.
// Letters: B sequences, T tokens of all of them, C width, H heads of one attention, V vocabulary.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/core/buffer.h"
#include "headwise/core/view.h"
#include "headwise/kernels/attention.h"
#include "headwise/model/config.h"
#include "headwise/model/multi_head_attention.h"

namespace headwise {

/// Token ids of several sequences, one after the other.
struct TokenBatch {
  std::vector<int32_t> ids{};
  std::vector<int32_t> types{};        // of sentence pairs; empty: all 0
  std::vector<int64_t> offsets = {0};  // [B+1]

  void add(std::span<const int32_t> text, std::span<const int32_t> text_types = {});
  /// Throws Error unless offsets and types fit the ids.
  void check() const;
  int64_t sequences() const { return static_cast<int64_t>(offsets.size()) - 1; }
  int64_t rows() const { return offsets.back(); }
};

enum class Side { encoder, decoder };
enum class AttentionKind { self, cross };

/// One attention of a model, and its heads.
struct AttentionSite {
  Side side = Side::encoder;
  AttentionKind kind = AttentionKind::self;
  int64_t layer = 0;
  std::string name{};            // "L3"; "enc.L3", "dec.L3", "cross.L3" in encoder-decoders
  std::vector<int32_t> heads{};  // names of the query heads; pruning leaves gaps
  int64_t kv_heads = 0, head_dim = 0, value_dim = 0;
  int64_t first = 0;  // where its heads begin among all heads of the model

  std::string head_name(int64_t index) const;  // "L3.H1"
};

/// All attentions of a model: those of the encoder, then of the decoder, then cross attention.
std::vector<AttentionSite> attention_sites(const ModelConfig& config);

/// A head: heads[index] of attentions()[site].
struct HeadIndex {
  int64_t site = 0;
  int64_t index = 0;
  bool operator==(const HeadIndex&) const = default;
};

/// Hooks of a forward pass. The default of each does nothing.
class ForwardObserver {
 public:
  virtual ~ForwardObserver() = default;

  /// Whether the observer needs heads (default: true). If so, routed heads are computed for all
  /// rows. If not, the next two hooks may be skipped.
  virtual bool wants_heads() const;

  /// Called before an attention. Returns the observer for its kernel, or null.
  virtual AttentionObserver* attention_observer(const AttentionSite& site,
                                                const Attention& attention);

  /// Called after an attention. z [T, H, Dv] are the head outputs after gates; the hook may change
  /// them. lse [T, H] is that of attention_forward.
  virtual void on_z(const AttentionSite& site, const Attention& attention,
                    const MultiHeadAttention& layer, View<float, 3> z, View<const float, 2> lse);

  /// The output [T, C] of an attention, before it is added to the residual stream. Called only if
  /// wants_attn_out() is true, because it costs a separate pass.
  virtual bool wants_attn_out() const;
  virtual void on_attn_out(const AttentionSite& site, View<const float, 2> rows);

  /// Whether hidden states after the last attention are needed. If not, Model::forward skips the
  /// last feed-forward layer, returns no rows, and does not call `on_resid_post` for the last
  /// layer.
  virtual bool wants_hidden() const;

  /// The residual stream [T, C] after the embedding (layer -1) and after each layer, before a final
  /// norm.
  virtual void on_resid_post(Side side, int64_t layer, View<const float, 2> rows);
};

struct ForwardOptions {
  /// [1, heads()] or [B, heads()]; empty: all 1. See AttentionSite::first for the columns.
  View<const float, 2> gates{};
  ForwardObserver* observer = nullptr;
};

/// Rows returned by a forward pass.
struct Activations {
  Buffer buffer{};
  View<float, 2> rows{};

  Activations() = default;
  Activations(int64_t count, int64_t width);
};

struct LoadOptions {
  bool allow_nonfinite = false;   // NaN or infinity among the weights
  bool allow_unexpected = false;  // tensors unknown to the architecture
  ConfigOptions config{};
};

/// State of step-by-step decoding: the encoded source and the key/value caches.
class DecoderState;
class Model;
class ModelSource;
class PatchedForward;
struct Transformer;
class Tokenizer;

/// A model and its tokenizer, if it has one, by its folder with config.json and safetensors, or by
/// its id in the local Hugging Face cache (see find_model). Throws Error if one of them cannot be
/// read.
Model load(const std::string& folder_or_id, const LoadOptions& options = {});

/// Weights, config and tokenizer, and where they are from.
class Model {
 public:
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  /// That it was loaded from. That of a pruned model is a temporary one unless it was asked for.
  const std::filesystem::path& folder() const;
  /// The last part of the folder's path, or the id that it was loaded by.
  const std::string& name() const;
  const LoadOptions& load_options() const;  // that it was loaded with

  /// Null: the folder has none.
  const Tokenizer* tokenizer() const;

  /// Copies the model's folder, whole or not at all, and compares the weights with those that were
  /// copied. `folder` may not be there, or is an empty folder. Throws Error if it cannot be made.
  void save(const std::filesystem::path& folder) const;

  /// SHA-256 of the files with weights, computed when it is first asked for: all of them are read.
  /// `check` is called now and then, and may throw to stop.
  const std::string& hash(const std::function<void()>& check = {}) const;

  const ModelConfig& config() const;
  std::span<const AttentionSite> attentions() const;
  int64_t heads() const;                                // of all attentions
  std::string head_name(int64_t head) const;            // "L3.H1", by its number among them
  const MultiHeadAttention& layer(int64_t site) const;  // of attentions()[site]

  /// "L3.H1", "L3" (its whole layer) and "all", separated by commas; each head once. Throws Error
  /// for what is not there.
  std::vector<HeadIndex> find_heads(std::string_view list) const;

  /// The last hidden states [T, C], after the final norm where there is one; no rows if the
  /// observer wants none. For encoder-decoders: of the encoder.
  Activations forward(const TokenBatch& batch, const ForwardOptions& options = {}) const;

  /// The same of the decoder, `target` being its input; text b of both belong together.
  Activations forward(const TokenBatch& source, const TokenBatch& target,
                      const ForwardOptions& options = {}) const;

  /// Applies the output layer to hidden states: [rows, V], [rows, labels] or [rows, 2].
  /// output_rows() names the rows. Throws Error if the model has no output layer.
  Activations output(View<const float, 2> hidden) const;
  int64_t output_width() const;  // 0: no output layer

  /// -log softmax(output(hidden))[targets] of each row. Never stores all outputs at once.
  void output_losses(View<const float, 2> hidden, std::span<const int32_t> targets,
                     std::span<double> losses) const;

  /// The rows of a batch that the output layer reads: all, or one per sequence.
  std::vector<int64_t> output_rows(std::span<const int64_t> offsets) const;

  /// Word embeddings of tokens, [tokens, embedding width], without positions.
  Activations word_embeddings(Side side, std::span<const int32_t> ids) const;

  /// Causal LMs: directions for direct logit attribution. The scalar product of row t of the result
  /// [T, C] with a vector added to the residual stream is the change of the logit of tokens[t],
  /// relative to the mean of all logits. The scale of the final norm is held fixed. `rows` [T, C]
  /// is the residual stream before the final norm.
  Activations logit_directions(View<const float, 2> rows, std::span<const int32_t> tokens) const;

  /// Decoding step by step. `texts` sequences, of at most `capacity` tokens each, the same number
  /// (1 without beams) for each text of `source`, which only encoder-decoders need.
  DecoderState start(int64_t texts, int64_t capacity, const TokenBatch& source = {},
                     const ForwardOptions& options = {}) const;

  /// Appends tokens to the sequences of a state; gives the hidden states of the new rows. A state
  /// is invalid after an observer threw during a step.
  Activations step(const TokenBatch& tokens, DecoderState& state,
                   const ForwardOptions& options = {}) const;

 private:
  friend class PatchedForward;                              // src/model/patched_forward.h
  friend class ModelSource;                                 // src/model/model_source.h
  friend const Transformer& layers_of(const Model& model);  // src/model/model_parts.h
  friend Model read_model(const std::filesystem::path& folder, const LoadOptions& options);
  struct Parts;
  Model(std::unique_ptr<Parts> parts, std::unique_ptr<ModelSource> source);
  std::unique_ptr<Parts> parts_;
  std::unique_ptr<ModelSource> source_;
};

class DecoderState {
 public:
  DecoderState(DecoderState&&) noexcept;
  DecoderState& operator=(DecoderState&&) noexcept;
  ~DecoderState();

  int64_t sequences() const;
  int64_t length(int64_t text) const;

  /// Sequence b becomes a copy of the former sequence from[b].
  void reorder(std::span<const int64_t> from);

 private:
  friend class Model;
  struct Parts;
  explicit DecoderState(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

/// The rows at these indices, one after the other.
Activations gather(View<const float, 2> rows, std::span<const int64_t> indices);

}  // namespace headwise
