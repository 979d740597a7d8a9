// Encodes texts for tokenizer.py: reads one JSON string per line, writes one JSON object per line.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "headwise/core/error.h"
#include "headwise/text/tokenizer.h"

namespace {

nlohmann::json encoded(const headwise::Tokenizer& tokenizer, const std::string& text) {
  const headwise::Encoding e = tokenizer.encode(text);
  nlohmann::json offsets = nlohmann::json::array();
  for (const headwise::TokenSpan& span : e.code_points) offsets.push_back({span.begin, span.end});
  return {{"ids", e.ids},
          {"offsets", std::move(offsets)},
          {"words", e.words},
          {"types", e.type_ids},
          {"mask", e.special},
          {"decoded", tokenizer.decode(e.ids)},
          {"decoded_all", tokenizer.decode(e.ids, false)}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: encode_lines FOLDER\n";
    return 2;
  }
  try {
    const headwise::Tokenizer tokenizer = headwise::Tokenizer::load(argv[1]);
    for (std::string line; std::getline(std::cin, line);) {
      std::cout << encoded(tokenizer, nlohmann::json::parse(line).get<std::string>()).dump()
                << std::endl;
    }
  } catch (const std::exception& error) {
    std::cerr << "encode_lines: " << error.what() << '\n';
    return 1;
  }
}
