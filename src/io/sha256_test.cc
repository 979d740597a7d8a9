// SHA-256 against the examples of FIPS 180-4, with every kernel that this CPU can run.
#include "io/sha256.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "headwise/core/random.h"

namespace headwise {
namespace {

std::string hash(std::string_view text, const Sha256Kernel& kernel = sha256_kernels().front()) {
  Sha256 sha(kernel);
  sha.add(text);
  return sha.finish();
}

/// What the kernel says of the CPU.
[[maybe_unused]] bool has_flag(const std::string& flag) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string word; file >> word;) {
    if (word == flag) return true;
  }
  return false;
}

TEST(Sha256, HashesTheExamplesOfTheStandard) {
  for (const Sha256Kernel& kernel : sha256_kernels()) {
    SCOPED_TRACE(kernel.name);
    EXPECT_EQ(hash("", kernel), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(hash("abc", kernel),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", kernel),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(hash(std::string(1'000'000, 'a'), kernel),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  }
}

TEST(Sha256, IsTheSameWithEveryKernel) {
  Random random(1);
  for (size_t size = 0; size < 300; ++size) {
    std::string text(size, '\0');
    for (char& one : text) one = static_cast<char>(random.below(256));
    for (const Sha256Kernel& kernel : sha256_kernels()) {
      EXPECT_EQ(hash(text, kernel), hash(text, sha256_kernels().back())) << kernel.name;
    }
  }
}

TEST(Sha256, UsesTheInstructionsOfTheCpu) {
#if defined(__x86_64__)
  const bool has = has_flag("sha_ni");
  EXPECT_EQ(sha256_kernels().size(), has ? 2u : 1u);
#endif
  EXPECT_STREQ(sha256_kernels().back().name, "portable");
}

TEST(Sha256, DoesNotDependOnThePieces) {
  const std::string text(300, 'x');
  for (const size_t piece : {1, 7, 63, 64, 65, 128}) {
    Sha256 sha;
    for (size_t at = 0; at < text.size(); at += piece) sha.add(text.substr(at, piece));
    EXPECT_EQ(sha.finish(), hash(text)) << piece;
  }
}

}  // namespace
}  // namespace headwise
