// A small model in a folder, with random weights and a vocabulary of its own: nothing is fetched.
#pragma once

#include <headwise/headwise.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

/// The folder "bert", and beside it "reviews.txt" with a text per line.
inline void make_small_model(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::set<std::string> words;
  std::string word, text;
  int lines = 0;
  for (const char c : headwise::sample_text()) {
    if (std::isalpha(static_cast<unsigned char>(c))) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else {
      if (!word.empty()) words.insert(word);
      word.clear();
    }
    text += c;
    if (c == '\n' && ++lines == 40) break;
  }
  std::ofstream(folder / "reviews.txt") << text;
  const auto model = headwise::TrainableModel::create(
      R"({"model_type": "bert", "architectures": ["BertForMaskedLM"], "hidden_size": 16,
          "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32,
          "max_position_embeddings": 64, "vocab_size": )" +
          std::to_string(words.size() + 7) + "}",
      {.seed = 1});
  model.save(folder / "bert");
  std::ofstream vocabulary(folder / "bert" / "vocab.txt");
  for (const char* special : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ","}) {
    vocabulary << special << '\n';
  }
  for (const std::string& each : words) vocabulary << each << '\n';
}
