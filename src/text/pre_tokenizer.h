// How a normalized text is split into the words that the model sees.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "headwise/io/json.h"
#include "text/aligned_text.h"
#include "text/patterns.h"

namespace headwise::text {

constexpr int32_t kNoToken = -1;

/// Bytes [begin, end) of a text, never empty; an added token that was found there, or none.
struct Piece {
  uint32_t begin = 0;
  uint32_t end = 0;
  int32_t id = kNoToken;
};

struct SplitText {
  AlignedText text;
  std::vector<Piece> pieces;

  std::string_view bytes(const Piece& piece) const {
    return std::string_view(text.text()).substr(piece.begin, piece.end - piece.begin);
  }

  // Room for the steps to work in.
  std::vector<Piece> new_pieces;
  std::vector<Match> matches;
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(SplitText& text) const = 0;
};

/// What the file's "pre_tokenizer" describes. Throws Error for a type that is not known.
///
/// With `raw_bytes`, a ByteLevel step at the end leaves the bytes as they are, for a model whose
/// vocabulary is in bytes; it is set to false if there is no such step.
std::unique_ptr<const PreTokenizer> make_pre_tokenizer(const JsonObject& part, bool& raw_bytes);

}  // namespace headwise::text
