// What kind of tokenizer a folder has, told without loading it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace headwise {

/// As Tokenizer::kind() says it: "WordPiece", "BPE", "byte-level BPE", "Unigram", "SentencePiece";
/// nothing if the folder has none.
std::optional<std::string> tokenizer_kind(const std::filesystem::path& folder);

}  // namespace headwise
