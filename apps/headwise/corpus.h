// The texts that observe and compare are given, and the files of a loss.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "headwise/observe/corpus.h"
#include "headwise/observe/evaluation.h"
#include "inputs.h"

namespace headwise::program {

struct CorpusOptions {
  std::string alignment{};  // a file with a line for each input; empty: none
  int64_t sample = 0;       // at most so many texts; 0: all
};

/// Keeps `count` items in their order, drawn by the seed; 0: all.
template <class T>
void keep_sample(std::vector<T>& items, int64_t count, uint64_t seed) {
  if (count == 0) return;
  std::vector<T> kept;
  for (const int64_t i : sample(count, std::ssize(items), seed)) {
    kept.push_back(std::move(items[i]));
  }
  items = std::move(kept);
}

/// All inputs but empty ones. Decoders that are given nothing read what the model would write.
ObservedCorpus read_corpus(const InputOptions& input_options, const Session& session,
                           const CommonOptions& common, const CorpusOptions& options = {});

/// What --data or --recover names, for a loss; `truncate` cuts texts that are too long. Throws
/// Error for models without a tokenizer, and for fidelity of encoder-decoders, which would be that
/// of the encoder alone.
EvaluationSet read_examples(const char* option, const std::vector<std::string>& files,
                            LossTask task, bool truncate, const Session& session);

}  // namespace headwise::program
