// Alignments of words: what is read, what is refused, and which tokens they are of.
#include "headwise/text/alignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/io_testing.h"

namespace headwise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Alignments : public testing::Test {
 protected:
  std::vector<std::vector<AlignedWords>> read(const std::string& text) {
    return read_alignments(folder_.write("a.align", text));
  }
  TemporaryFolder folder_;
};

TEST_F(Alignments, AreReadLineByLine) {
  EXPECT_THAT(read("0-0 1-2\t1-10\n\n 7-3 \n"),
              ElementsAre(ElementsAre(AlignedWords{0, 0}, AlignedWords{1, 2}, AlignedWords{1, 10}),
                          IsEmpty(), ElementsAre(AlignedWords{7, 3})));
  EXPECT_TRUE(read("").empty());
}

TEST_F(Alignments, RefuseWhatIsNoPair) {
  for (const char* const pair : {"1", "1-", "-1", "1--1", "-1-1", "1-1-1", "a-b", "1-2x", "1:2",
                                 "99999999999999999999-1", "1-2,"}) {
    const ErrorDetail detail = error_of([&] { read(std::string("0-0\n0-1 ") + pair + "\n"); });
    EXPECT_EQ(detail.what, "alignment: no pair of words") << pair;
    EXPECT_THAT(detail.where, HasSubstr("a.align, line 2")) << pair;
  }
}

Encoding encoding_of(const std::vector<TokenSpan>& tokens) {
  Encoding encoding;
  for (const TokenSpan& bytes : tokens) {
    encoding.ids.push_back(7);
    encoding.bytes.push_back(bytes);
    encoding.sequence.push_back(static_cast<int8_t>(bytes.begin < bytes.end ? 0 : -1));
  }
  return encoding;
}

TEST_F(Alignments, GoFromTheTokensOfWordsToThoseOfOthers) {
  // "Das|Haus hier </s>" of pieces Das Ha us hi er, and "the house  , here".
  const Encoding source = encoding_of({{0, 3}, {4, 6}, {6, 8}, {9, 11}, {11, 13}, {0, 0}});
  const Encoding target = encoding_of({{0, 3}, {4, 9}, {11, 12}, {13, 15}, {15, 17}});
  const EncodedText from{"Das Haus hier", source}, to{"the house  , here", target};
  EXPECT_THAT(aligned_tokens(std::vector<AlignedWords>{{1, 1}, {0, 0}, {2, 3}, {0, 1}, {0, 1}},
                             from, to, "line 1"),
              ElementsAre(ElementsAre(0), ElementsAre(0, 1, 2), IsEmpty(), ElementsAre(3, 4),
                          ElementsAre(3, 4)));
  const auto refusal = [&](const AlignedWords& words) {
    return error_of([&] { (void)aligned_tokens({&words, 1}, from, to, "line 1"); });
  };
  EXPECT_EQ(refusal({3, 0}).what, "alignment: the source has no such word");
  EXPECT_EQ(refusal({0, 4}).what, "alignment: the target has no such word");
  EXPECT_EQ(refusal({0, 4}).where, "line 1");
}

}  // namespace
}  // namespace headwise
