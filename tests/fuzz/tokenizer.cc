// Any tokenizer.json gives a tokenizer that encodes and decodes, or is refused.
#include "headwise/text/tokenizer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "encoding_laws.h"
#include "fuzz.h"

namespace headwise {
namespace {

using fuzz::must;

/// A folder whose tokenizer.json is in memory.
class Folder {
 public:
  Folder() : file_(::memfd_create("tokenizer.json", MFD_CLOEXEC)) {
    std::string name = (std::filesystem::temp_directory_path() / "headwise-XXXXXX").string();
    must(file_ >= 0 && ::mkdtemp(name.data()) != nullptr, "no folder");
    path_ = name;
    std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(file_),
                                    path_ / "tokenizer.json");
  }
  ~Folder() { std::filesystem::remove_all(path_); }

  void hold(const uint8_t* data, size_t size) {
    must(::ftruncate(file_, 0) == 0 && ::pwrite(file_, data, size, 0) == static_cast<ssize_t>(size),
         "no file in memory");
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  int file_;
  std::filesystem::path path_;
};

void use(const Tokenizer& tokenizer) {
  for (const char* text :
       {"", "The  river's 1234 Ünïcode, e\u0301 \u6771\u4EAC \U0001F44D\U0001F3FD\n",
        " [MASK]<s> a\xFF</s>  \u2581x"}) {
    // A word may need an unknown token that the file does not have.
    fuzz::succeeds([&] { fuzz::check_encoding(tokenizer, text); });
  }
}

}  // namespace
}  // namespace headwise

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static headwise::Folder folder;
  folder.hold(data, size);
  headwise::fuzz::succeeds([&] { headwise::use(headwise::Tokenizer::load(folder.path())); });
  return 0;
}
