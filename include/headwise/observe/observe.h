// Runs a model over data and measures every head.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "headwise/model/model.h"
#include "headwise/observe/corpus.h"
#include "headwise/observe/evaluation.h"
#include "headwise/observe/evidence.h"
#include "headwise/observe/importance.h"
#include "headwise/observe/mean_ablation.h"
#include "headwise/observe/measure_groups.h"
#include "headwise/text/probes.h"
#include "headwise/text/tokenizer.h"
#include "headwise/text/treebank.h"

namespace headwise {

/// The data for measuring heads. Everything may be empty.
struct ObserveData {
  ObservedCorpus corpus{};
  std::vector<TreeSentence> treebank{};
  std::vector<CoreferenceItem> coreference{};

  /// The evaluation set for importance, and the model's folder, which gradients load.
  std::optional<EvaluationSet> evaluation{};
  std::filesystem::path folder{};
};

struct ObserveOptions {
  MeasureSelection measures{};            // those that are asked for
  bool probes = true;                     // built-in sentences and repeated sequences
  bool all_pairs = false;                 // js between layers, too
  std::vector<HeadIndex> only{};          // the heads to write down; empty: all
  std::vector<float> gates{};             // [heads]; empty: all 1
  std::vector<HeadOutput> replaced{};     // outputs of heads of that model that are mean-ablated
  std::optional<ProbeLexicon> lexicon{};  // of the probes; none: English
  uint64_t seed = 0;
  /// Its heads, gates, seed and progress are those of the observation.
  ImportanceOptions importance{};

  /// Progress within the current part. May throw to stop.
  std::function<void(const std::string& part, int64_t done, int64_t total)> progress{};
  /// Called after every part with the evidence so far.
  std::function<void(const Evidence& so_far)> saved{};
};

/// Evidence with the heads of a model and no measures.
Evidence no_evidence(const Model& model);

/// Measures all parts that the data allow and that `so_far` has not finished. Measures of words
/// need a tokenizer. Throws Error for mean-ablated heads where importance is asked for: ablations
/// begin with a model whose heads only have gates.
Evidence observe(const Model& model, const Tokenizer* tokenizer, const ObserveData& data,
                 const ObserveOptions& options = {}, Evidence so_far = {});

/// A text for the corpus. Throws Error if it is empty or longer than the model's positions; `where`
/// names it.
ObservedText observed_text(const Model& model, const Tokenizer& tokenizer, const std::string& text,
                           const std::string& where);

}  // namespace headwise
