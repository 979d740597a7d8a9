// The pairs of tokens that BPE joins, found in counted words.
#pragma once

#include <cstdint>
#include <vector>

#include "text/model.h"
#include "text/vocabulary.h"

namespace headwise::text {

/// Words as bytes, and how often each was seen.
struct CountedWords {
  Vocabulary words{};  // in the order they were first seen; the ids are their places
  std::vector<int64_t> counts{};
  size_t bytes = 0;

  void add(std::string_view word);
};

struct LearnedBpe {
  std::vector<std::string> tokens{};  // by id, in GPT-2's alphabet but for the special ones
  Merges merges{};
};

/// Joins the most frequent pair within words, among equals the one with the smallest ids, until
/// there are `vocabulary` tokens or the best pair was seen less than `min_frequency` times. The
/// first tokens are `special`, then come the 256 bytes.
LearnedBpe learn_bpe(const CountedWords& words, const std::vector<std::string>& special,
                     int64_t vocabulary, int64_t min_frequency);

}  // namespace headwise::text
