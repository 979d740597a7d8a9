// Lines of plain and gzip files, and what is refused in them, by file and line.
#include "text/line_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include <vector>

#include "io/io_testing.h"

namespace headwise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;

std::string gzip(std::string_view text) {
  z_stream stream{};
  constexpr int kGzipOnly = 16;
  deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + kGzipOnly, 9, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::vector<std::string> lines_of_file(const fs::path& path) {
  LineReader reader(path);
  std::vector<std::string> lines;
  for (std::string_view line; reader.next(line);) lines.emplace_back(line);
  EXPECT_EQ(reader.line(), std::ssize(lines));
  return lines;
}

TEST(LineReader, CutsAtLineEnds) {
  const TemporaryFolder folder;
  const auto lines = [&](std::string_view text) {
    const auto plain = lines_of_file(folder.write("a", text));
    EXPECT_EQ(lines_of_file(folder.write("a", gzip(text))), plain) << "the same from gzip";
    return plain;
  };
  EXPECT_THAT(lines(""), IsEmpty());
  EXPECT_THAT(lines("\n"), ElementsAre(""));
  EXPECT_THAT(lines("a\nb"), ElementsAre("a", "b"));
  EXPECT_THAT(lines("a\n\nb\n"), ElementsAre("a", "", "b"));
  EXPECT_THAT(lines("a\r\n\r\nb\rc\r\n"), ElementsAre("a", "", "b\rc"));
  EXPECT_THAT(lines("\xEF\xBB\xBF"), IsEmpty());
  EXPECT_THAT(lines("\xEF\xBB\xBFä\n"), ElementsAre("ä"));
}

TEST(LineReader, ReadsMoreThanItsBufferHolds) {
  const TemporaryFolder folder;
  std::string text;
  std::vector<std::string> expected;
  for (int i = 0; i < 60; ++i) {
    expected.push_back(std::to_string(i) + std::string(static_cast<size_t>(i) * 1000, 'x'));
    text += expected.back() + '\n';
  }
  EXPECT_EQ(lines_of_file(folder.write("a", text)), expected);
  EXPECT_EQ(lines_of_file(folder.write("a.gz", gzip(text))), expected);
}

TEST(LineReader, ReadsGzipMembersOneAfterTheOther) {
  const TemporaryFolder folder;
  EXPECT_THAT(lines_of_file(folder.write("a", gzip("one\ntw") + gzip("") + gzip("o\n"))),
              ElementsAre("one", "two"));
}

TEST(LineReader, RefusesBrokenGzip) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += std::to_string(i) + '\n';
  const std::string whole = gzip(text);
  for (const size_t size : {size_t{2}, size_t{9}, size_t{30}, whole.size() / 2, whole.size() - 1}) {
    const fs::path file = folder.write("cut", whole.substr(0, size));
    const auto error = error_of([&] { lines_of_file(file); });
    EXPECT_EQ(error.what, "gzip: the file ends too soon");
    EXPECT_THAT(error.where, HasSubstr(file.string() + ", byte"));
  }
  for (const size_t at : {size_t{2}, whole.size() / 2, whole.size() - 6}) {
    std::string broken = whole;
    broken[at] = static_cast<char>(broken[at] ^ 0x55);
    EXPECT_EQ(error_of([&] { lines_of_file(folder.write("broken", broken)); }).what,
              "gzip: broken");
  }
  EXPECT_EQ(error_of([&] { lines_of_file(folder.write("more", whole + "garbage")); }).what,
            "gzip: broken");
}

TEST(LineReader, RefusesWhatIsNoText) {
  const TemporaryFolder folder;
  const auto error = [&](std::string_view text) {
    const fs::path file = folder.write("a.txt", text);
    const auto found = error_of([&] { lines_of_file(file); });
    EXPECT_EQ(error_of([&] { lines_of_file(folder.write("a.txt", gzip(text))); }).got, found.got);
    EXPECT_EQ(found.where.substr(0, file.string().size()), file.string());
    return found.what + found.where.substr(file.string().size()) + ": " + found.got;
  };
  EXPECT_EQ(error("ä\nb\xFF\n"), "text: not UTF-8, line 2: byte FF at place 2 of the line");
  EXPECT_EQ(error("ä\n\n\xC3"), "text: not UTF-8, line 3: byte C3 at place 1 of the line");
  EXPECT_EQ(error("\xFF\xFEh"),
            "text: not UTF-8, line 1: byte FF at place 1 of the line, as UTF-16 starts");
  EXPECT_EQ(error(std::string_view("ab\0c\n", 5)),
            "text: a NUL byte, line 1: at place 3 of the line");
}

TEST(LineReader, RefusesALineWithoutEnd) {
  const TemporaryFolder folder;
  const std::string longest(kLongestLine, 'x');
  EXPECT_EQ(lines_of_file(folder.write("a", longest + "\n")).size(), 1u);
  const auto error = error_of([&] { lines_of_file(folder.write("a", "1\n" + longest + "x\n")); });
  EXPECT_EQ(error.what, "text: a line is too long");
  EXPECT_THAT(error.where, HasSubstr(", line 2"));
}

TEST(LineReader, RefusesWhatIsNoRegularFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { lines_of_file(folder.path()); }).got, "a directory");
  EXPECT_EQ(error_of([&] { lines_of_file(folder.path() / "none"); }).got, "no such file");
  ASSERT_EQ(::mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { lines_of_file(folder.path() / "pipe"); }).got, "a pipe");
}

}  // namespace
}  // namespace headwise
