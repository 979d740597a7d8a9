// Any text is encoded by every tokenizer; the first byte of the input chooses one.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <vector>

#include "encoding_laws.h"
#include "fuzz.h"
#include "headwise/text/tokenizer.h"
#include "text/unicode.h"

namespace headwise {
namespace {

struct Golden {
  std::string name{};
  std::optional<Tokenizer> tokenizer{};
};

std::vector<Golden> golden_tokenizers() {
  std::set<std::filesystem::path> folders;
  for (const auto& folder :
       std::filesystem::directory_iterator(HEADWISE_GOLDEN "/text/tokenizers")) {
    folders.insert(folder.path());
  }
  std::vector<Golden> all;
  for (const auto& folder : folders) {
    all.push_back({folder.filename().string(), Tokenizer::load(folder)});
  }
  return all;
}

bool keeps_every_byte(const std::string& name) {
  return name == "gpt2" || name == "llama3" || name == "smollm" || name == "part-o200k";
}

}  // namespace
}  // namespace headwise

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headwise;
  static const std::vector<Golden> all = golden_tokenizers();
  if (size == 0) return 0;
  const auto& [name, tokenizer] = all[data[0] % all.size()];
  const std::string_view text = fuzz::text(data + 1, size - 1);
  fuzz::check_encoding(*tokenizer, text);
  if (keeps_every_byte(name) && text::is_valid_utf8(text)) {
    const Encoding e = tokenizer->encode(text, {.add_special = false});
    fuzz::must(tokenizer->decode(e.ids, false) == text, "decoding gives another text");
  }
  return 0;
}
