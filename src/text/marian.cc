// Marian: SentencePiece cuts the text, vocab.json numbers the pieces; one model for each language.
#include <sentencepiece_processor.h>

#include <utility>

#include "headwise/core/error.h"
#include "io/file.h"
#include "text/large_json.h"
#include "text/pipeline.h"
#include "text/unicode.h"

namespace headwise::text {
namespace {

using sentencepiece::SentencePieceProcessor;

std::unique_ptr<const SentencePieceProcessor> read_model(const std::filesystem::path& path) {
  const std::string file = read_file(path);
  auto model = std::make_unique<SentencePieceProcessor>();
  std::string wrong = file.empty() ? "empty file" : "";
  try {
    if (!file.empty()) {
      const auto status = model->LoadFromSerializedProto({file.data(), file.size()});
      if (!status.ok()) wrong = status.ToString();
    }
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {  // of pieces that the library cannot sort, as with a NUL
    wrong = error.what();
  }
  if (!wrong.empty()) {
    throw Error({.what = "tokenizer: not a SentencePiece model",
                 .where = path.string(),
                 .got = wrong,
                 .hint = "a file fetched with git may be only a pointer to the real one"});
  }
  return model;
}

Vocabulary read_ids(const std::filesystem::path& path) {
  return read_vocabulary(read_file(path), path.string());
}

// As Python's str.strip().
std::string stripped(std::string_view text) {
  const auto is_space = [](char32_t c) {
    return (flags_of(c) & kSpace) || (c >= 0x1C && c <= 0x1F);
  };
  while (!text.empty()) {
    size_t at = 0;
    if (!is_space(next_char(text, at))) break;
    text.remove_prefix(at);
  }
  while (!text.empty()) {
    size_t at = text.size();
    if (!is_space(previous_char(text, at))) break;
    text = text.substr(0, at);
  }
  return std::string(text);
}

class MarianPipeline : public Pipeline {
 public:
  explicit MarianPipeline(const FolderConfig& config)
      : source_(read_model(config.folder / "source.spm")),
        target_(read_model(config.folder / "target.spm")),
        vocabulary_(read_ids(config.folder / "vocab.json")) {
    if (config.object().optional_boolean("separate_vocabs").value_or(false)) {
      target_vocabulary_ = read_ids(config.folder / "target_vocab.json");
    }
    const std::vector<AddedToken> specials{config.special_token("eos_token", "</s>"),
                                           config.special_token("unk_token", "<unk>"),
                                           config.special_token("pad_token", "<pad>")};
    added_ = AddedTokens(specials, vocabulary_, vocabulary_.size(), nullptr);
    const auto unk = vocabulary_.find(specials[1].content);
    if (!unk) {
      throw Error({.what = "tokenizer: the token for what is unknown is not in the vocabulary",
                   .where = (config.folder / "vocab.json").string(),
                   .expected = quote(specials[1].content)});
    }
    unk_ = *unk;
    end_ = *added_.find(specials[0].content);
  }

  int32_t end() const { return end_; }

  void tokenize(std::string_view text, bool target, Workspace& workspace,
                std::vector<PlacedToken>& out) const override {
    take_text(text, workspace);
    SplitText& split = workspace.split;
    added_.split(split, AddedTokens::Where::kSource);
    int32_t word = -1;
    for (const Piece& piece : split.pieces) {
      if (piece.id != kNoToken) {
        put(piece.id, piece.begin, piece.end, ++word, text.size(), workspace, out);
      } else {
        tokenize_piece(piece, target, word, text.size(), workspace, out);
      }
    }
  }

  std::string decode(std::span<const int32_t> ids, bool skip_special) const override {
    const Vocabulary& vocabulary = target_vocabulary_.size() > 0 ? target_vocabulary_ : vocabulary_;
    const SentencePieceProcessor& model = target_vocabulary_.size() > 0 ? *target_ : *source_;
    std::string text;
    std::vector<std::string> pieces;
    const auto flush = [&] {
      std::string part;
      if (!pieces.empty()) model.Decode(pieces, &part).IgnoreError();
      text += part;
      pieces.clear();
    };
    for (const int32_t id : ids) {
      if (is_special(id)) {
        if (skip_special) continue;
        flush();
        text += added_.token(id)->content + " ";
      } else if (vocabulary.has(id)) {
        pieces.emplace_back(vocabulary.token(id));
      }
    }
    flush();
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const bool mark = std::string_view(text).substr(at).starts_with(kMetaspace);
      out += mark ? ' ' : text[at];
      at += mark ? kMetaspace.size() : 1;
    }
    return stripped(out);
  }

  int64_t size() const override {
    return std::max(added_.largest_id(), vocabulary_.largest_id()) + int64_t{1};
  }
  std::string token(int32_t id) const override {
    if (const AddedToken* added = added_.token(id)) return added->content;
    return std::string(vocabulary_.token(id));
  }
  std::optional<int32_t> id(std::string_view token) const override {
    const auto added = added_.find(token);
    return added ? added : vocabulary_.find(token);
  }
  bool is_special(int32_t id) const override { return added_.token(id) != nullptr; }

 private:
  // A language code such as >>fra<< stands before what SentencePiece sees.
  void tokenize_piece(const Piece& piece, bool target, int32_t& word, size_t text_size,
                      Workspace& workspace, std::vector<PlacedToken>& out) const {
    const Vocabulary& vocabulary =
        target && target_vocabulary_.size() > 0 ? target_vocabulary_ : vocabulary_;
    std::string_view rest = workspace.split.bytes(piece);
    uint32_t base = piece.begin;
    const auto id_of = [&](std::string_view token) {
      return vocabulary.find(token).value_or(unk_);
    };
    const size_t code_end = rest.starts_with(">>") ? rest.find("<<") : rest.npos;
    if (code_end != rest.npos) {
      const auto size = static_cast<uint32_t>(code_end + 2);
      put(id_of(rest.substr(0, size)), base, base + size, ++word, text_size, workspace, out);
      rest.remove_prefix(size);
      base += size;
    }
    const auto found =
        (target ? target_ : source_)->EncodeAsImmutableProto({rest.data(), rest.size()});
    for (const auto& one : found.pieces()) {
      if (one.piece().starts_with(kMetaspace) || word < 0) ++word;
      put(id_of(one.piece()), base + one.begin(), base + one.end(), word, text_size, workspace,
          out);
    }
  }

  static void put(int32_t id, uint32_t begin, uint32_t end, int32_t word, size_t text_size,
                  const Workspace& workspace, std::vector<PlacedToken>& out) {
    const AlignedText& text = workspace.split.text;
    Align source;
    if (begin < end) {
      source = text.source(begin, end);
    } else {
      const auto all = static_cast<uint32_t>(text_size);
      source.begin = begin < text.text().size() ? text.align(begin).begin : all;
      source.end = source.begin;
    }
    PlacedToken token = place(source, workspace);
    token.id = id;
    token.word = word;
    out.push_back(token);
  }

  std::unique_ptr<const SentencePieceProcessor> source_;
  std::unique_ptr<const SentencePieceProcessor> target_;
  Vocabulary vocabulary_;
  Vocabulary target_vocabulary_;  // empty: the same
  AddedTokens added_;
  int32_t unk_ = 0;
  int32_t end_ = 0;
};

}  // namespace

TokenizerParts read_marian_files(const FolderConfig& config) {
  TokenizerParts parts{.kind = "SentencePiece"};
  auto pipeline = std::make_unique<MarianPipeline>(config);
  const TemplateItem end{-1, pipeline->end(), 0};
  parts.post_processor.single = {{0, 0, 0}, end};
  parts.post_processor.pair = {{0, 0, 0}, {1, 0, 0}, end};
  parts.pipeline = std::move(pipeline);
  return parts;
}

}  // namespace headwise::text
