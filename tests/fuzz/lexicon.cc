// Any lexicon is refused by name, or gives probes: sentences that are trees and can be read again,
// the same ones each time, however many are asked for.
#include <algorithm>

#include "files.h"
#include "fuzz.h"
#include "headwise/text/probes.h"
#include "json_mutator.h"

namespace headwise {
namespace {

using fuzz::must;

void check_span(const std::string& text, TokenSpan span) {
  must(span.begin >= 0 && span.begin < span.end && span.end <= std::ssize(text),
       "no part of the text");
}

void check(const ProbeLexicon& lexicon) {
  constexpr int64_t kCount = 6;
  const std::vector<TreeSentence> sentences = probe_sentences(lexicon, kCount, 1);
  must(read_conllu(fuzz::MemoryFile(to_conllu(sentences)).path()) == sentences, "sentences change");
  const std::vector<TreeSentence> fewer = probe_sentences(lexicon, kCount / 2, 1);
  must(std::equal(fewer.begin(), fewer.end(), sentences.begin()), "fewer sentences are other ones");
  for (const CoreferenceItem& item : probe_coreference(lexicon, kCount, 1)) {
    for (const TokenSpan span : {item.pronoun, item.right, item.wrong}) check_span(item.text, span);
  }
  for (const FieldItem& item : probe_fields(lexicon, kCount, 1)) {
    must(item.words.size() == item.fields.size(), "words without fields");
    for (const TokenSpan span : item.words) check_span(item.text, span);
  }
  for (const RareItem& item : probe_rare(lexicon, kCount, 1)) check_span(item.text, item.word);
}

}  // namespace
}  // namespace headwise

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headwise;
  fuzz::succeeds([&] {
    const ProbeLexicon lexicon = ProbeLexicon::parse(fuzz::text(data, size), "lexicon.json");
    must(lexicon.source() == fuzz::text(data, size), "another source");
    check(lexicon);
  });
  return 0;
}
