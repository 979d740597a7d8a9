// Tokens that are found in the text itself: the leftmost, and of those the longest.
#include "text/added_tokens.h"

#include <algorithm>

#include "text/unicode.h"

namespace headwise::text {
namespace {

bool ends_with_word(std::string_view text) {
  size_t at = text.size();
  return at > 0 && (flags_of(previous_char(text, at)) & kWord);
}

bool starts_with_word(std::string_view text) {
  size_t at = 0;
  return !text.empty() && (flags_of(next_char(text, at)) & kWord);
}

size_t without_space_at_end(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t before = end;
    if (!(flags_of(previous_char(text, before)) & kSpace)) break;
    end = before;
  }
  return end;
}

size_t space_at_start(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    size_t behind = at;
    if (!(flags_of(next_char(text, behind)) & kSpace)) break;
    at = behind;
  }
  return at;
}

}  // namespace

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens, const Vocabulary& vocabulary,
                         size_t free, const Normalizer* normalizer) {
  auto next = static_cast<int32_t>(free);
  for (const AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    check_token_length(token.content, "added tokens");
    const auto known = find(token.content);
    const auto in_vocabulary = known ? known : vocabulary.find(token.content);
    const int32_t id = in_vocabulary ? *in_vocabulary : next++;
    std::string normalized = token.content;
    if (token.normalized && normalizer != nullptr) {
      AlignedText text;
      text.reset(token.content, 0);
      normalizer->apply(text);
      normalized = text.text();
      check_token_length(normalized, "added tokens, normalized");
    }
    const AddedToken* before = this->token(id);
    const bool special = token.special || (before != nullptr && before->special);
    tokens_[id] = {token, std::move(normalized)};
    tokens_[id].token.special = special;  // once special, it stays so
    ids_[token.content] = id;
  }
  source_ = make_matcher(false);
  normalized_ = make_matcher(true);
}

AddedTokens::Matcher AddedTokens::make_matcher(bool normalized) const {
  std::vector<std::pair<std::string_view, int32_t>> entries;
  Matcher matcher;
  for (const auto& [id, entry] : tokens_) {
    if (entry.token.normalized != normalized || entry.normalized.empty()) continue;
    entries.emplace_back(entry.normalized, id);
    matcher.starts[static_cast<uint8_t>(entry.normalized[0])] = true;
  }
  matcher.trie = Trie(std::move(entries));
  return matcher;
}

void AddedTokens::split(SplitText& text, Where where) const {
  const Matcher& matcher = where == Where::kSource ? source_ : normalized_;
  if (matcher.trie.empty()) return;
  text.new_pieces.clear();
  for (const Piece& piece : text.pieces) {
    if (piece.id != kNoToken) {
      text.new_pieces.push_back(piece);
    } else {
      split_piece(matcher, text, piece, text.new_pieces);
    }
  }
  text.pieces.swap(text.new_pieces);
}

void AddedTokens::split_piece(const Matcher& matcher, const SplitText& text, const Piece& piece,
                              std::vector<Piece>& out) const {
  const std::string_view bytes = text.bytes(piece);
  size_t done = 0;
  const auto put = [&](size_t begin, size_t end, int32_t id) {
    out.push_back(
        {piece.begin + static_cast<uint32_t>(begin), piece.begin + static_cast<uint32_t>(end), id});
  };
  for (size_t at = 0; at < bytes.size();) {
    if (!matcher.starts[static_cast<uint8_t>(bytes[at])]) {
      ++at;
      continue;
    }
    const Trie::Longest match = matcher.trie.longest_prefix(bytes.substr(at));
    if (match.size == 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_.at(match.value).token;
    size_t begin = at;
    size_t end = at + match.size;
    at = end;
    if (token.single_word &&
        (ends_with_word(bytes.substr(0, begin)) || starts_with_word(bytes.substr(end)))) {
      continue;
    }
    if (token.lstrip) begin = done + without_space_at_end(bytes.substr(done, begin - done));
    if (token.rstrip) end += space_at_start(bytes.substr(end));
    if (begin > done) put(done, begin, kNoToken);
    put(begin, end, match.value);
    done = end;
  }
  if (done < bytes.size()) put(done, bytes.size(), kNoToken);
}

std::optional<int32_t> AddedTokens::find(std::string_view token) const {
  const auto found = ids_.find(std::string(token));
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

const AddedToken* AddedTokens::token(int32_t id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second.token;
}

const std::string& AddedTokens::normalized(int32_t id) const { return tokens_.at(id).normalized; }

}  // namespace headwise::text
