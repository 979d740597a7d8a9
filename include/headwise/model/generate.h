// Text generation: greedy, by sampling, or by beam search, with a key/value cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "headwise/model/config.h"
#include "headwise/model/model.h"

namespace headwise {

struct GenerateOptions {
  int64_t max_new_tokens = 64;

  // Beam search if there are more than one. A hypothesis of n tokens scores the sum of their log
  // probabilities over n^length_penalty; with early_stopping a text is done as soon as it has as
  // many hypotheses as beams.
  int64_t beams = 1;
  float length_penalty = 1;
  bool early_stopping = false;

  // Drawing, without beams: from the distribution at this temperature, cut to the top_k most
  // probable tokens (0: all) and then to those that make up top_p.
  bool sample = false;
  float temperature = 1;
  int64_t top_k = 0;
  float top_p = 1;
  uint64_t seed = 0;
  uint64_t stream = 0;  // of random numbers for the first text; the others have the next ones

  std::optional<int32_t> decoder_start{};  // of encoder-decoders; none: the config's
  std::vector<int32_t> eos{};              // tokens that end a text
  bool renormalize = false;           // beam search: probabilities of what may be written sum to 1
  std::vector<int32_t> suppressed{};  // tokens that are never written
  std::optional<int32_t> forced_eos{};  // the last token of a text that has reached its length
  ForwardOptions forward{};             // with beams, all texts have the same gates
};

/// As generation_config.json of the folder says, or config.json where there is none. Throws Error
/// for settings that would change the text and are not supported.
GenerateOptions read_generation(const std::filesystem::path& folder, const ModelConfig& config);

/// The token that a decoder starts with. Throws Error if nothing says it.
int32_t decoder_start(const ModelConfig& config, const GenerateOptions& options);

struct Generated {
  std::vector<int32_t> ids{};  // the new tokens, with the one that ended the text
  double score = 0;            // of beam search
};

/// Continues the prompts, or answers the sources of an encoder-decoder; one result per text, which
/// does not depend on the other texts.
std::vector<Generated> generate(const Model& model, const TokenBatch& texts,
                                const GenerateOptions& options);

/// What the decoder of an encoder-decoder reads where nothing is given: its start token, and what
/// the model itself writes for the source, as its folder says. At most `most` new tokens.
std::vector<int32_t> decoder_input(const Model& model, const TokenBatch& source, uint64_t seed,
                                   uint64_t stream, const ForwardOptions& forward = {},
                                   int64_t most = INT64_MAX);

}  // namespace headwise
