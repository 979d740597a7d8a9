// Llama, T5 and XLM-R from their SentencePiece file: the models that transformers builds of them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "headwise/core/error.h"
#include "text/pipeline.h"
#include "text/sentencepiece_model.h"
#include "text/unicode.h"

namespace headwise::text {
namespace {

using Json = nlohmann::json;
using Pieces = std::vector<SentencePieceModel::Piece>;

// Every way to split a piece in two pieces is a merge; the best pieces merge first, and of a
// piece's own ways the one with the longest left part.
Merges merges_of(const Pieces& pieces, const Vocabulary& vocabulary) {
  struct Candidate {
    BpeMerge merge;
    float score;
    size_t left_size, right_size;  // in characters
  };
  std::vector<Candidate> candidates;
  for (const auto& piece : pieces) {
    if (piece.type != SentencePieceModel::kNormal) continue;
    const size_t first = candidates.size();
    size_t size = 0;
    for (const char byte : piece.text) size += !is_continuation(byte);
    size_t left_size = 0;
    for (size_t at = char_size(piece.text[0]); at < piece.text.size();
         at += char_size(piece.text[at])) {
      ++left_size;
      const auto left = vocabulary.find(std::string_view(piece.text).substr(0, at));
      if (!left) continue;
      const auto right = vocabulary.find(std::string_view(piece.text).substr(at));
      if (right) candidates.push_back({{*left, *right}, piece.score, left_size, size - left_size});
    }
    std::stable_sort(candidates.begin() + static_cast<ptrdiff_t>(first), candidates.end(),
                     [](const Candidate& a, const Candidate& b) {
                       return std::pair(a.merge.left, a.merge.right) <
                              std::pair(b.merge.left, b.merge.right);
                     });
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) {
                     return std::tuple(a.score, a.left_size, a.right_size) >
                            std::tuple(b.score, b.left_size, b.right_size);
                   });
  Merges merges;
  for (const Candidate& candidate : candidates) merges.push_back(candidate.merge);
  return merges;
}

std::vector<AddedToken> declared_tokens(const Pieces& pieces) {
  std::vector<AddedToken> tokens;
  for (const auto& piece : pieces) {
    if (piece.type == SentencePieceModel::kControl) {
      tokens.push_back({.content = piece.text, .special = true});
    } else if (piece.type == SentencePieceModel::kUserDefined) {
      tokens.push_back({.content = piece.text});
    }
  }
  return tokens;
}

Json metaspace(const char* scheme, bool split) {
  return {{"type", "Metaspace"},
          {"replacement", kMetaspace},
          {"prepend_scheme", scheme},
          {"split", split}};
}

class FamilyReader {
 public:
  FamilyReader(const FolderConfig& config, const std::string& file)
      : config_(config),
        where_((config.folder / file).string()),
        model_(read_sentencepiece_model(config.folder / file)) {
    for (const auto& piece : model_.pieces) entries_.emplace_back(piece.text, piece.score);
  }

  TokenizerParts llama() {
    const JsonObject object = config_.object();
    const AddedToken unk = config_.special_token("unk_token", "<unk>");
    const AddedToken bos = config_.special_token("bos_token", "<s>");
    const AddedToken eos = config_.special_token("eos_token", "</s>");
    const bool prefix = object.optional_boolean("add_prefix_space").value_or(true);
    const bool legacy = object.optional_boolean("legacy").value_or(false);
    description_["pre_tokenizer"] = metaspace(!prefix  ? "never"
                                              : legacy ? "always"
                                                       : "first",
                                              false);
    Json steps = {{{"type", "Replace"}, {"pattern", {{"String", kMetaspace}}}, {"content", " "}},
                  {{"type", "ByteFallback"}},
                  {{"type", "Fuse"}}};
    if (prefix) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    description_["decoder"] = {{"type", "Sequence"}, {"decoders", steps}};
    const bool add_bos = object.optional_boolean("add_bos_token").value_or(true);
    const bool add_eos = object.optional_boolean("add_eos_token").value_or(false);
    std::vector<std::string> single, pair;
    for (const char* text : {"$A", "$B"}) {
      std::vector<std::string> one{text};
      const std::string type = text[1] == 'A' ? ":0" : ":1";
      one[0] += type;
      if (add_bos) one.insert(one.begin(), bos.content + type);
      if (add_eos) one.push_back(eos.content + type);
      if (text[1] == 'A') single = one;
      pair.insert(pair.end(), one.begin(), one.end());
    }
    return finish({unk, bos, eos}, single, pair, -1);
  }

  TokenizerParts t5() {
    const AddedToken eos = config_.special_token("eos_token", "</s>");
    const int64_t sentinels =
        config_.object().optional_integer("extra_ids", 0, 10000).value_or(100);
    std::vector<AddedToken> tokens{config_.special_token("pad_token", "<pad>"), eos,
                                   config_.special_token("unk_token", "<unk>")};
    for (int64_t i = sentinels; i-- > 0;) {
      entries_.emplace_back(fmt::format("<extra_id_{}>", i), 0);
      tokens.push_back({.content = entries_.back().first, .special = true});
    }
    spaces_and_map();
    return finish(tokens, {"$A:0", eos.content + ":0"},
                  {"$A:0", eos.content + ":0", "$B:0", eos.content + ":0"}, unknown_piece());
  }

  // fairseq's ids: its own four tokens, then the pieces behind the model's first three.
  TokenizerParts xlm_roberta() {
    const AddedToken bos = config_.special_token("bos_token", "<s>");
    const AddedToken eos = config_.special_token("eos_token", "</s>");
    const AddedToken pad = config_.special_token("pad_token", "<pad>");
    const AddedToken unk = config_.special_token("unk_token", "<unk>");
    const AddedToken mask = config_.special_token("mask_token", "<mask>", true);
    UnigramEntries entries{{bos.content, 0}, {pad.content, 0}, {eos.content, 0}, {unk.content, 0}};
    entries.insert(entries.end(), entries_.begin() + std::min<ptrdiff_t>(3, std::ssize(entries_)),
                   entries_.end());
    entries.emplace_back(mask.content, 0);
    entries_ = std::move(entries);
    spaces_and_map();
    const std::string b = bos.content + ":0", e = eos.content + ":0";
    return finish({bos, pad, eos, unk, mask}, {b, "$A:0", e}, {b, "$A:0", e, e, "$B:0", e}, 3);
  }

 private:
  void spaces_and_map() {
    description_["pre_tokenizer"] = {
        {"type", "Sequence"},
        {"pretokenizers", {{{"type", "WhitespaceSplit"}}, metaspace("always", true)}}};
    description_["decoder"] = metaspace("always", true);
    has_charsmap_ = !model_.charsmap.empty();
  }

  int32_t unknown_piece() const {
    for (size_t i = 0; i < model_.pieces.size(); ++i) {
      if (model_.pieces[i].type == SentencePieceModel::kUnknown) return static_cast<int32_t>(i);
    }
    throw Error({.what = "tokenizer: the SentencePiece model has no piece for what is unknown",
                 .where = where_});
  }

  TokenizerParts finish(std::vector<AddedToken> tokens, const std::vector<std::string>& single,
                        const std::vector<std::string>& pair, int32_t unk) {
    for (const auto& list : {declared_tokens(model_.pieces), more_added_tokens(config_)}) {
      tokens.insert(tokens.end(), list.begin(), list.end());
    }
    const Vocabulary vocabulary = vocabulary_of(entries_, where_);
    description_["added_tokens"] = to_json(tokens);
    description_["post_processor"] = template_json(single, pair, vocabulary);
    const JsonObject description(description_, where_);
    const auto make_model = [&](bool) -> std::unique_ptr<const Model> {
      if (model_.algorithm == SentencePieceModel::kUnigram) {
        return make_unigram(entries_, unk < 0 ? unknown_piece() : unk, unk < 0, where_);
      }
      if (model_.algorithm == SentencePieceModel::kBpe) {
        return make_bpe(vocabulary, merges_of(model_.pieces, vocabulary),
                        {.fuse_unk = true, .byte_fallback = true}, where_);
      }
      throw Error({.what = "tokenizer: a SentencePiece algorithm that is not known",
                   .where = where_,
                   .got = std::to_string(model_.algorithm),
                   .expected = "1 (Unigram) or 2 (BPE)"});
    };
    std::unique_ptr<const Normalizer> normalizer;
    if (has_charsmap_) normalizer = make_charsmap_normalizer(model_.charsmap, where_);
    TokenizerParts parts = assemble(description, false, make_model, std::move(normalizer));
    parts.kind = model_.kind();
    return parts;
  }

  const FolderConfig& config_;
  std::string where_;
  SentencePieceModel model_;
  UnigramEntries entries_;
  Json description_ = Json::object();
  bool has_charsmap_ = false;
};

}  // namespace

TokenizerParts read_sentencepiece_files(const FolderConfig& config, const std::string& file) {
  FamilyReader reader(config, file);
  const std::string usual = file == "spiece.model"              ? "t5"
                            : file == "sentencepiece.bpe.model" ? "xlm-roberta"
                                                                : "llama";
  const std::string family = config.family.empty() ? usual : config.family;
  if (family == "llama" || family == "mistral") return reader.llama();
  if (family == "t5") return reader.t5();
  if (family == "xlm-roberta") return reader.xlm_roberta();
  throw Error({.what = "tokenizer: a family that is not known for a SentencePiece file",
               .where = (config.folder / file).string(),
               .got = family,
               .expected = "llama, mistral, t5 or xlm-roberta, by tokenizer_class in "
                           "tokenizer_config.json or model_type in config.json",
               .hint = "with transformers, save the tokenizer with its tokenizer.json"});
}

}  // namespace headwise::text
