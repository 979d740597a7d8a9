// SentencePiece model files are protocol buffers: fields of a number, a kind and a value.
#include "text/sentencepiece_model.h"

#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>

#include "headwise/core/error.h"
#include "io/file.h"
#include "text/unicode.h"
#include "text/vocabulary.h"

namespace headwise::text {
namespace {

struct Field {
  uint64_t number = 0;
  uint64_t value = 0;        // of a number
  std::string_view bytes{};  // of a text or a message
};

class Message {
 public:
  Message(std::string_view bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  std::optional<Field> next() {
    if (at_ == bytes_.size()) return std::nullopt;
    const uint64_t key = varint();
    Field field{.number = key >> 3};
    switch (key & 7) {
      case 0:
        field.value = varint();
        break;
      case 1:
        field.value = fixed(8);
        break;
      case 2: {
        const uint64_t size = varint();
        if (size > bytes_.size() - at_) refuse();
        field.bytes = bytes_.substr(at_, size);
        at_ += size;
        break;
      }
      case 5:
        field.value = fixed(4);
        break;
      default:
        refuse();
    }
    return field;
  }

 private:
  [[noreturn]] void refuse() const {
    throw Error({.what = "tokenizer: not a SentencePiece model",
                 .where = where_,
                 .got = "a field that is broken at byte " + std::to_string(at_) + " of its message",
                 .expected = "a protocol buffer",
                 .hint = "a file fetched with git may be only a pointer to the real one"});
  }

  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) refuse();
      const auto byte = static_cast<uint8_t>(bytes_[at_++]);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    refuse();
  }

  uint64_t fixed(size_t size) {
    if (bytes_.size() - at_ < size) refuse();
    uint64_t value = 0;
    std::memcpy(&value, bytes_.data() + at_, size);
    at_ += size;
    return value;
  }

  std::string_view bytes_;
  const std::string& where_;
  size_t at_ = 0;
};

SentencePieceModel::Piece read_piece(std::string_view bytes, const std::string& where) {
  SentencePieceModel::Piece piece;
  Message message(bytes, where);
  while (const auto field = message.next()) {
    if (field->number == 1) piece.text = field->bytes;
    if (field->number == 2) {
      const auto bits = static_cast<uint32_t>(field->value);
      std::memcpy(&piece.score, &bits, 4);
    }
    if (field->number == 3) piece.type = static_cast<int>(field->value);
  }
  return piece;
}

}  // namespace

SentencePieceModel read_sentencepiece_model(const std::filesystem::path& path) {
  const std::string file = read_file(path);
  const std::string where = path.string();
  SentencePieceModel model;
  Message message(file, where);
  while (const auto field = message.next()) {
    Message inner(field->bytes, where);
    if (field->number == 1) model.pieces.push_back(read_piece(field->bytes, where));
    if (field->number == 2) {  // how it was trained
      while (const auto part = inner.next()) {
        if (part->number == 3) model.algorithm = static_cast<int>(part->value);
      }
    }
    if (field->number == 3) {  // how it normalizes
      while (const auto part = inner.next()) {
        if (part->number == 2) model.charsmap = part->bytes;
      }
    }
  }
  for (const auto& piece : model.pieces) {
    if (piece.text.empty() || !is_valid_utf8(piece.text)) {
      throw Error({.what = "tokenizer: a piece of the SentencePiece model is empty or no UTF-8",
                   .where = where});
    }
    check_token_length(piece.text, where);
    if (!std::isfinite(piece.score)) {
      throw Error({.what = "tokenizer: a score of the SentencePiece model is not finite",
                   .where = where,
                   .got = std::to_string(piece.score)});
    }
  }
  if (model.pieces.empty()) {
    throw Error({.what = "tokenizer: the SentencePiece model has no pieces", .where = where});
  }
  return model;
}

}  // namespace headwise::text
