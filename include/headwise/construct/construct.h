// Compiles programs of select and aggregate into the weights of a model without norms.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "headwise/construct/program.h"
#include "headwise/model/model.h"

namespace headwise {

struct ConstructOptions {
  int64_t max_heads = 0;       // of a layer; 0: any number
  int64_t check_texts = 1000;  // that the model is compared with the program on; see below
  uint64_t seed = 0;           // of texts that are drawn
};

/// A layer of a constructed model, and what its parts compute.
struct ConstructedLayer {
  std::vector<std::string> heads{};         // "count = selector_width(select(true))"
  std::vector<std::string> feed_forward{};  // one per sequence that it writes
};

/// A constructed model against the plain evaluation of its program.
struct ConstructionCheck {
  int64_t texts = 0, tokens = 0;
  int64_t different = 0;  // tokens whose label is not what the program gives
  int64_t refused = 0;    // texts that the program has no answer for; not among `texts`
  bool all = false;       // every text that there is; else drawn ones
};

struct Construction {
  std::vector<ConstructedLayer> layers{};
  int64_t width = 0;                  // C
  int64_t intermediate = 0;           // units of a feed-forward layer
  int64_t parameters = 0;             // most of them are 0
  std::vector<std::string> labels{};  // what the model can answer; the first is that of [BOS]
  ConstructionCheck check{};

  int64_t heads() const;       // of all layers
  int64_t most_heads() const;  // of one layer
};

/// What a program compiles into, without writing it. Throws Error if the program is too large.
Construction plan_construction(const Program& program, const ConstructOptions& options = {});

/// Writes a folder with config.json, model.safetensors, tokenizer.json and program.json, whole or
/// not at all. The model classifies tokens: the label of a token is what the program gives there.
/// Every text begins with [BOS], which the tokenizer adds. Throws Error if the model gives
/// something else than the program.
Construction construct(const Program& program, const ConstructOptions& options,
                       const std::filesystem::path& folder);

/// Compares a constructed model with its program on every text, or on `texts` drawn ones if there
/// are more.
ConstructionCheck check_construction(const Model& model, const Program& program, int64_t texts,
                                     uint64_t seed);

}  // namespace headwise
