// Texts as data for measuring heads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "headwise/model/model.h"
#include "headwise/observe/observe.h"

namespace headwise {

struct TextOptions {
  std::string name = "texts";      // of the corpus
  bool truncate = false;           // cut texts that are too long for the model; or refuse them
  std::optional<LossTask> loss{};  // none: default_task
  uint64_t seed = 0;               // of what decoders write
  /// Texts done and all of them. May throw to stop.
  std::function<void(int64_t done, int64_t total)> progress{};
};

/// The texts, without those that are empty, and the loss that is taken over them. The decoder of an
/// encoder-decoder reads what the model writes. Throws Error, with the number of the text, for one
/// that the model cannot take, and for models without a tokenizer.
ObserveData text_data(const Model& model, std::span<const std::string> texts,
                      const TextOptions& options = {});

/// The sentences of a treebank as texts, where no others are given: what heads attend to can be
/// seen in any text.
ObservedCorpus corpus_of(const Model& model, std::span<const TreeSentence> treebank,
                         std::string name);

/// Pronouns and names: CoNLL-U with Entity= by its ending .conllu or .conllu.gz, else GAP's
/// columns.
std::vector<CoreferenceItem> read_coreference(const std::filesystem::path& file);

/// The loss of texts alone: of next tokens, of hidden tokens, or fidelity. None for a loss that
/// needs labels, for masked LM without a mask token, and for texts that have nothing to score
/// where no loss is asked for.
std::optional<EvaluationSet> evaluation_of(const Model& model, const ObservedCorpus& corpus,
                                           std::optional<LossTask> loss = std::nullopt);

/// Measures all heads on these texts, those that are too long being cut.
Evidence observe(const Model& model, std::span<const std::string> texts,
                 const ObserveOptions& options = {});

}  // namespace headwise
