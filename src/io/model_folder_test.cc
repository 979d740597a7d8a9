// Finding a model by its folder, and by its id in a cache of our own making.
#include "headwise/io/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "io/io_testing.h"

namespace headwise {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;

class FindModel : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"}) ::unsetenv(name);
    ::setenv("HOME", folder_.path().c_str(), 1);
  }

  /// A cache with org/name at revision abc123; its snapshot.
  fs::path fill(const fs::path& hub, const std::string& repository = "models--org--name") {
    folder_.write(hub / repository / "refs" / "main", "abc123");
    const fs::path snapshot = hub / repository / "snapshots" / "abc123";
    folder_.write(snapshot / "config.json", "{}");
    return folder_.path() / snapshot;
  }

  ErrorDetail refused(const std::string& name) {
    return error_of([&] { find_model(name); });
  }

  TemporaryFolder folder_;
};

TEST_F(FindModel, TakesAFolderWithAConfig) {
  folder_.write("bert/config.json", "{}");
  EXPECT_EQ(find_model((folder_.path() / "bert").string()), folder_.path() / "bert");
}

TEST_F(FindModel, RefusesAnythingElseThatIsThere) {
  fs::create_directory(folder_.path() / "empty");
  EXPECT_THAT(refused((folder_.path() / "empty").string()).what, HasSubstr("no config.json"));
  const fs::path file = folder_.write("model.safetensors", "");
  EXPECT_THAT(refused(file.string()).hint, HasSubstr("name its folder"));
  const auto none = refused((folder_.path() / "none").string());
  EXPECT_THAT(none.what, HasSubstr("no such folder"));
  EXPECT_EQ(none.where, (folder_.path() / "none").string());
}

TEST_F(FindModel, LooksInTheCacheThatTheEnvironmentNames) {
  const fs::path home = fill(".cache/huggingface/hub");
  EXPECT_EQ(find_model("org/name"), home);
  const fs::path xdg = fill("xdg/huggingface/hub");
  ::setenv("XDG_CACHE_HOME", (folder_.path() / "xdg").c_str(), 1);
  EXPECT_EQ(find_model("org/name"), xdg);
  const fs::path hf_home = fill("hf/hub");
  ::setenv("HF_HOME", (folder_.path() / "hf").c_str(), 1);
  EXPECT_EQ(find_model("org/name"), hf_home);
  const fs::path hub = fill("hub");
  ::setenv("HF_HUB_CACHE", (folder_.path() / "hub").c_str(), 1);
  EXPECT_EQ(find_model("org/name"), hub);
}

TEST_F(FindModel, TakesAnIdWithoutOrganisationAndARefWithANewline) {
  const fs::path snapshot = fill(".cache/huggingface/hub", "models--gpt2");
  folder_.write(".cache/huggingface/hub/models--gpt2/refs/main", "abc123\n");
  EXPECT_EQ(find_model("gpt2"), snapshot);
}

TEST_F(FindModel, SaysHowToFetchWhatIsNotThere) {
  const auto error = refused("org/name");
  EXPECT_THAT(error.what, HasSubstr("neither a folder nor in the cache"));
  EXPECT_EQ(error.where, "org/name");
  EXPECT_THAT(error.got, HasSubstr("models--org--name"));
  EXPECT_THAT(error.got, HasSubstr((folder_.path() / ".cache").string()));
  EXPECT_THAT(error.hint, HasSubstr("hf download org/name"));
}

TEST_F(FindModel, RefusesIdsAndRefsThatLeaveTheCache) {
  for (const char* id : {"../x", "org/..", "a/b/c", "org/na me", "", "org/", "a--b/c"}) {
    EXPECT_THAT(refused(id).what, HasSubstr("no such folder")) << id;
  }
  fill(".cache/huggingface/hub");
  folder_.write(".cache/huggingface/hub/models--org--name/refs/main", "../../x");
  EXPECT_THAT(refused("org/name").what, HasSubstr("no revision"));
}

TEST_F(FindModel, SaysWhatIsMissingOfACachedModel) {
  const fs::path snapshot = fill(".cache/huggingface/hub");
  fs::remove(snapshot / "config.json");
  const auto error = refused("org/name");
  EXPECT_THAT(error.what, HasSubstr("not whole"));
  EXPECT_EQ(error.where, snapshot.string());
  fs::remove(snapshot.parent_path().parent_path() / "refs" / "main");
  EXPECT_THAT(refused("org/name").where, HasSubstr("refs/main"));
}

TEST(IdOfFolder, IsThatOfASnapshotInACache) {
  EXPECT_EQ(id_of_folder("/a/hub/models--org--name-2/snapshots/0a1b/"), "org/name-2");
  EXPECT_EQ(id_of_folder("/a/hub/models--gpt2/snapshots/0a1b"), "gpt2");
  EXPECT_EQ(id_of_folder("/a/models--org--name"), "");
  EXPECT_EQ(id_of_folder("/a/models--org--a b/snapshots/0a1b"), "");
  EXPECT_EQ(id_of_folder("minilm"), "");
}

}  // namespace
}  // namespace headwise
