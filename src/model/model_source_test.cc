// What a model knows about where it is from.
#include "model/model_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "golden/folder.h"
#include "headwise/core/error.h"
#include "headwise/model/model.h"
#include "headwise/text/tokenizer.h"
#include "io/io_testing.h"
#include "io/sha256.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

std::string sha256_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  Sha256 sha;
  sha.add(bytes);
  return sha.finish();
}

fs::path with_tokenizer(const TemporaryFolder& folder) {
  const fs::path copy = folder.path() / "small";
  fs::copy(golden_model("bert"), copy);
  fs::copy_file(golden_folder() / "text/tokenizers/bert-uncased/tokenizer.json",
                copy / "tokenizer.json");
  return copy;
}

TEST(ModelSource, AModelKnowsItsFolderAndName) {
  const Model model = load((golden_model("bert") / "").string(), {.allow_unexpected = true});
  EXPECT_EQ(model.folder(), golden_model("bert") / "");
  EXPECT_EQ(model.name(), "bert");
  EXPECT_TRUE(model.load_options().allow_unexpected);
  EXPECT_EQ(model.tokenizer(), nullptr);
}

TEST(ModelSource, TheHashIsThatOfTheFileWithWeights) {
  const Model model = load(golden_model("bert").string());
  const std::string expected = sha256_of(golden_model("bert") / "model.safetensors");
  std::vector<std::string> hashes(4);
  {
    std::vector<std::jthread> threads;
    for (std::string& hash : hashes) threads.emplace_back([&] { hash = model.hash(); });
  }
  EXPECT_THAT(hashes, testing::Each(expected));
}

TEST(ModelSource, AHashCanBeStoppedAndAskedForAgain) {
  const Model model = load(golden_model("bert").string());
  struct Stopped {};
  EXPECT_THROW(model.hash([] { throw Stopped(); }), Stopped);
  EXPECT_EQ(model.hash(), sha256_of(golden_model("bert") / "model.safetensors"));
}

TEST(ModelSource, TheTokenizerIsReadWithTheModelOrWhenItIsAskedFor) {
  const TemporaryFolder folder;
  const fs::path path = with_tokenizer(folder);
  const Model at_once = load(path.string()), later = read_model(path);
  ASSERT_NE(at_once.tokenizer(), nullptr);
  ASSERT_NE(later.tokenizer(), nullptr);
  EXPECT_EQ(later.tokenizer()->kind(), at_once.tokenizer()->kind());
  EXPECT_EQ(later.tokenizer(), later.tokenizer()) << "read once";
}

TEST(ModelSource, ATokenizerThatCannotBeReadIsNoReasonToRefuseTheWeights) {
  const TemporaryFolder folder;
  const fs::path path = with_tokenizer(folder);
  std::ofstream(path / "tokenizer.json") << "{";
  const Model model = read_model(path);
  EXPECT_THROW(model.tokenizer(), Error);
  EXPECT_THROW(load(path.string()), Error);
}

}  // namespace
}  // namespace headwise
