// The texts that observe and compare are given.
#pragma once

#include <cstdint>
#include <string>

#include "headwise/observe/corpus.h"
#include "inputs.h"
#include "verb.h"

namespace headwise::program {

struct CorpusOptions {
  std::string alignment{};  // a file with a line for each input; empty: none
  int64_t sample = 0;       // at most so many texts; 0: all
};

/// All inputs but empty ones. Decoders that are given nothing read what the model would write.
ObservedCorpus read_corpus(const InputOptions& input_options, const Session& session,
                           const CommonOptions& common, const CorpusOptions& options = {});

}  // namespace headwise::program
