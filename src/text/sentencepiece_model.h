// The parts of a SentencePiece model file that are needed to build the same model.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace headwise::text {

struct SentencePieceModel {
  enum Type { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
  enum Algorithm { kUnigram = 1, kBpe = 2 };
  struct Piece {
    std::string text{};
    float score = 0;
    int type = kNormal;
  };
  std::vector<Piece> pieces{};
  int algorithm = kUnigram;
  std::string charsmap{};  // of the normalizer; may be empty

  const char* kind() const { return algorithm == kBpe ? "BPE" : "Unigram"; }
};

/// Throws Error if the file is no such model.
SentencePieceModel read_sentencepiece_model(const std::filesystem::path& file);

}  // namespace headwise::text
