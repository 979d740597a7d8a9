// The pre-tokenizers of a tokenizer.json.
#include "text/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "text/byte_alphabet.h"
#include "text/split.h"
#include "text/unicode.h"

namespace headwise::text {
namespace {

/// Replaces every piece that is no added token by what `split(piece, out)` makes of it.
template <class SplitPiece>
void split_pieces(SplitText& text, SplitPiece split) {
  text.new_pieces.clear();
  for (const Piece& piece : text.pieces) {
    if (piece.id != kNoToken) {
      text.new_pieces.push_back(piece);
    } else {
      split(piece, text.new_pieces);
    }
  }
  text.pieces.swap(text.new_pieces);
}

/// Rewrites the text piece by piece: `put(piece)` puts the new text of one that is no added token.
template <class PutPiece>
void rewrite_pieces(SplitText& text, PutPiece put) {
  text.text.begin_rewrite();
  for (Piece& piece : text.pieces) {
    const auto begin = static_cast<uint32_t>(text.text.rewritten());
    if (piece.id != kNoToken) {
      text.text.keep(piece.begin, piece.end);
    } else {
      put(piece);
    }
    piece.begin = begin;
    piece.end = static_cast<uint32_t>(text.text.rewritten());
  }
  text.text.end_rewrite();
}

class SequencePreTokenizer : public PreTokenizer {
 public:
  explicit SequencePreTokenizer(std::vector<std::unique_ptr<const PreTokenizer>> steps)
      : steps_(std::move(steps)) {}
  void apply(SplitText& text) const override {
    for (const auto& step : steps_) step->apply(text);
  }

 private:
  std::vector<std::unique_ptr<const PreTokenizer>> steps_;
};

/// Space is removed; what has the flag stands alone.
class SpaceSplit : public PreTokenizer {
 public:
  explicit SpaceSplit(uint16_t alone) : alone_(alone) {}
  void apply(SplitText& text) const override {
    const uint16_t* table = flag_table();
    const std::string_view bytes = text.text.text();
    split_pieces(text, [&](const Piece& piece, std::vector<Piece>& out) {
      uint32_t begin = piece.begin;
      for (size_t at = piece.begin; at < piece.end;) {
        const auto from = static_cast<uint32_t>(at);
        const uint16_t flags = flags_of(table, next_char(bytes, at));
        if (!(flags & (alone_ | kSpace))) continue;
        if (from > begin) out.push_back({begin, from});
        begin = static_cast<uint32_t>(at);
        if (!(flags & kSpace)) out.push_back({from, begin});
      }
      if (piece.end > begin) out.push_back({begin, piece.end});
    });
  }

 private:
  uint16_t alone_;
};

/// \w+|[^\w\s]+
class WordSplit : public PreTokenizer {
 public:
  void apply(SplitText& text) const override {
    const uint16_t* table = flag_table();
    const std::string_view bytes = text.text.text();
    split_pieces(text, [&](const Piece& piece, std::vector<Piece>& out) {
      uint32_t begin = piece.begin;
      int last = kSpace;
      for (size_t at = piece.begin; at < piece.end;) {
        const auto from = static_cast<uint32_t>(at);
        const int kind = flags_of(table, next_char(bytes, at)) & (kWord | kSpace);
        if (kind == last) continue;
        if (last != kSpace) out.push_back({begin, from});
        begin = from;
        last = kind;
      }
      if (last != kSpace) out.push_back({begin, piece.end});
    });
  }
};

class ClassSplit : public PreTokenizer {
 public:
  ClassSplit(uint16_t flags, SplitBehavior behavior) : flags_(flags), behavior_(behavior) {}
  void apply(SplitText& text) const override {
    const uint16_t* table = flag_table();
    split_pieces(text, [&](const Piece& piece, std::vector<Piece>& out) {
      const std::string_view bytes = text.bytes(piece);
      text.matches.clear();
      for (size_t at = 0; at < bytes.size();) {
        const auto from = static_cast<uint32_t>(at);
        if (flags_of(table, next_char(bytes, at)) & flags_) {
          text.matches.push_back({from, static_cast<uint32_t>(at)});
        }
      }
      split_at(piece, text.matches, behavior_, false, out);
    });
  }

 private:
  uint16_t flags_;
  SplitBehavior behavior_;
};

class PatternSplit : public PreTokenizer {
 public:
  PatternSplit(std::unique_ptr<const Pattern> pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void apply(SplitText& text) const override {
    split_pieces(text, [&](const Piece& piece, std::vector<Piece>& out) {
      text.matches.clear();
      pattern_->find(text.bytes(piece), text.matches);
      split_at(piece, text.matches, behavior_, invert_, out);
    });
  }

 private:
  std::unique_ptr<const Pattern> pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class ByteLevelPreTokenizer : public PreTokenizer {
 public:
  ByteLevelPreTokenizer(bool add_prefix_space, bool use_regex, bool raw)
      : add_prefix_space_(add_prefix_space),
        raw_(raw),
        words_(use_regex ? std::make_unique<PatternSplit>(make_gpt2_pattern(),
                                                          SplitBehavior::kIsolated, false)
                         : nullptr) {}

  void apply(SplitText& text) const override {
    if (add_prefix_space_) add_spaces(text);
    if (words_) words_->apply(text);
    if (!raw_) to_alphabet(text);
  }

 private:
  static void add_spaces(SplitText& text) {
    const auto lacks_space = [&](const Piece& piece) {
      return piece.id == kNoToken && text.text.text()[piece.begin] != ' ';
    };
    if (std::none_of(text.pieces.begin(), text.pieces.end(), lacks_space)) return;
    rewrite_pieces(text, [&](const Piece& piece) {
      if (lacks_space(piece)) text.text.put(" ", text.text.align(piece.begin));
      text.text.keep(piece.begin, piece.end);
    });
  }

  static void to_alphabet(SplitText& text) {
    rewrite_pieces(text, [&](const Piece& piece) {
      for (size_t at = piece.begin; at < piece.end; ++at) {
        const auto byte = static_cast<uint8_t>(text.text.text()[at]);
        text.text.put(byte_alphabet()[byte], text.text.align(at));
      }
    });
  }

  bool add_prefix_space_;
  bool raw_;
  std::unique_ptr<const PatternSplit> words_;
};

enum class Prefix { kAlways, kFirst, kNever };

class MetaspacePreTokenizer : public PreTokenizer {
 public:
  MetaspacePreTokenizer(std::string mark, Prefix prefix, bool split)
      : mark_(std::move(mark)), prefix_(prefix), split_(split) {}

  void apply(SplitText& text) const override {
    rewrite_pieces(text, [&](const Piece& piece) { put_marked(text, piece); });
    if (!split_) return;
    split_pieces(text, [&](const Piece& piece, std::vector<Piece>& out) {
      const std::string_view bytes = text.bytes(piece);
      uint32_t begin = 0;
      for (size_t at = bytes.find(mark_, 1); at != bytes.npos; at = bytes.find(mark_, at + 1)) {
        out.push_back({piece.begin + begin, piece.begin + static_cast<uint32_t>(at)});
        begin = static_cast<uint32_t>(at);
      }
      out.push_back({piece.begin + begin, piece.end});
    });
  }

 private:
  void put_marked(SplitText& text, const Piece& piece) const {
    const std::string_view bytes = text.bytes(piece);
    const Align first = text.text.align(piece.begin);
    const bool wanted =
        prefix_ == Prefix::kAlways || (prefix_ == Prefix::kFirst && first.begin == 0);
    if (wanted && bytes[0] != ' ' && !bytes.starts_with(mark_)) text.text.put(mark_, first);
    size_t from = 0;
    for (size_t at = bytes.find(' '); at != bytes.npos; at = bytes.find(' ', at + 1)) {
      text.text.keep(piece.begin + from, piece.begin + at);
      text.text.put(mark_, text.text.align(piece.begin + at));
      from = at + 1;
    }
    text.text.keep(piece.begin + from, piece.end);
  }

  std::string mark_;
  Prefix prefix_;
  bool split_;
};

std::unique_ptr<const PreTokenizer> make_metaspace(const JsonObject& part) {
  const std::string scheme = part.optional_text("prepend_scheme").value_or("always");
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    part.refuse("prepend_scheme", "tokenizer: a scheme that is not known",
                "always, first or never");
  }
  if (part.optional_boolean("add_prefix_space") == false && scheme != "never" &&
      part.has("prepend_scheme")) {
    part.refuse("add_prefix_space", "tokenizer: it contradicts prepend_scheme",
                "true, or prepend_scheme \"never\"");
  }
  const bool never = scheme == "never" || part.optional_boolean("add_prefix_space") == false;
  const Prefix prefix = never               ? Prefix::kNever
                        : scheme == "first" ? Prefix::kFirst
                                            : Prefix::kAlways;
  return std::make_unique<MetaspacePreTokenizer>(single_char(part, "replacement"), prefix,
                                                 part.optional_boolean("split").value_or(true));
}

std::unique_ptr<const PreTokenizer> make_pre_tokenizer_sequence(const JsonObject& part,
                                                                bool& raw_bytes) {
  std::vector<std::unique_ptr<const PreTokenizer>> steps;
  const auto parts = part.objects("pretokenizers");
  bool raw_at_end = false;
  for (size_t i = 0; i < parts.size(); ++i) {
    bool raw = raw_bytes && i + 1 == parts.size();
    steps.push_back(make_pre_tokenizer(parts[i], raw));
    raw_at_end = raw;
  }
  raw_bytes = raw_at_end;
  return std::make_unique<SequencePreTokenizer>(std::move(steps));
}

}  // namespace

std::unique_ptr<const PreTokenizer> make_pre_tokenizer(const JsonObject& part, bool& raw_bytes) {
  const std::string& type = part.text("type");
  if (type == "Sequence") return make_pre_tokenizer_sequence(part, raw_bytes);
  if (type == "ByteLevel") {
    return std::make_unique<ByteLevelPreTokenizer>(
        part.boolean("add_prefix_space"), part.optional_boolean("use_regex").value_or(true),
        raw_bytes);
  }
  raw_bytes = false;
  if (type == "BertPreTokenizer") return std::make_unique<SpaceSplit>(kPunctuation);
  if (type == "WhitespaceSplit") return std::make_unique<SpaceSplit>(uint16_t{0});
  if (type == "Whitespace") return std::make_unique<WordSplit>();
  if (type == "Metaspace") return make_metaspace(part);
  if (type == "Punctuation") {
    const auto behavior =
        part.has("behavior") ? split_behavior(part, "behavior") : SplitBehavior::kIsolated;
    return std::make_unique<ClassSplit>(kPunctuation, behavior);
  }
  if (type == "Digits") {
    return std::make_unique<ClassSplit>(kNumeric, part.boolean("individual_digits")
                                                      ? SplitBehavior::kIsolated
                                                      : SplitBehavior::kContiguous);
  }
  if (type == "CharDelimiterSplit") {
    return std::make_unique<PatternSplit>(make_string_pattern(single_char(part, "delimiter")),
                                          SplitBehavior::kRemoved, false);
  }
  if (type == "Split") {
    return std::make_unique<PatternSplit>(make_pattern(part, "pattern"),
                                          split_behavior(part, "behavior"), part.boolean("invert"));
  }
  part.refuse("type", "tokenizer: a pre-tokenizer that is not known",
              "BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, Metaspace, Punctuation, "
              "Sequence, Split, Whitespace or WhitespaceSplit");
}

}  // namespace headwise::text
