// SHA-256 against the examples of FIPS 180-4.
#include "io/sha256.h"

#include <gtest/gtest.h>

namespace headwise {
namespace {

std::string hash(std::string_view text) {
  Sha256 sha;
  sha.add(text);
  return sha.finish();
}

TEST(Sha256, HashesTheExamplesOfTheStandard) {
  EXPECT_EQ(hash(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
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
