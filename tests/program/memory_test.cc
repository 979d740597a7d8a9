// How much memory hostile files take, as docs/formats.md says: small parts that cost much to keep.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "io/io_testing.h"
#include "program/program.h"

namespace headwise {
namespace {

constexpr size_t kSize = size_t{4} << 20;
constexpr int64_t kProgram = int64_t{96} << 20;  // itself, and the test before it becomes it

/// The most bytes of memory that the program had.
int64_t peak_of(const std::vector<std::string>& arguments) {
  const std::string program = program_path();
  std::vector<char*> all = {const_cast<char*>(program.c_str())};
  for (const std::string& one : arguments) all.push_back(const_cast<char*>(one.c_str()));
  all.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const int nothing = open("/dev/null", O_RDWR);
    for (const int fd : {0, 1, 2}) dup2(nothing, fd);
    execv(program.c_str(), all.data());
    _exit(127);
  }
  int status = 0;
  rusage usage = {};
  EXPECT_EQ(wait4(child, &status, 0, &usage), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_THAT(WEXITSTATUS(status), testing::AnyOf(0, 1));
  return int64_t{usage.ru_maxrss} << 10;
}

/// before, unit, unit, …, after: kSize bytes.
std::string repeated(std::string_view before, std::string_view unit, std::string_view after) {
  std::string text(before);
  while (text.size() + unit.size() + after.size() <= kSize) text += unit;
  return text.append(after);
}

/// A golden model that reads the words w5, w6, …
std::string model_with_words(const TemporaryFolder& folder) {
  const std::filesystem::path model = folder.path() / "words";
  std::filesystem::copy(golden_model_path("bert"), model, std::filesystem::copy_options::recursive);
  const auto config = nlohmann::json::parse(contents_of(model / "config.json"));
  std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (int i = 5; i < config["vocab_size"]; ++i) words += "w" + std::to_string(i) + "\n";
  folder.write("words/vocab.txt", words);
  return model.string();
}

void expect_at_most(int64_t times, const std::vector<std::string>& arguments) {
#ifndef HEADWISE_SANITIZED  // which has memory of its own
  EXPECT_LE(peak_of(arguments), kProgram + times * static_cast<int64_t>(kSize)) << arguments[0];
#else
  peak_of(arguments);
#endif
}

TEST(Memory, OfJsonIsAtMostFortyTimesTheFile) {
  const TemporaryFolder folder;
  std::string keys = "{\"a\":0";
  for (int i = 0; keys.size() < kSize; ++i) keys += ",\"" + std::to_string(i) + "\":0";
  const std::string files[] = {repeated("[", "[],", "[]]"), repeated("[", "{},", "{}]"),
                               repeated("[", "\"\",", "0]"), keys + "}",
                               repeated("{\"a\":[", "[[[]]],", "0]}")};
  for (const std::string& bytes : files) {
    SCOPED_TRACE(bytes.substr(0, 20));
    const std::string file = folder.write("a.json", bytes).string();
    expect_at_most(40, {"judge", file});
    expect_at_most(40, {"probes", "--probe-lexicon", file, "-o", (folder.path() / "o").string()});
    folder.write("m/config.json", bytes);
    expect_at_most(40, {"inspect", (folder.path() / "m").string()});
  }
}

TEST(Memory, OfDeepNestingIsAboutTheFile) {
  const TemporaryFolder folder;
  const std::string file = folder.write("a.json", std::string(kSize, '[')).string();
  expect_at_most(4, {"judge", file});
  expect_at_most(4, {"prune", golden_model_path("bert"), file, "-o", file + ".out"});
}

TEST(Memory, OfSettingsIsBoundedByTheirSize) {
  const TemporaryFolder folder;
  const std::string file = folder.write("a.json", repeated("[", "[],", "[]]")).string();
  expect_at_most(0, {"train", file, "-o", (folder.path() / "o").string()});
}

TEST(Memory, OfASweepIsBoundedByItsTrials) {
  const TemporaryFolder folder;
  std::string values = "0", paths = "\"a\"";
  for (int i = 1; i < 9000; ++i) values += "," + std::to_string(i);
  for (int i = 1; i < 20000; ++i) paths += ",\"a\"";
  const std::string base = R"({"base":{"data":{"train":[)" + paths + "]}},\"grid\":{";
  for (const std::string& grid :
       {"\"seed\":[" + values + "],\"steps\":[" + values + "]}}", "\"seed\":[" + values + "]}}"}) {
    const std::string file = folder.write("a.json", base + grid).string();
    expect_at_most(4, {"sweep", file, "-o", (folder.path() / "o").string()});
  }
}

TEST(Memory, OfAHeaderIsAtMostFortyTimesTheFile) {
  const TemporaryFolder folder;
  std::filesystem::copy(golden_model_path("bert"), folder.path() / "m",
                        std::filesystem::copy_options::recursive);
  for (const char* unit : {"\"a\":{},", "\"a\":[],"}) {
    const std::string header = repeated("{", unit, "\"b\":{}}");
    std::string bytes;
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> (8 * i));
    folder.write("m/model.safetensors", bytes + header);
    expect_at_most(40, {"inspect", (folder.path() / "m").string()});
  }
}

TEST(Memory, OfTreebanksIsAtMostEightyTimesTheFile) {
  const TemporaryFolder folder;
  const std::string file =
      folder.write("a.conllu", repeated("", "1\ta\ta\tX\t_\t_\t0\troot\t_\t_\n\n", "")).string();
  expect_at_most(80, {"observe", model_with_words(folder), "--treebank", file, "--measure",
                      "linguistic", "--no-probes"});
}

TEST(Memory, OfGzipDoesNotGrowWithWhatItInflatesTo) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "a.gz").string();
  const gzFile packed = gzopen(file.c_str(), "wb9");
  const std::string zeros(1 << 20, 'a');
  for (int i = 0; i < 256; ++i) gzwrite(packed, zeros.data(), static_cast<unsigned>(zeros.size()));
  ASSERT_EQ(gzclose(packed), Z_OK);
  const std::string model = model_with_words(folder);
  for (const char* option : {"--input", "--treebank", "--coref"}) {
    expect_at_most(16, {"observe", model, option, file, "--no-probes"});
  }
}

}  // namespace
}  // namespace headwise
