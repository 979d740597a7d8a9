// Files: what is refused to be read, and that writing leaves the old or the new, never a mix.
#include "io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "io/io_testing.h"

namespace headwise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

namespace fs = std::filesystem;

/// No file grows beyond `bytes` meanwhile, as on a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  sighandler_t handler_;
  rlimit before_ = {};
};

TEST(InputFile, ReadsTheBytes) {
  const TemporaryFolder folder;
  const InputFile file(folder.write("a", std::string("x\0yz", 4)));
  EXPECT_EQ(file.size(), 4);
  std::string part(2, '-');
  file.read(1, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, std::string("\0y", 2));
  EXPECT_EQ(InputFile(folder.write("empty", "")).size(), 0);
}

TEST(InputFile, RefusesWhatIsNoRegularFile) {
  const TemporaryFolder folder;
  const auto got = [](const fs::path& path) {
    const auto error = error_of([&] { InputFile file(path); });
    EXPECT_EQ(error.where, path.string());
    return error.got;
  };
  EXPECT_EQ(got(folder.path()), "a directory");
  EXPECT_EQ(got(folder.path() / "none"), "no such file");
  EXPECT_EQ(got("/dev/null"), "a device");
  ASSERT_EQ(::mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(got(folder.path() / "pipe"), "a pipe");
  fs::create_symlink("nowhere", folder.path() / "link");
  EXPECT_EQ(got(folder.path() / "link"), "a link to nowhere, which is not there");
}

TEST(ReadFile, RefusesMoreThanTheCap) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("a", "12345");
  EXPECT_EQ(read_file(file, 5), "12345");
  const auto error = error_of([&] { read_file(file, 4); });
  EXPECT_EQ(error.got, "5 bytes");
  EXPECT_EQ(error.expected, "at most 4 bytes");
}

TEST(WriteFile, ReplacesTheOldAndLeavesNothingElse) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("a", "old");
  write_file_whole(file, "new");
  EXPECT_EQ(contents_of(file), "new");
  EXPECT_THAT(folder.names(), ElementsAre("a"));
}

TEST(WriteFile, KeepsTheOldWhenTheDiskIsFull) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("a", "old");
  ErrorDetail error;
  {
    const FullDisk full(1000);
    error = error_of([&] { write_file_whole(file, std::string(2000, 'x')); });
  }
  EXPECT_EQ(error.where, file.string());
  EXPECT_THAT(error.got, HasSubstr("File too large"));
  EXPECT_THAT(error.hint, HasSubstr("make room"));
  EXPECT_EQ(contents_of(file), "old");
  EXPECT_THAT(folder.names(), ElementsAre("a"));
}

TEST(WriteFile, RefusesAPlaceThatCannotBe) {
  const TemporaryFolder folder;
  (void)folder.write("f", "");
  EXPECT_EQ(error_of([&] { write_file_whole(folder.path() / "f/a", "x"); }).what,
            "the folder cannot be made");
  fs::create_directory(folder.path() / "d");
  EXPECT_EQ(error_of([&] { write_file_whole(folder.path() / "d", "x"); }).got,
            "a directory is there");
  EXPECT_EQ(error_of([&] { write_file_whole("/dev/null", "x"); }).got, "a device is there");
  EXPECT_THAT(folder.names(), ElementsAre("d", "f"));
}

TEST(WriteFile, RemovesWhatDeadProcessesLeft) {
  const TemporaryFolder folder;
  const std::string dead = std::to_string(dead_process()), living = std::to_string(::getppid());
  const std::set<std::string> kept = {".a." + living + ".0.part",    // somebody writes it now
                                      ".b." + dead + ".0.part",      // of another file
                                      ".a.b." + dead + ".0.part",    // of another file
                                      ".a." + dead + ".part",        // of somebody else
                                      ".a." + dead + ".0.part.txt",  // of somebody else
                                      ".a.-1.0.part"};
  for (const std::string& name : kept) (void)folder.write(name, "");
  (void)folder.write(".a." + dead + ".0.part", "half");
  const fs::path other = folder.write(".a." + dead + ".17.part", "half");
  EXPECT_EQ(left_half_written(folder.path() / "a").size(), 2u);
  write_file_whole(folder.path() / "a", "whole");
  std::set<std::string> names = kept;
  names.insert("a");
  EXPECT_EQ(folder.names(), names);
  EXPECT_FALSE(fs::exists(other));
  EXPECT_TRUE(left_half_written(folder.path() / "none/a").empty());
}

TEST(SyncFolder, ReachesEveryFileAndRefusesNoFolder) {
  const TemporaryFolder folder;
  (void)folder.write("a/b/c", "x");
  fs::create_symlink("nowhere", folder.path() / "a/link");
  sync_folder(folder.path());
  EXPECT_EQ(contents_of(folder.path() / "a/b/c"), "x");
  EXPECT_EQ(error_of([&] { sync_folder(folder.path() / "none"); }).where,
            (folder.path() / "none").string());
}

TEST(WriteFile, MakesTheFoldersAbove) {
  const TemporaryFolder folder;
  write_file_whole(folder.path() / "a/b/c", "x");
  EXPECT_EQ(contents_of(folder.path() / "a/b/c"), "x");
}

TEST(WriteFile, LetsOneOfManyWritersWin) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "a";
  std::vector<std::thread> writers;
  for (char c = 'a'; c < 'e'; ++c) {
    writers.emplace_back([&, c] {
      for (int i = 0; i < 20; ++i) write_file_whole(file, std::string(10000, c));
    });
  }
  for (auto& writer : writers) writer.join();
  const std::string contents = contents_of(file);
  EXPECT_EQ(contents, std::string(10000, contents[0]));
  EXPECT_THAT(folder.names(), ElementsAre("a"));
}

}  // namespace
}  // namespace headwise
