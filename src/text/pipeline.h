// What stands behind a Tokenizer: text to tokens with their places, and tokens to text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/text/tokenizer.h"
#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/model.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"

namespace headwise::text {

/// A token and its place in the text.
struct PlacedToken {
  int32_t id = 0;
  int32_t word = 0;
  TokenSpan bytes{};
  TokenSpan code_points{};
  uint32_t space_before = 0;  // how many characters of the token are space at its begin
  uint32_t space_behind = 0;
};

/// What one thread needs while it encodes; kept for the next time.
struct Workspace {
  SplitText split;
  AlignedText part;
  AlignedText joined;
  ModelScratch model;
  std::vector<ModelToken> tokens;
  std::vector<uint32_t> code_points;  // the index of each byte's code point; empty for ASCII
  std::vector<PlacedToken> placed[2];
};

/// Makes the text the one piece of the workspace. Throws Error for one that is too long.
void take_text(std::string_view text, Workspace& workspace);

/// A token without id at this place of the text.
PlacedToken place(Align source, const Workspace& workspace);

/// The byte that so many code points come behind or before.
int64_t byte_after(std::string_view text, int64_t byte, int64_t code_points);
int64_t byte_before(std::string_view text, int64_t byte, int64_t code_points);

class Pipeline {
 public:
  virtual ~Pipeline() = default;
  virtual void tokenize(std::string_view text, bool target, Workspace& workspace,
                        std::vector<PlacedToken>& out) const = 0;
  virtual std::string decode(std::span<const int32_t> ids, bool skip_special) const = 0;
  virtual int64_t size() const = 0;
  virtual std::string token(int32_t id) const = 0;
  virtual std::optional<int32_t> id(std::string_view token) const = 0;
  virtual bool is_special(int32_t id) const = 0;
};

/// The parts of a tokenizer.json; only the model must be there.
struct PipelineParts {
  std::unique_ptr<const Normalizer> normalizer{};
  std::unique_ptr<const PreTokenizer> pre_tokenizer{};
  std::unique_ptr<const Model> model{};
  std::unique_ptr<const Decoder> decoder{};
  std::vector<AddedToken> added_tokens{};
  bool needs_space_counts = false;  // a post-processor trims offsets
};
std::unique_ptr<const Pipeline> make_pipeline(PipelineParts parts);

/// All of a tokenizer.
struct TokenizerParts {
  std::string kind{};
  std::unique_ptr<const Pipeline> pipeline{};
  PostProcessor post_processor{};
  Tokenizer::SpecialTokens special_tokens{};
  bool clean_up_spaces = false;
  bool truncate_left = false;
  bool pad_left = false;
  std::optional<int32_t> pad_id{};  // else the pad token's
  int32_t pad_type = 0;
};

/// From the parts that `description` has as a tokenizer.json has them, all but the model.
/// `make_model` is told whether the words come as bytes, which they do only if `can_read_bytes`.
TokenizerParts assemble(const JsonObject& description, bool can_read_bytes,
                        const std::function<std::unique_ptr<const Model>(bool)>& make_model,
                        std::unique_ptr<const Normalizer> normalizer = nullptr);

/// What a folder says about its tokenizer beside the vocabulary.
struct FolderConfig {
  std::filesystem::path folder{};
  nlohmann::json tokenizer{};        // tokenizer_config.json; an empty object if there is none
  nlohmann::json specials{};         // special_tokens_map.json, likewise
  std::string family{};              // "bert", "roberta", "llama", …; empty if nothing says it
  bool takes_json_as_it_is = false;  // the class is transformers' general one

  JsonObject object() const;  // tokenizer_config.json

  /// "bos_token" and such: the content, or nothing.
  std::optional<std::string> special(const char* name) const;
  /// The same with its flags, as a special token that the text may contain.
  AddedToken special_token(const char* name, const char* usual, bool lstrip = false) const;
};

/// The file that a folder's tokenizer is read from: the first of those that there are. Empty if
/// there is none.
std::string tokenizer_file(const std::filesystem::path& folder);

TokenizerParts read_tokenizer_json(const FolderConfig& config);

/// The kind of tokenizer that a tokenizer.json describes.
std::string kind_of(const JsonObject& file);

/// Changes a tokenizer.json to what the class of its tokenizer makes of it in transformers.
void build_as_class(const FolderConfig& config, nlohmann::json& file);

/// Each reads the files of a family, without tokenizer.json; added tokens of other files go behind.
TokenizerParts read_word_piece_files(const FolderConfig& config);  // vocab.txt
TokenizerParts read_byte_level_files(const FolderConfig& config);  // vocab.json, merges.txt
TokenizerParts read_sentencepiece_files(const FolderConfig& config, const std::string& file);
TokenizerParts read_marian_files(const FolderConfig& config);  // source.spm, target.spm, vocab.json

/// Tokens of added_tokens.json and of tokenizer_config.json, in the order of their ids.
std::vector<AddedToken> more_added_tokens(const FolderConfig& config);

/// As tokenizer.json has them.
nlohmann::json to_json(const std::vector<AddedToken>& tokens);
nlohmann::json template_json(const std::vector<std::string>& single,
                             const std::vector<std::string>& pair, const Vocabulary& vocabulary);

/// From what the folder has; nothing if it has no tokenizer.
std::optional<TokenizerParts> read_tokenizer_folder(const std::filesystem::path& folder);

}  // namespace headwise::text
