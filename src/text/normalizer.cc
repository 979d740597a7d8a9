// The normalizers of a tokenizer.json that need only a few lines each.
#include "text/normalizer.h"

#include <utility>
#include <vector>

#include "headwise/core/error.h"
#include "text/base64.h"
#include "text/byte_alphabet.h"
#include "text/patterns.h"
#include "text/unicode.h"

namespace headwise::text {
namespace {

class SequenceNormalizer : public Normalizer {
 public:
  explicit SequenceNormalizer(std::vector<std::unique_ptr<const Normalizer>> steps)
      : steps_(std::move(steps)) {}
  void apply(AlignedText& text) const override {
    for (const auto& step : steps_) step->apply(text);
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> steps_;
};

class Lowercase : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    const std::string& bytes = text.text();
    if (is_ascii(bytes)) {
      for (size_t at = 0; at < bytes.size(); ++at) {
        if (bytes[at] >= 'A' && bytes[at] <= 'Z') {
          text.overwrite(at, static_cast<char>(bytes[at] + 32));
        }
      }
      return;
    }
    const uint16_t* table = flag_table();
    text.begin_rewrite();
    for (size_t at = 0; at < bytes.size();) {
      const Align align = text.align(at);
      const char32_t c = next_char(bytes, at);
      const LowerCase lower = flags_of(table, c) & kLowers ? lower_case(c) : LowerCase{c, 0};
      text.put(lower.first, align);
      if (lower.second != 0) text.put(lower.second, align);
    }
    text.end_rewrite();
  }
};

/// Replaces or removes single characters: `map` gives the new one, or kRemoved.
constexpr char32_t kRemoved = 0xFFFFFFFF;
class CharMap : public Normalizer {
 public:
  explicit CharMap(char32_t (*map)(char32_t)) : map_(map) {}
  void apply(AlignedText& text) const override {
    const std::string& bytes = text.text();
    if (is_unchanged(bytes)) return;
    text.begin_rewrite();
    for (size_t at = 0; at < bytes.size();) {
      const Align align = text.align(at);
      const char32_t c = map_(next_char(bytes, at));
      if (c != kRemoved) text.put(c, align);
    }
    text.end_rewrite();
  }

 private:
  bool is_unchanged(std::string_view bytes) const {
    for (size_t at = 0; at < bytes.size();) {
      const char32_t c = next_char(bytes, at);
      if (map_(c) != c) return false;
    }
    return true;
  }
  char32_t (*map_)(char32_t);
};

char32_t without_marks(char32_t c) { return flags_of(c) & kCombining ? kRemoved : c; }

char32_t nmt(char32_t c) {
  if ((c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
      c == 0x9F) {
    return kRemoved;
  }
  const bool space = c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                     (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xFEFF || c == 0xFFFD;
  return space ? ' ' : c;
}

class StripNormalizer : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}
  void apply(AlignedText& text) const override {
    const std::string& bytes = text.text();
    size_t end = bytes.size();
    while (right_ && end > 0) {
      size_t before = end;
      if (!(flags_of(previous_char(bytes, before)) & kSpace)) break;
      end = before;
    }
    size_t begin = 0;
    while (left_ && begin < end) {
      size_t behind = begin;
      if (!(flags_of(next_char(bytes, behind)) & kSpace)) break;
      begin = behind;
    }
    if (begin == 0) return text.remove_suffix(bytes.size() - end);
    text.begin_rewrite();
    text.keep(begin, end);
    text.end_rewrite();
  }

 private:
  bool left_;
  bool right_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(AlignedText& text) const override {
    if (text.text().empty()) return;
    text.begin_rewrite();
    text.put(prefix_, text.align(0));
    text.keep(0, text.text().size());
    text.end_rewrite();
  }

 private:
  std::string prefix_;
};

class ReplaceNormalizer : public Normalizer {
 public:
  ReplaceNormalizer(std::unique_ptr<const Pattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(AlignedText& text) const override {
    std::vector<Match> matches;
    pattern_->find(text.text(), matches);
    if (matches.empty()) return;
    text.begin_rewrite();
    size_t from = 0;
    for (const Match& match : matches) {
      text.keep(from, match.begin);
      text.put(content_, text.align(match.end - 1));
      from = match.end;
    }
    text.keep(from, text.text().size());
    text.end_rewrite();
  }

 private:
  std::unique_ptr<const Pattern> pattern_;
  std::string content_;
};

class ByteLevelNormalizer : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    const std::string& bytes = text.text();
    text.begin_rewrite();
    for (size_t at = 0; at < bytes.size(); ++at) {
      text.put(byte_alphabet()[static_cast<uint8_t>(bytes[at])], text.align(at));
    }
    text.end_rewrite();
  }
};

std::unique_ptr<const Normalizer> make_sequence(const JsonObject& part) {
  std::vector<std::unique_ptr<const Normalizer>> steps;
  for (const JsonObject& step : part.objects("normalizers")) steps.push_back(make_normalizer(step));
  return std::make_unique<SequenceNormalizer>(std::move(steps));
}

}  // namespace

std::unique_ptr<const Normalizer> make_normalizer(const JsonObject& part) {
  const std::string& type = part.text("type");
  if (type == "Sequence") return make_sequence(part);
  if (type == "BertNormalizer") {
    return make_bert_normalizer({.clean_text = part.boolean("clean_text"),
                                 .handle_chinese_chars = part.boolean("handle_chinese_chars"),
                                 .strip_accents = part.optional_boolean("strip_accents"),
                                 .lowercase = part.boolean("lowercase")});
  }
  if (type == "NFC") return make_normal_form(false, true);
  if (type == "NFD") return make_normal_form(false, false);
  if (type == "NFKC") return make_normal_form(true, true);
  if (type == "NFKD") return make_normal_form(true, false);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "StripAccents") return std::make_unique<CharMap>(without_marks);
  if (type == "Nmt") return std::make_unique<CharMap>(nmt);
  if (type == "Strip") {
    return std::make_unique<StripNormalizer>(part.boolean("strip_left"),
                                             part.boolean("strip_right"));
  }
  if (type == "Prepend") return std::make_unique<Prepend>(part.text("prepend"));
  if (type == "Replace") {
    return std::make_unique<ReplaceNormalizer>(make_pattern(part, "pattern"), part.text("content"));
  }
  if (type == "Precompiled") {
    const std::string where = part.where("precompiled_charsmap");
    return make_charsmap_normalizer(decode_base64(part.text("precompiled_charsmap"), where), where);
  }
  if (type == "ByteLevel") return std::make_unique<ByteLevelNormalizer>();
  part.refuse("type", "tokenizer: a normalizer that is not known",
              "BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, "
              "Prepend, Replace, Sequence, Strip or StripAccents");
}

}  // namespace headwise::text
