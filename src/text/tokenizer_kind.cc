// Reads tokenizer.json until it has said what it is.
#include "headwise/text/tokenizer_kind.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "headwise/core/error.h"
#include "io/file.h"

namespace headwise {
namespace {

/// Listens to the parser; each function says whether to go on.
class KindFinder : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::string kind() const { return type_ == "BPE" && byte_level_ ? "byte-level BPE" : type_; }

  bool start_object(size_t) override {
    path_.emplace_back();
    return true;
  }
  bool end_object() override {
    path_.pop_back();
    return true;
  }
  bool start_array(size_t) override { return start_object(0); }
  bool end_array() override { return end_object(); }
  bool key(std::string& name) override {
    path_.back() = name;
    // Files of the first versions do not name the type of their model.
    const bool in_model = path_.size() == 2 && path_.front() == "model";
    if (in_model && type_.empty() && name == "merges") type_ = "BPE";
    if (in_model && type_.empty() && name == "unk_id") type_ = "Unigram";
    return !in_model || type_.empty();
  }
  bool string(std::string& value) override {
    if (path_.empty() || path_.back() != "type") return true;
    if (value == "ByteLevel") byte_level_ = true;
    if (path_.size() == 2 && path_.front() == "model") type_ = value;
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  std::vector<std::string> path_;
  std::string type_;
  bool byte_level_ = false;
};

}  // namespace

std::optional<std::string> tokenizer_kind(const std::filesystem::path& folder) {
  const auto has = [&](const char* name) { return is_there(folder / name); };
  if (has("tokenizer.json")) {
    const MappedFile file(folder / "tokenizer.json");
    KindFinder finder;
    nlohmann::json::sax_parse(file.text().begin(), file.text().end(), &finder);
    if (finder.kind().empty()) {
      throw Error({.what = "the tokenizer does not say what it is",
                   .where = file.path().string(),
                   .expected = "an object with \"model\": {\"type\": …}"});
    }
    return finder.kind();
  }
  if (has("source.spm") || has("tokenizer.model") || has("spiece.model") ||
      has("sentencepiece.bpe.model")) {
    return "SentencePiece";
  }
  if (has("vocab.txt")) return "WordPiece";
  if (has("vocab.json") && has("merges.txt")) return "byte-level BPE";
  return std::nullopt;
}

}  // namespace headwise
