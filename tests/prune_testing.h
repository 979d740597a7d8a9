// What the tests of pruned models share.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "golden/folder.h"
#include "headwise/core/random.h"
#include "headwise/model/model.h"
#include "headwise/prune/prune.h"

namespace headwise {

/// The largest difference that float32 may make, relative to the largest value.
inline constexpr double kTolerance = 2e-5;

inline TokenBatch texts_for(const ModelConfig& config, int64_t vocabulary, uint64_t seed) {
  Random random(seed);
  TokenBatch batch;
  for (const int64_t tokens : {7, 12, 1, 4}) {
    std::vector<int32_t> ids;
    while (std::ssize(ids) < tokens) {
      const auto id = static_cast<int32_t>(random.below(static_cast<uint32_t>(vocabulary)));
      if (id != config.pad) ids.push_back(id);
    }
    batch.add(ids);
  }
  return batch;
}

struct Texts {
  explicit Texts(const ModelConfig& config) : source(texts_for(config, config.vocabulary, 1)) {
    if (config.encoder_decoder()) target = texts_for(config, config.decoder_vocabulary, 2);
  }
  TokenBatch source{}, target{};
};

inline Activations hidden(const Model& model, const Texts& texts,
                          const std::vector<float>& gates = {},
                          ForwardObserver* observer = nullptr) {
  ForwardOptions options{.observer = observer};
  if (!gates.empty()) options.gates = {gates.data(), {1, std::ssize(gates)}};
  return texts.target.sequences() > 0 ? model.forward(texts.source, texts.target, options)
                                      : model.forward(texts.source, options);
}

inline double difference(const Activations& a, const Activations& b) {
  double largest = 0, error = 0;
  for (int64_t i = 0; i < a.rows.extent(0) * a.rows.extent(1); ++i) {
    largest = std::max<double>(largest, std::abs(a.rows.data()[i]));
    error = std::max<double>(error, std::abs(a.rows.data()[i] - b.rows.data()[i]));
  }
  return error / largest;
}

inline std::vector<float> gates_without(const Model& model, const std::vector<std::string>& drop) {
  std::vector<float> gates(model.heads(), 1);
  for (const std::string& name : drop) {
    for (const HeadIndex head : model.find_heads(name)) {
      gates[model.attentions()[head.site].first + head.index] = 0;
    }
  }
  return gates;
}

inline EquivalenceCheck prune_to(const std::filesystem::path& folder,
                                 const std::vector<std::string>& drop,
                                 const std::filesystem::path& out,
                                 const PruneOptions& options = {}) {
  PruneOptions to = options;
  to.out = out;
  return prune(load(folder), drop, to).report().proof;
}

}  // namespace headwise
