// BERT's normalizer in one pass: control characters, ideographs, accents, case.
#include "text/normalizer.h"
#include "text/unicode.h"

namespace headwise::text {
namespace {

class BertNormalizer : public Normalizer {
 public:
  BertNormalizer(bool clean, bool split_ideographs, bool strip_accents, bool lowercase)
      : clean_(clean),
        split_ideographs_(split_ideographs),
        strip_accents_(strip_accents),
        lowercase_(lowercase) {}

  void apply(AlignedText& text) const override {
    const size_t plain = lower_plain_ascii(text);
    if (plain == text.text().size()) return;
    if (strip_accents_ && moves_kept_marks(text.text())) {
      apply_by_steps(text);
    } else {
      apply_in_one_pass(text, plain);
    }
  }

 private:
  // Every printable ASCII character keeps its place; returns how many there are at the start.
  size_t lower_plain_ascii(AlignedText& text) const {
    const std::string& bytes = text.text();
    size_t at = 0;
    for (; at < bytes.size(); ++at) {
      const char byte = bytes[at];
      if (byte < ' ' || byte == 0x7F) break;  // above 0x7F is negative
      if (lowercase_ && byte >= 'A' && byte <= 'Z')
        text.overwrite(at, static_cast<char>(byte + 32));
    }
    return at;
  }

  // Sorting by combining class moves only marks. Those that are removed afterwards do not matter;
  // with another one the alignment depends on the order.
  static bool moves_kept_marks(const std::string& bytes) {
    const uint16_t* table = flag_table();
    for (size_t at = 0; at < bytes.size();) {
      const char32_t c = next_char(bytes, at);
      if (c < 0x300) continue;
      const uint16_t flags = flags_of(table, c);
      if ((flags & kDecomposes) && !(flags & kNonspacing) && combining_class(c) != 0) return true;
    }
    return false;
  }

  void apply_in_one_pass(AlignedText& text, size_t plain) const {
    const uint16_t* table = flag_table();
    const std::string& bytes = text.text();
    text.begin_rewrite();
    text.keep(0, plain);
    for (size_t at = plain; at < bytes.size();) {
      const Align align = text.align(at);
      char32_t c = next_char(bytes, at);
      const uint16_t flags = flags_of(table, c);
      if (clean_) {
        if (flags & kControl) continue;
        if (flags & kSpace) c = ' ';
      }
      if (split_ideographs_ && (flags & kIdeograph)) {
        text.put(' ', align);
        put_simplified(text, c, flags, align);
        text.put(' ', align);
      } else {
        put_simplified(text, c, flags, align);
      }
    }
    text.end_rewrite();
  }

  void put_simplified(AlignedText& text, char32_t c, uint16_t flags, Align align) const {
    if (!strip_accents_ || !(flags & (kDecomposes | kNonspacing))) return put_lower(text, c, align);
    char32_t parts[kLongestDecomposition];
    const int count = decompose(c, false, parts);
    for (int i = 0; i < count; ++i) {
      if (!(flags_of(parts[i]) & kNonspacing)) put_lower(text, parts[i], align);
    }
  }

  void put_lower(AlignedText& text, char32_t c, Align align) const {
    if (!lowercase_ || !(flags_of(c) & kLowers)) return text.put(c, align);
    const LowerCase lower = lower_case(c);
    text.put(lower.first, align);
    if (lower.second != 0) text.put(lower.second, align);
  }

  void apply_by_steps(AlignedText& text) const {
    BertNormalizer(clean_, split_ideographs_, false, false).apply(text);
    make_normal_form(false, false)->apply(text);
    const std::string& bytes = text.text();
    text.begin_rewrite();
    for (size_t at = 0; at < bytes.size();) {
      const Align align = text.align(at);
      const char32_t c = next_char(bytes, at);
      if (!(flags_of(c) & kNonspacing)) put_lower(text, c, align);
    }
    text.end_rewrite();
  }

  bool clean_;
  bool split_ideographs_;
  bool strip_accents_;
  bool lowercase_;
};

}  // namespace

std::unique_ptr<const Normalizer> make_bert_normalizer(const BertOptions& options) {
  return std::make_unique<BertNormalizer>(options.clean_text, options.handle_chinese_chars,
                                          options.strip_accents.value_or(options.lowercase),
                                          options.lowercase);
}

}  // namespace headwise::text
