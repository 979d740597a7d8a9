// The pipeline of a tokenizer.json: added tokens, normalizer, pre-tokenizer, model; and back.
#include "text/pipeline.h"

#include <algorithm>
#include <utility>

#include "headwise/core/error.h"
#include "text/unicode.h"

namespace headwise::text {
namespace {

struct SpaceCounts {
  uint32_t before = 0;
  uint32_t behind = 0;
};

// The mark of a space in GPT-2's alphabet counts as space.
SpaceCounts count_space(std::string_view token) {
  const auto is_space = [](char32_t c) { return c == 0x120 || (flags_of(c) & kSpace); };
  SpaceCounts counts;
  for (size_t at = 0; at < token.size() && is_space(next_char(token, at));) ++counts.before;
  for (size_t at = token.size(); at > 0 && is_space(previous_char(token, at));) ++counts.behind;
  return counts;
}

class StandardPipeline : public Pipeline {
 public:
  explicit StandardPipeline(PipelineParts parts)
      : parts_(std::move(parts)),
        added_(parts_.added_tokens, parts_.model->vocabulary(), parts_.model->entries(),
               parts_.normalizer.get()) {
    if (!parts_.needs_space_counts) return;
    const Vocabulary& vocabulary = parts_.model->vocabulary();
    space_counts_.resize(static_cast<size_t>(vocabulary.largest_id() + 1));
    for (size_t i = 0; i < vocabulary.size(); ++i) {
      space_counts_[static_cast<size_t>(vocabulary.id_at(i))] = count_space(vocabulary.token_at(i));
    }
  }

  void tokenize(std::string_view text, bool, Workspace& workspace,
                std::vector<PlacedToken>& out) const override {
    take_text(text, workspace);
    split(workspace);
    const auto& pieces = workspace.split.pieces;
    for (size_t i = 0; i < pieces.size(); ++i) {
      place_tokens(pieces[i], static_cast<int32_t>(i), text.size(), workspace, out);
    }
  }

  std::string decode(std::span<const int32_t> ids, bool skip_special) const override {
    std::vector<std::string> tokens;
    for (const int32_t id : ids) {
      if (const AddedToken* added = added_.token(id)) {
        if (!skip_special || !added->special) tokens.push_back(added_.normalized(id));
      } else if (parts_.model->vocabulary().has(id)) {
        tokens.emplace_back(parts_.model->vocabulary().token(id));
      }
    }
    if (parts_.decoder) parts_.decoder->apply(tokens);
    std::string text;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && !parts_.decoder) text += ' ';
      text += tokens[i];
    }
    return text;
  }

  int64_t size() const override {
    return std::max(added_.largest_id(), parts_.model->vocabulary().largest_id()) + int64_t{1};
  }

  std::string token(int32_t id) const override {
    if (const AddedToken* added = added_.token(id)) return added->content;
    return std::string(parts_.model->vocabulary().token(id));
  }

  std::optional<int32_t> id(std::string_view token) const override {
    const auto added = added_.find(token);
    return added ? added : parts_.model->vocabulary().find(token);
  }

  bool is_special(int32_t id) const override {
    const AddedToken* added = added_.token(id);
    return added != nullptr && added->special;
  }

 private:
  void split(Workspace& workspace) const {
    SplitText& split = workspace.split;
    added_.split(split, AddedTokens::Where::kSource);
    if (parts_.normalizer) normalize(workspace);
    added_.split(split, AddedTokens::Where::kNormalized);
    if (parts_.pre_tokenizer) parts_.pre_tokenizer->apply(split);
  }

  void normalize(Workspace& workspace) const {
    SplitText& split = workspace.split;
    if (split.pieces.size() == 1 && split.pieces[0].id == kNoToken) {
      parts_.normalizer->apply(split.text);
      split.pieces[0].end = static_cast<uint32_t>(split.text.text().size());
      if (split.pieces[0].end == 0) split.pieces.clear();
      return;
    }
    AlignedText& joined = workspace.joined;
    joined.reset_empty(split.text.source_size());
    split.new_pieces.clear();
    for (const Piece& piece : split.pieces) {
      const auto begin = static_cast<uint32_t>(joined.text().size());
      if (piece.id != kNoToken) {
        joined.append(split.text, piece.begin, piece.end);
      } else {
        AlignedText& part = workspace.part;
        part.assign(split.text, piece.begin, piece.end);
        parts_.normalizer->apply(part);
        joined.append(part, 0, part.text().size());
      }
      const auto end = static_cast<uint32_t>(joined.text().size());
      if (end > begin) split.new_pieces.push_back({begin, end, piece.id});
    }
    std::swap(split.text, joined);
    split.pieces.swap(split.new_pieces);
  }

  void place_tokens(const Piece& piece, int32_t word, size_t text_size, Workspace& workspace,
                    std::vector<PlacedToken>& out) const {
    const SplitText& split = workspace.split;
    if (piece.id != kNoToken) {
      PlacedToken token = place(split.text.source(piece.begin, piece.end), workspace);
      token.id = piece.id;
      token.word = word;
      if (parts_.needs_space_counts) {
        const SpaceCounts counts = count_space(split.bytes(piece));
        token.space_before = counts.before;
        token.space_behind = counts.behind;
      }
      out.push_back(token);
      return;
    }
    workspace.tokens.clear();
    parts_.model->tokenize(split.bytes(piece), workspace.model, workspace.tokens);
    const uint32_t size = piece.end - piece.begin;
    for (const ModelToken& found : workspace.tokens) {
      // A model that adds characters may count beyond its word; the package then leaves its count.
      const auto most = static_cast<uint32_t>(text_size);
      const Align source =
          found.end <= size ? split.text.source(piece.begin + found.begin, piece.begin + found.end)
                            : Align{std::min(found.begin, most), std::min(found.end, most)};
      PlacedToken token = place(source, workspace);
      token.id = found.id;
      token.word = word;
      if (parts_.needs_space_counts) {
        const SpaceCounts counts =
            parts_.model->shows_text(found.id)
                ? count_space(split.bytes(piece).substr(found.begin, found.end - found.begin))
                : space_counts_[static_cast<size_t>(found.id)];
        token.space_before = counts.before;
        token.space_behind = counts.behind;
      }
      out.push_back(token);
    }
  }

  PipelineParts parts_;
  AddedTokens added_;
  std::vector<SpaceCounts> space_counts_;  // by id
};

/// The index of the code point that each byte belongs to, and their number at the end; bytes that
/// are no UTF-8 count for themselves. Empty for ASCII.
void index_code_points(std::string_view text, std::vector<uint32_t>& out) {
  out.clear();
  if (is_ascii(text)) return;
  out.resize(text.size() + 1);
  uint32_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) {
    const size_t end = at + std::max<size_t>(valid_char_size(text, at), 1);
    for (; at < end; ++at) out[at] = count;
  }
  out[text.size()] = count;
}

}  // namespace

void take_text(std::string_view text, Workspace& workspace) {
  constexpr size_t kLongest = size_t{1} << 30;  // so that places fit 32 bits, also when it grows
  if (text.size() > kLongest) {
    throw Error({.what = "tokenizer: the text is too long",
                 .got = std::to_string(text.size()) + " bytes",
                 .expected = "at most " + std::to_string(kLongest),
                 .hint = "encode it in parts"});
  }
  SplitText& split = workspace.split;
  if (is_valid_utf8(text)) {
    split.text.reset(text, 0);
  } else {
    split.text.reset_repaired(text);
  }
  split.pieces.clear();
  if (!text.empty()) split.pieces.push_back({0, static_cast<uint32_t>(split.text.text().size())});
  index_code_points(text, workspace.code_points);
}

PlacedToken place(Align source, const Workspace& workspace) {
  const auto& code_points = workspace.code_points;
  PlacedToken token{.bytes = {source.begin, source.end}};
  token.code_points = code_points.empty()
                          ? token.bytes
                          : TokenSpan{code_points[source.begin], code_points[source.end]};
  return token;
}

int64_t byte_after(std::string_view text, int64_t byte, int64_t code_points) {
  auto at = static_cast<size_t>(byte);
  for (; code_points > 0 && at < text.size(); --code_points) {
    at += std::max<size_t>(valid_char_size(text, at), 1);
  }
  return static_cast<int64_t>(at);
}

int64_t byte_before(std::string_view text, int64_t byte, int64_t code_points) {
  auto at = static_cast<size_t>(byte);
  for (; code_points > 0 && at > 0; --code_points) {
    size_t begin = at - 1;
    for (size_t size = 2; size <= 4 && size <= at; ++size) {
      if (valid_char_size(text, at - size) == size) begin = at - size;
    }
    at = begin;
  }
  return static_cast<int64_t>(at);
}

std::unique_ptr<const Pipeline> make_pipeline(PipelineParts parts) {
  return std::make_unique<StandardPipeline>(std::move(parts));
}

}  // namespace headwise::text
