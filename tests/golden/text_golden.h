// Reads the golden texts and what tokenizers make of them: golden/text/lines.txt and
// golden/text/expected/*.txt, whose formats text_lines.py and make_expected.py describe.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "golden/folder.h"
#include "headwise/text/tokenizer.h"

namespace headwise::golden {

inline std::filesystem::path text_folder() { return golden_folder() / "text"; }

inline void append_utf8(std::string& text, uint32_t c) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xC0 | c >> 6);
  } else if (c < 0x10000) {
    text += static_cast<char>(0xE0 | c >> 12);
    tail(6);
  } else {
    text += static_cast<char>(0xF0 | c >> 18);
    tail(12);
    tail(6);
  }
  if (c >= 0x80) tail(0);
}

inline std::string unescape(std::string_view escaped) {
  std::string text;
  for (size_t i = 0; i < escaped.size(); ++i) {
    if (escaped[i] != '\\') {
      text += escaped[i];
    } else if (const char kind = escaped.at(++i); kind == 'u') {
      const size_t end = escaped.find('}', i);
      uint32_t c = 0;
      std::from_chars(escaped.data() + i + 2, escaped.data() + end, c, 16);
      append_utf8(text, c);
      i = end;
    } else {
      text += kind == 'n' ? '\n' : kind == 'r' ? '\r' : kind == 't' ? '\t' : kind;
    }
  }
  return text;
}

/// For messages: one line, and no control characters.
inline std::string escape_controls(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\n') {
      escaped += "\\n";
    } else if (static_cast<uint8_t>(c) < 0x20 || c == 0x7F) {
      char hex[8];
      std::snprintf(hex, sizeof hex, "\\u{%X}", static_cast<unsigned>(c));
      escaped += hex;
    } else {
      escaped += c;
    }
  }
  return escaped;
}

inline std::vector<std::string> split(std::string_view row, char separator) {
  std::vector<std::string> fields;
  for (size_t begin = 0;;) {
    const size_t end = std::min(row.find(separator, begin), row.size());
    fields.emplace_back(row.substr(begin, end - begin));
    if (end == row.size()) return fields;
    begin = end + 1;
  }
}

/// The texts of lines.txt; a number of a line counts them from 0.
inline std::vector<std::string> load_texts() {
  std::ifstream stream(text_folder() / "lines.txt", std::ios::binary);
  std::vector<std::string> texts;
  for (std::string row; std::getline(stream, row);) {
    if (row.starts_with('#')) continue;
    texts.push_back(unescape(std::string_view(row).substr(row.find('\t') + 1)));
  }
  if (texts.empty()) throw std::runtime_error("golden: cannot read text/lines.txt");
  return texts;
}

struct TextCase {
  size_t line = 0;
  std::optional<size_t> second{};
  EncodeOptions options{};
  std::string tokens{};                      // id:begin-end:word of each
  std::string types{}, mask{}, sequences{};  // a character for each
  std::string decoded{}, decoded_all{};      // escaped; "=": the text; "-": nothing
};

struct ExpectedTexts {
  std::vector<std::string> folders{};  // of tokenizers/, each of which does this
  bool has_words = true;
  bool target = false;  // the target language of a model with two
  size_t stride = 1;    // `lines` has every so many lines
  int64_t size = 0;
  struct Line {
    uint32_t encoded = 0, decoded = 0;  // CRC-32
    bool compared = true;               // there is only one right answer
  };
  std::vector<Line> lines{};
  struct Block {
    uint32_t number = 0, encoded = 0;
  };
  std::vector<Block> sweep{};
  std::vector<TextCase> cases{};
};

inline TextCase parse_text_case(const std::string& row) {
  const std::vector<std::string> fields = split(row, '\t');
  if (fields.size() != 11) throw std::runtime_error("golden: a case of other fields: " + row);
  const auto number = [&](int field) -> std::optional<int64_t> {
    return fields[field] == "-" ? std::nullopt : std::optional(std::stoll(fields[field]));
  };
  return {.line = static_cast<size_t>(number(0).value()),
          .second = number(1),
          .options = {.add_special = fields[2] == "1", .truncate = number(3), .pad = number(4)},
          .tokens = fields[5],
          .types = fields[6],
          .mask = fields[7],
          .sequences = fields[8],
          .decoded = fields[9],
          .decoded_all = fields[10]};
}

inline ExpectedTexts load_expected_texts(const std::string& name) {
  std::ifstream stream(text_folder() / "expected" / (name + ".txt"), std::ios::binary);
  ExpectedTexts expected;
  const auto hex = [](const std::string& digits) {
    return static_cast<uint32_t>(std::stoul(digits, nullptr, 16));
  };
  for (std::string row; std::getline(stream, row);) {
    const std::string kind = row.substr(0, row.find(' ')), rest = row.substr(kind.size() + 1);
    if (kind == "folders") expected.folders = split(rest, ' ');
    if (kind == "compared") {
      expected.has_words = rest == "all";
      expected.target = rest.ends_with("target");
    }
    if (kind == "stride") expected.stride = std::stoul(rest);
    if (kind == "size") expected.size = std::stoll(rest);
    if (kind != "hashes" && kind != "sweep" && kind != "cases") continue;
    for (int64_t left = std::stoll(rest); left > 0 && std::getline(stream, row); --left) {
      const std::vector<std::string> words = split(row, ' ');
      if (kind == "hashes") {
        expected.lines.push_back(words[0] == "-"
                                     ? ExpectedTexts::Line{.compared = false}
                                     : ExpectedTexts::Line{hex(words[0]), hex(words[1])});
      }
      if (kind == "sweep") expected.sweep.push_back({hex(words[0]), hex(words[1])});
      if (kind == "cases") expected.cases.push_back(parse_text_case(row));
    }
  }
  for (TextCase& one : expected.cases) one.options.target = expected.target;
  if (expected.lines.empty()) throw std::runtime_error("golden: cannot read text/expected/" + name);
  return expected;
}

/// Every code point of a block of 4,096 but surrogates, 16 to a text, as make_expected.py does.
inline std::vector<std::string> sweep_texts(uint32_t block) {
  std::vector<std::string> texts;
  for (uint32_t begin = block << 12; begin < (block + 1) << 12; begin += 16) {
    std::string& text = texts.emplace_back();
    for (uint32_t c = begin; c < begin + 16; ++c) {
      if (0xD800 <= c && c < 0xE000) continue;
      std::string one;
      append_utf8(one, c);
      text += 'a' + one + "a " + one + one + "1 ";
    }
  }
  return texts;
}

class Crc32 {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) {
      state_ = kTable[(state_ ^ static_cast<uint8_t>(byte)) & 0xFF] ^ state_ >> 8;
    }
  }
  void add(int64_t number) {
    const auto word = static_cast<uint32_t>(number);
    for (int shift = 0; shift < 32; shift += 8) {
      const char byte = static_cast<char>(word >> shift);
      add({&byte, 1});
    }
  }
  uint32_t value() const { return ~state_; }

 private:
  static constexpr std::array<uint32_t, 256> kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < 256; ++i) {
      table[i] = i;
      for (int bit = 0; bit < 8; ++bit) table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xEDB88320 : 0);
    }
    return table;
  }();
  uint32_t state_ = ~0u;
};

}  // namespace headwise::golden
