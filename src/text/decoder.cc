// The decoders of a tokenizer.json.
#include "text/decoder.h"

#include <algorithm>
#include <utility>

#include "text/byte_alphabet.h"
#include "text/patterns.h"
#include "text/unicode.h"

namespace headwise::text {
namespace {

void replace_all(std::string& text, std::string_view old, std::string_view now) {
  if (old.empty() || text.find(old) == text.npos) return;
  std::string out;
  size_t from = 0;
  for (size_t at = text.find(old); at != text.npos; at = text.find(old, from)) {
    out.append(text, from, at - from).append(now);
    from = at + old.size();
  }
  text = out.append(text, from);
}

class SequenceDecoder : public Decoder {
 public:
  explicit SequenceDecoder(std::vector<std::unique_ptr<const Decoder>> steps)
      : steps_(std::move(steps)) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (const auto& step : steps_) step->apply(tokens);
  }

 private:
  std::vector<std::unique_ptr<const Decoder>> steps_;
};

class WordPieceDecoder : public Decoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup)
      : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0) {
        if (token.starts_with(prefix_)) {
          token.erase(0, prefix_.size());
        } else {
          token.insert(0, 1, ' ');
        }
      }
      if (!cleanup_) continue;
      token = without_tokenization_spaces(std::move(token));
      replace_all(token, " do not", " don't");
    }
  }

 private:
  std::string prefix_;
  bool cleanup_;
};

class ByteLevelDecoder : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::string bytes;
    for (const std::string& token : tokens) {
      if (!append_bytes(token, bytes)) bytes += token;
    }
    tokens.assign(1, lossy_utf8(bytes));
  }
};

class MetaspaceDecoder : public Decoder {
 public:
  MetaspaceDecoder(std::string mark, bool prefixed) : mark_(std::move(mark)), prefixed_(prefixed) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      replace_all(tokens[i], mark_, i == 0 && prefixed_ ? "" : " ");
    }
  }

 private:
  std::string mark_;
  bool prefixed_;
};

class ByteFallback : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::vector<std::string> out;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (is_valid_utf8(bytes)) {
        out.push_back(bytes);
      } else {
        out.insert(out.end(), bytes.size(), "\uFFFD");
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      const int byte = byte_named_by(token);
      if (byte >= 0) {
        bytes.push_back(static_cast<char>(byte));
      } else {
        flush();
        out.push_back(std::move(token));
      }
    }
    flush();
    tokens = std::move(out);
  }

 private:
  static int byte_named_by(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
    const auto digit = [](char c) {
      if (c >= '0' && c <= '9') return c - '0';
      if (c >= 'A' && c <= 'F') return c - 'A' + 10;
      return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    };
    const int high = token[3] == '+' ? 0 : digit(token[3]);
    const int low = digit(token[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
  }
};

class Fuse : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::string all;
    for (const std::string& token : tokens) all += token;
    tokens.assign(1, std::move(all));
  }
};

class StripDecoder : public Decoder {
 public:
  StripDecoder(std::string content, size_t start, size_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (size_t i = 0; i < start_ && rest.starts_with(content_); ++i) {
        rest.remove_prefix(content_.size());
      }
      for (size_t i = 0; i < stop_ && rest.ends_with(content_); ++i) {
        rest.remove_suffix(content_.size());
      }
      token = std::string(rest);
    }
  }

 private:
  std::string content_;
  size_t start_;
  size_t stop_;
};

class ReplaceDecoder : public Decoder {
 public:
  ReplaceDecoder(std::unique_ptr<const Pattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(std::vector<std::string>& tokens) const override {
    std::vector<Match> matches;
    for (std::string& token : tokens) {
      matches.clear();
      pattern_->find(token, matches);
      if (matches.empty()) continue;
      std::string out;
      size_t from = 0;
      for (const Match& match : matches) {
        out.append(token, from, match.begin - from).append(content_);
        from = match.end;
      }
      token = out.append(token, from);
    }
  }

 private:
  std::unique_ptr<const Pattern> pattern_;
  std::string content_;
};

class WordSuffix : public Decoder {
 public:
  explicit WordSuffix(std::string suffix) : suffix_(std::move(suffix)) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      replace_all(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
    }
  }

 private:
  std::string suffix_;
};

}  // namespace

std::unique_ptr<const Decoder> make_decoder(const JsonObject& part) {
  const std::string& type = part.text("type");
  if (type == "Sequence") {
    std::vector<std::unique_ptr<const Decoder>> steps;
    for (const JsonObject& step : part.objects("decoders")) steps.push_back(make_decoder(step));
    return std::make_unique<SequenceDecoder>(std::move(steps));
  }
  if (type == "WordPiece") {
    return std::make_unique<WordPieceDecoder>(part.text("prefix"), part.boolean("cleanup"));
  }
  if (type == "ByteLevel") return std::make_unique<ByteLevelDecoder>();
  if (type == "Metaspace") {
    const bool never = part.optional_text("prepend_scheme") == "never" ||
                       part.optional_boolean("add_prefix_space") == false;
    return std::make_unique<MetaspaceDecoder>(single_char(part, "replacement"), !never);
  }
  if (type == "ByteFallback") return std::make_unique<ByteFallback>();
  if (type == "Fuse") return std::make_unique<Fuse>();
  if (type == "Strip") {
    return std::make_unique<StripDecoder>(single_char(part, "content"),
                                          static_cast<size_t>(part.integer("start")),
                                          static_cast<size_t>(part.integer("stop")));
  }
  if (type == "Replace") {
    return std::make_unique<ReplaceDecoder>(make_pattern(part, "pattern"), part.text("content"));
  }
  if (type == "BPEDecoder") return std::make_unique<WordSuffix>(part.text("suffix"));
  part.refuse("type", "tokenizer: a decoder that is not known",
              "BPEDecoder, ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Sequence, Strip or "
              "WordPiece");
}

std::string without_tokenization_spaces(std::string text) {
  static constexpr std::pair<const char*, const char*> kChanges[] = {
      {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
      {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [old, now] : kChanges) replace_all(text, old, now);
  return text;
}

}  // namespace headwise::text
