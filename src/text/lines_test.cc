// The lines of a text file.
#include "headwise/text/lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "headwise/core/error.h"
#include "io/io_testing.h"

namespace headwise {
namespace {

TEST(ReadLines, ReadsAllLinesOfAFile) {
  const TemporaryFolder folder;
  EXPECT_THAT(read_lines(folder.write("a", "one\r\n\ntwo")),
              testing::ElementsAre("one", "", "two"));
  EXPECT_THAT(read_lines(folder.write("b", "")), testing::IsEmpty());
  EXPECT_THROW(read_lines(folder.write("c", "\xFF\n")), Error);
  EXPECT_THROW(read_lines(folder.path() / "d"), Error);
}

TEST(LinesOf, AreWithoutTheirEndsAndTheMark) {
  EXPECT_THAT(lines_of(""), testing::IsEmpty());
  EXPECT_THAT(lines_of("a"), testing::ElementsAre("a"));
  EXPECT_THAT(lines_of("\xEF\xBB\xBF"
                       "a\r\n\nb\n"),
              testing::ElementsAre("a", "", "b"));
}

}  // namespace
}  // namespace headwise
