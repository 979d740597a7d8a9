// A transformer from a Hugging Face folder: its forward pass, with every head gateable and
// observable.
//
// Batches are ragged: rows of all texts lie one after the other, and there is no padding. Letters:
// B texts, T rows of all of them, C width, H heads of one attention, V vocabulary.
#pragma once

#include <cstdint>
#include <filesystem>
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

/// Token ids of several texts, one after the other.
struct TokenBatch {
  std::vector<int32_t> ids{};
  std::vector<int32_t> types{};        // of sentence pairs; empty: all 0
  std::vector<int64_t> offsets = {0};  // [B+1]

  void add(std::span<const int32_t> text, std::span<const int32_t> text_types = {});
  /// Throws Error unless offsets and types fit the ids.
  void check() const;
  int64_t texts() const { return static_cast<int64_t>(offsets.size()) - 1; }
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

/// Called by a forward pass. Each function may be left as it is.
class ForwardObserver {
 public:
  virtual ~ForwardObserver() = default;

  /// Whether it looks at heads, as it does unless it says otherwise: then a mixture of heads
  /// computes all of them for all rows. Otherwise the next two need not be called.
  virtual bool wants_heads() const;

  /// Before an attention: the observer that its kernel shall add to, or null.
  virtual AttentionObserver* watch(const AttentionSite& site, const Attention& attention);

  /// After it: z [T, H, Dv] are the outputs of the heads after gates, and may be changed;
  /// lse [T, H] as attention_forward gave it.
  virtual void attended(const AttentionSite& site, const Attention& attention,
                        const MultiHeadAttention& layer, View<float, 3> z,
                        View<const float, 2> lse);

  /// What an attention is about to add to the residual stream, [T, C]: only for those who want it,
  /// since the sum is then computed apart.
  virtual bool wants_projected() const;
  virtual void projected(const AttentionSite& site, View<const float, 2> rows);

  /// Whether states behind the last attention are wanted. If not, Model::hidden leaves out the last
  /// feed-forward layer, gives back no rows, and does not call `reached` for the last layer.
  virtual bool wants_hidden() const;

  /// The rows [T, C] after the embedding (layer -1) and after each layer, before a final norm.
  virtual void reached(Side side, int64_t layer, View<const float, 2> rows);
};

struct ForwardOptions {
  /// [1, heads()] or [B, heads()]; empty: all 1. See AttentionSite::first for the columns.
  View<const float, 2> gates{};
  ForwardObserver* observer = nullptr;
};

/// Rows that a pass gave back.
struct Activations {
  Buffer buffer{};
  View<float, 2> rows{};

  Activations() = default;
  Activations(int64_t count, int64_t width);
};

struct LoadOptions {
  bool allow_nonfinite = false;   // NaN or infinity among the weights
  bool allow_unexpected = false;  // tensors that the architecture does not know
  ConfigOptions config{};
};

/// The source of a decoder's cross attention, and what the decoder has seen so far.
class DecoderState;
class VariantPass;

class Model {
 public:
  /// A folder with config.json and safetensors.
  static Model load(const std::filesystem::path& folder, const LoadOptions& options = {});
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  const ModelConfig& config() const;
  std::span<const AttentionSite> attentions() const;
  int64_t heads() const;                                // of all attentions
  const MultiHeadAttention& layer(int64_t site) const;  // of attentions()[site]

  /// "L3.H1", "L3" (its whole layer) and "all", separated by commas; each head once. Throws Error
  /// for what is not there.
  std::vector<HeadIndex> find_heads(std::string_view list) const;

  /// The last hidden states [T, C], after the final norm where there is one; no rows if the
  /// observer wants none. For encoder-decoders: of the encoder.
  Activations hidden(const TokenBatch& batch, const ForwardOptions& options = {}) const;

  /// The same of the decoder, `target` being its input; text b of both belong together.
  Activations hidden(const TokenBatch& source, const TokenBatch& target,
                     const ForwardOptions& options = {}) const;

  /// What the output layer makes of hidden states: [rows, V], [rows, labels] or [rows, 2]. Which
  /// rows: see output_rows. Throws Error if the model has none.
  Activations output(View<const float, 2> hidden) const;
  int64_t output_width() const;  // 0: no output layer

  /// -log softmax(output(hidden))[targets] of each row; never all outputs at once.
  void output_losses(View<const float, 2> hidden, std::span<const int32_t> targets,
                     std::span<double> losses) const;

  /// The rows of a batch that the output layer is for: all, or one per text.
  std::vector<int64_t> output_rows(std::span<const int64_t> offsets) const;

  /// The static vectors of tokens, [tokens, embedding width], without positions.
  Activations word_embeddings(Side side, std::span<const int32_t> ids) const;

  /// Of causal LMs: how what is added to the residual stream changes the logit of a token beside
  /// the mean of all logits, with the scale of the final norm held fixed. `rows` [T, C] are those
  /// before the final norm, `tokens` [T] one for each; the change is the scalar product with the
  /// result [T, C].
  Activations logit_directions(View<const float, 2> rows, std::span<const int32_t> tokens) const;

  /// Decoding step by step. `texts` sequences, of at most `capacity` tokens each, the same number
  /// (1 without beams) for each text of `source`, which only encoder-decoders need.
  DecoderState start(int64_t texts, int64_t capacity, const TokenBatch& source = {},
                     const ForwardOptions& options = {}) const;

  /// Appends tokens to the sequences of a state; gives the hidden states of the new rows. A state
  /// is of no more use after an observer threw in the midst of a step.
  Activations step(const TokenBatch& tokens, DecoderState& state,
                   const ForwardOptions& options = {}) const;

 private:
  friend class VariantPass;  // src/model/variant_pass.h
  struct Parts;
  explicit Model(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

class DecoderState {
 public:
  DecoderState(DecoderState&&) noexcept;
  DecoderState& operator=(DecoderState&&) noexcept;
  ~DecoderState();

  int64_t texts() const;
  int64_t length(int64_t text) const;

  /// Sequence b becomes a copy of what sequence from[b] was.
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
