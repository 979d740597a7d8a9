// Any bytes are a treebank, or items of coreference, that can be written and read again, or are
// refused.
#include <string>
#include <vector>

#include "files.h"
#include "fuzz.h"
#include "headwise/text/treebank.h"
#include "text/unicode.h"

namespace headwise {
namespace {

using fuzz::MemoryFile;
using fuzz::must;
using fuzz::succeeds;

void check_span(const std::string& text, TokenSpan span) {
  must(span.begin >= 0 && span.begin < span.end && span.end <= std::ssize(text), "no part of text");
  must(!text::is_continuation(text[span.begin]), "half a character");
  must(span.end == std::ssize(text) || !text::is_continuation(text[span.end]), "half a character");
}

void check_trees(const std::vector<TreeSentence>& sentences) {
  for (const TreeSentence& sentence : sentences) {
    int64_t roots = 0;
    for (const TreeWord& word : sentence.words) {
      roots += word.head == -1;
      must(word.head >= -1 && word.head < std::ssize(sentence.words), "a head that is no word");
      check_span(sentence.text, word.bytes);
    }
    must(roots == 1, "no tree");
  }
  must(read_conllu(MemoryFile(to_conllu(sentences)).path()) == sentences, "trees change");
}

void check_items(const std::vector<CoreferenceItem>& items) {
  for (const CoreferenceItem& item : items) {
    for (const TokenSpan& span : {item.pronoun, item.right, item.wrong}) {
      check_span(item.text, span);
    }
  }
  succeeds([&] {  // ids may have what cannot be written
    must(read_gap(MemoryFile(to_gap(items)).path()) == items, "items change");
  });
}

}  // namespace
}  // namespace headwise

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headwise;
  const MemoryFile file(fuzz::text(data, size));
  succeeds([&] { check_trees(read_conllu(file.path())); });
  succeeds([&] { check_items(read_gap(file.path())); });
  succeeds([&] { check_items(read_entities(file.path())); });
  return 0;
}
