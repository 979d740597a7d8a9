// Looks every id of the vocabulary up once.
#include "observe/token_kinds.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "headwise/core/parallel.h"
#include "text/unicode.h"

namespace headwise {
namespace {

/// Without the mark of a word's inside, and without space around it.
std::string_view bare(std::string_view text, bool word_piece) {
  if (word_piece && text.starts_with("##")) text.remove_prefix(2);
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

bool is_punctuation_mark(const Tokenizer& tokenizer, int32_t id) {
  const std::string text = tokenizer.decode(std::vector<int32_t>{id}, false);
  const std::string_view mark = bare(text, tokenizer.kind() == "WordPiece");
  if (mark.empty() || text::valid_char_size(mark, 0) != mark.size()) return false;
  size_t at = 0;
  return (text::flags_of(text::next_char(mark, at)) & text::kPunctuation) != 0;
}

}  // namespace

TokenKinds::TokenKinds(const MetricContext& context, Marks marks) : context_(context) {
  const ModelConfig& config = context.model.config();
  special_.resize(std::max(config.vocabulary, config.decoder_vocabulary));
  const auto mark = [&](std::optional<int32_t> id) {
    if (id && *id >= 0 && *id < std::ssize(special_)) special_[*id] = 1;
  };
  mark(config.pad);
  mark(config.bos);
  mark(config.decoder_start);
  for (const int32_t id : config.eos) mark(id);
  if (context.tokenizer == nullptr) return;
  for (int32_t id = 0; id < std::ssize(special_) && id < context.tokenizer->size(); ++id) {
    if (context.tokenizer->is_special(id)) special_[id] = 1;
  }
  if (marks == Marks::unknown) return;
  punctuation_.resize(special_.size());
  parallel_panels(std::min(std::ssize(special_), context.tokenizer->size()), 1024,
                  [&](int64_t begin, int64_t end) {
                    for (int64_t id = begin; id < end; ++id) {
                      punctuation_[id] = is_punctuation_mark(*context.tokenizer, id);
                    }
                  });
}

std::vector<uint8_t> TokenKinds::special(const MetricBatch& batch, const TokenBatch& tokens) const {
  std::vector<uint8_t> special;
  for (const int32_t id : tokens.ids) special.push_back(special_[id]);
  if (&tokens != &batch.source) return special;
  for (int64_t b = 0; b < tokens.sequences(); ++b) {
    const std::vector<uint8_t>& put = context_.corpus.texts[batch.texts[b]].encoding.special;
    for (size_t i = 0; i < put.size(); ++i) special[tokens.offsets[b] + i] |= put[i];
  }
  return special;
}

std::vector<uint8_t> TokenKinds::punctuation(const TokenBatch& tokens) const {
  std::vector<uint8_t> marks;
  for (const int32_t id : tokens.ids) marks.push_back(punctuation_[id]);
  return marks;
}

}  // namespace headwise
