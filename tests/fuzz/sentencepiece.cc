// Any bytes are a SentencePiece model, with the pieces that SentencePiece's own library finds, or
// are refused by name.
//
// The first byte says whether the others are a file, or describe pieces: type, score, length, text,
// and so on.
#include <sentencepiece_processor.h>

#include <bit>
#include <cstring>
#include <string>

#include "files.h"
#include "fuzz.h"
#include "text/sentencepiece_model.h"

namespace headwise {
namespace {

using fuzz::must;
using text::SentencePieceModel;

void append_varint(std::string& bytes, uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  bytes += static_cast<char>(value);
}

void append_message(std::string& bytes, int field, std::string_view message) {
  append_varint(bytes, static_cast<uint64_t>(field) << 3 | 2);
  append_varint(bytes, message.size());
  bytes += message;
}

std::string model_of(std::string_view description) {
  std::string unknown, model;
  append_message(unknown, 1, "<unk>");
  unknown += "\x18\x02";
  append_message(model, 1, unknown);
  while (description.size() >= 3) {
    const auto type = static_cast<uint8_t>(description[0]) % 7;
    const auto score = static_cast<float>(description[1]);
    const size_t length = static_cast<uint8_t>(description[2]) % 16;
    description.remove_prefix(3);
    std::string piece;
    append_message(piece, 1, description.substr(0, length));
    description.remove_prefix(std::min(length, description.size()));
    piece += '\x15';
    char bits[sizeof(score)];
    std::memcpy(bits, &score, sizeof(score));
    piece.append(bits, sizeof(bits));
    piece += '\x18';
    append_varint(piece, type);
    append_message(model, 1, piece);
  }
  return model;
}

/// The library wants more of a model than its parts, so that it may refuse what we read.
void compare(const SentencePieceModel& model, std::string_view bytes) {
  sentencepiece::SentencePieceProcessor library;
  try {
    if (!library.LoadFromSerializedProto(bytes).ok()) return;
  } catch (const std::exception&) {  // of pieces that it cannot sort
    return;
  }
  must(library.GetPieceSize() == std::ssize(model.pieces), "other pieces than the library finds");
  for (int id = 0; id < library.GetPieceSize(); ++id) {
    const SentencePieceModel::Piece& piece = model.pieces[id];
    must(library.IdToPiece(id) == piece.text, "another piece than the library finds");
    must(std::bit_cast<uint32_t>(library.GetScore(id)) == std::bit_cast<uint32_t>(piece.score),
         "another score than the library finds");
    must(library.IsControl(id) == (piece.type == SentencePieceModel::kControl) &&
             library.IsUnknown(id) == (piece.type == SentencePieceModel::kUnknown),
         "another type than the library finds");
  }
}

}  // namespace
}  // namespace headwise

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headwise;
  if (size == 0) return 0;
  std::string bytes(fuzz::text(data + 1, size - 1));
  if (data[0] % 2 == 1) bytes = model_of(bytes);
  const fuzz::MemoryFile file(bytes);
  text::SentencePieceModel model;
  if (fuzz::succeeds([&] { model = text::read_sentencepiece_model(file.path()); }))
    compare(model, bytes);
  return 0;
}
