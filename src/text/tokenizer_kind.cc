// The kind of a folder's tokenizer, without its vocabulary.
#include "headwise/text/tokenizer_kind.h"

#include "headwise/io/json.h"
#include "io/file.h"
#include "text/large_json.h"
#include "text/pipeline.h"
#include "text/sentencepiece_model.h"

namespace headwise {

std::optional<std::string> tokenizer_kind(const std::filesystem::path& folder) {
  const std::string file = text::tokenizer_file(folder);
  if (file.empty()) return std::nullopt;
  if (file == "tokenizer.json") {
    const std::string where = (folder / file).string();
    const std::string text = read_file(where);
    const nlohmann::json json = parse_json(text::take_large_values(text).rest, where);
    return text::kind_of(JsonObject(json, where));
  }
  if (file == "source.spm") return "SentencePiece";
  if (file == "vocab.txt") return "WordPiece";
  if (file == "vocab.json") return "byte-level BPE";
  return text::read_sentencepiece_model(folder / file).kind();
}

}  // namespace headwise
