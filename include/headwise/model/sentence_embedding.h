// One vector per text: pooled hidden states, as a sentence-transformers folder describes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "headwise/model/model.h"

namespace headwise {

class SentencePooling {
 public:
  /// What modules.json of the folder says, or nothing if there is none. Throws Error for a module
  /// that is not known.
  static std::optional<SentencePooling> find(const std::filesystem::path& folder);

  /// The mean over the tokens of a text, for models that describe nothing.
  static SentencePooling mean();

  static SentencePooling find_or_mean(const std::filesystem::path& folder);

  SentencePooling(SentencePooling&&) noexcept;
  SentencePooling& operator=(SentencePooling&&) noexcept;
  ~SentencePooling();

  /// [B, E] from hidden states [T, C]; every text has at least one token.
  Activations embed(View<const float, 2> hidden, std::span<const int64_t> offsets) const;

  /// Which hidden states of a text it reads; the others may be left out of embed.
  enum class Reads { all, first, last };
  Reads reads() const;

  /// The gradient of embed: dhidden [T, C] is overwritten with that for dembedding [B, E].
  void backward(View<const float, 2> hidden, std::span<const int64_t> offsets,
                View<const float, 2> dembedding, View<float, 2> dhidden) const;

  /// The length to which the folder says that texts are cut.
  std::optional<int64_t> max_tokens() const;

 private:
  struct Parts;
  explicit SentencePooling(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace headwise
