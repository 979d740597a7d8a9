// Names, shapes and rows of a stack, derived from its config.
#include "model/stack_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/core/shape.h"
#include "model/families/family.h"

namespace headwise {

const StackConfig& stack_config(const ModelConfig& config, Side side) {
  return side == Side::encoder ? config.encoder : config.decoder;
}

int64_t stack_vocabulary(const ModelConfig& config, Side side) {
  const bool decoder_of_two = config.encoder_decoder() && side == Side::decoder;
  return decoder_of_two ? config.decoder_vocabulary : config.vocabulary;
}

int64_t padding_row(const ModelConfig& config) {
  return family_of(config).padding_row && config.pad ? *config.pad : -1;
}

int64_t position_padding_row(const ModelConfig& config) {
  return config.position_offset > 0 ? padding_row(config) : -1;
}

StackNaming::StackNaming(const ModelConfig& config, Side side, std::string prefix)
    : model_(family_of(config).names),
      stack_(side == Side::encoder ? model_.encoder : model_.decoder),
      prefix_(std::move(prefix)) {}

std::string StackNaming::in_layer(int64_t layer, std::string_view name) const {
  return fmt::format("{}{}{}", prefix_, fmt::format(fmt::runtime(stack_.layer), layer), name);
}

std::string find_prefix(const ModelConfig& config, const WeightReader& reader) {
  const WeightNames& names = family_of(config).names;
  const StackNames& stack = config.encoder.layers() > 0 ? names.encoder : names.decoder;
  for (const std::string_view prefix : names.prefixes) {
    for (const std::string_view word : {stack.word, names.shared_word}) {
      if (!word.empty() && reader.has(fmt::format("{}{}.weight", prefix, word))) {
        return std::string(prefix);
      }
    }
  }
  return "";
}

WordTensor word_tensor(const ModelConfig& config, const StackNaming& naming, const HasTensor& has) {
  const std::string own = naming.full(naming.stack().word) + ".weight";
  const std::string shared = naming.full(naming.model().shared_word) + ".weight";
  const bool shares = !naming.model().shared_word.empty() && config.shared_embeddings;
  if (shares && (has(shared) || !has(own))) return {.name = shared, .copy = own};
  return {.name = own};
}

MultiHeadAttentionConfig layer_config(const ModelConfig& config, const AttentionConfig& attention,
                                      bool cross) {
  return {.width = config.width,
          .heads = std::ssize(attention.heads),
          .kv_heads = std::ssize(attention.kv_heads),
          .head_dim = attention.head_dim,
          .value_dim = attention.value_dim,
          .source_width = cross ? std::optional(config.width) : std::nullopt,
          .projection_bias = config.projection_bias,
          .key_bias = config.key_bias,
          .value_bias = config.value_bias,
          .output_bias = config.output_bias,
          .kv_head = attention.kv_head,
          .fixed = attention.fixed};
}

std::string_view router_name(bool cross) {
  return cross ? "headwise.cross_router" : "headwise.router";
}

const AttentionSite& site_of(std::span<const AttentionSite> sites, Side side, AttentionKind kind,
                             int64_t layer) {
  return *std::ranges::find_if(sites, [&](const AttentionSite& site) {
    return site.side == side && site.kind == kind && site.layer == layer;
  });
}

const AttentionSite* site_of_head(std::span<const AttentionSite> sites, int64_t head) {
  for (const AttentionSite& site : sites) {
    if (head >= site.first && head < site.first + std::ssize(site.heads)) return &site;
  }
  return nullptr;
}

void set_gates(Attention& params, const AttentionSite& site, View<const float, 2> gates) {
  if (gates.data() == nullptr) return;
  params.gates = {gates.data() + site.first * gates.stride(1),
                  {gates.extent(0), std::ssize(site.heads)},
                  gates.strides()};
  params.gate_scope = gates.extent(0) == 1 ? GateScope::kHead : GateScope::kSequence;
}

void check_gates(View<const float, 2> gates, std::span<const AttentionSite> sites, int64_t texts) {
  if (gates.data() == nullptr) return;
  const int64_t heads = sites.empty() ? 0 : sites.back().first + std::ssize(sites.back().heads);
  if (gates.extent(1) == heads && (gates.extent(0) == 1 || gates.extent(0) == texts)) return;
  throw Error({.what = "the gates are not one per head",
               .got = to_string(gates.shape()),
               .expected = fmt::format("[1, {}] or [{}, {}]", heads, texts, heads)});
}

std::vector<int32_t> position_rows(const ModelConfig& config, const TokenBatch& batch,
                                   std::span<const int64_t> positions) {
  std::vector<int32_t> rows(batch.rows());
  // RoBERTa counts from pad + 1, and gives padding inside a text the position of padding.
  int64_t skipped = 0;
  for (int64_t row = 0; row < batch.rows(); ++row) {
    if (positions[row] == 0) skipped = 0;
    const bool padding = config.position_offset > 0 && batch.ids[row] == config.pad;
    skipped += padding ? 1 : 0;
    rows[row] = static_cast<int32_t>(padding ? *config.pad
                                             : positions[row] - skipped + config.position_offset);
  }
  return rows;
}

void check_tokens(const ModelConfig& config, Side side, const TokenBatch& batch,
                  std::span<const int64_t> positions, bool dynamic_ntk) {
  const int64_t longest = dynamic_ntk ? 0 : config.max_positions;
  const int64_t vocabulary = stack_vocabulary(config, side);
  for (int64_t row = 0; row < batch.rows(); ++row) {
    if (batch.ids[row] < 0 || batch.ids[row] >= vocabulary) {
      throw Error({.what = "a token id is not in the vocabulary",
                   .where = fmt::format("token {}", row),
                   .got = fmt::format("{}", batch.ids[row]),
                   .expected = fmt::format("0 to {}", vocabulary - 1)});
    }
    if (longest > 0 && positions[row] >= longest) {
      throw Error({.what = "a text is longer than the model's positions",
                   .got = fmt::format("at least {} tokens", positions[row] + 1),
                   .expected = fmt::format("at most {}", longest),
                   .hint = "split the text, or truncate it when it is encoded"});
    }
  }
  const int64_t types = std::max<int64_t>(1, config.token_types);
  for (const int32_t type : batch.types) {
    if (type >= 0 && type < types) continue;
    throw Error({.what = "a token type is not in the model",
                 .got = fmt::format("{}", type),
                 .expected = fmt::format("0 to {}", types - 1)});
  }
}

}  // namespace headwise
