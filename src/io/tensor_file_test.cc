// Checkpoints: one file or shards, values of every type, and what is written reads back.
#include "headwise/io/tensor_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <limits>
#include <numeric>

#include "io/io_testing.h"

namespace headwise {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

namespace fs = std::filesystem;

std::vector<float> counting(int64_t size) {
  std::vector<float> values(size);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

TensorToWrite floats(const std::string& name, const std::vector<float>& values) {
  return {.name = name,
          .dtype = Dtype::kF32,
          .shape = {static_cast<int64_t>(values.size())},
          .bytes = std::as_bytes(std::span(values))};
}

void write_one(const fs::path& file, const std::string& name, const std::vector<float>& values) {
  const std::vector<TensorToWrite> tensors = {floats(name, values)};
  write_tensors(file, tensors, {});
}

std::vector<float> read(const TensorFiles& files, const std::string& name) {
  const TensorInfo* info = files.find(name);
  if (info == nullptr) return {};
  std::vector<float> values(info->size());
  files.read(*info, values);
  return values;
}

TEST(TensorFiles, ReadBackWhatWasWritten) {
  const TemporaryFolder folder;
  const auto a = counting(5), b = counting(3000);
  const std::vector<int64_t> whole = {-1, 2};
  const std::vector<TensorToWrite> tensors = {
      floats("z", a),
      {.name = "i",
       .dtype = Dtype::kI64,
       .shape = {2, 1},
       .bytes = std::as_bytes(std::span(whole))},
      {.name = "b.ü\n", .shape = {2, 3, 500}, .bytes = std::as_bytes(std::span(b))},
      {.name = "empty", .dtype = Dtype::kF16, .shape = {0, 4}}};
  write_tensors(folder.path() / "model.safetensors", tensors,
                {{"format", "pt"}, {"note", "\"quoted\""}});
  EXPECT_THAT(folder.names(), ElementsAre("model.safetensors"));

  const TensorFiles files = TensorFiles::open(folder.path());
  ASSERT_EQ(files.tensors().size(), 4u);
  EXPECT_EQ(files.tensors()[0].name, "b.ü\n");
  EXPECT_EQ(files.tensors()[3].name, "z");
  EXPECT_THAT(files.metadata(),
              ElementsAre(testing::Pair("format", "pt"), testing::Pair("note", "\"quoted\"")));
  EXPECT_EQ(read(files, "z"), a);
  EXPECT_EQ(read(files, "b.ü\n"), b);
  EXPECT_EQ(files.find("b.ü\n")->shape, (std::vector<int64_t>{2, 3, 500}));
  EXPECT_EQ(files.find("i")->dtype, Dtype::kI64);
  EXPECT_EQ(std::memcmp(files.bytes(*files.find("i")).data(), whole.data(), 16), 0);
  int64_t second = 0;
  files.read_bytes(*files.find("i"), 8, std::as_writable_bytes(std::span(&second, 1)));
  EXPECT_EQ(second, whole[1]);
  EXPECT_EQ(files.find("empty")->size(), 0);
  EXPECT_EQ(files.find("none"), nullptr);
}

TEST(TensorFiles, WriteTheSameBytesAgain) {
  const TemporaryFolder folder;
  const auto a = counting(5);
  write_one(folder.path() / "a.safetensors", "a", a);
  const TensorFiles files = TensorFiles::open(folder.path() / "a.safetensors");
  std::vector<TensorToWrite> again;
  for (const TensorInfo& info : files.tensors()) again.push_back(files.copy_of(info));
  write_tensors(folder.path() / "b.safetensors", again, files.metadata());
  EXPECT_EQ(contents_of(folder.path() / "a.safetensors"),
            contents_of(folder.path() / "b.safetensors"));
}

TEST(TensorFiles, CopiesDoNotNeedTheInfoTheyWereMadeOf) {
  const TemporaryFolder folder;
  const auto a = counting(5);
  write_one(folder.path() / "a.safetensors", "a", a);
  const TensorFiles files = TensorFiles::open(folder.path() / "a.safetensors");
  TensorInfo info = *files.find("a");
  const TensorToWrite copy = files.copy_of(info);
  info.shape = {1};
  const TensorBytes bytes = copy.load();
  ASSERT_EQ(bytes.span().size(), 5 * sizeof(float));
  EXPECT_EQ(std::memcmp(bytes.data(), a.data(), bytes.span().size()), 0);
}

TEST(TensorFiles, GiveValuesThatAreNotAligned) {
  const TemporaryFolder folder;
  const float value = 2.5f;
  std::string data = "x";
  data.append(reinterpret_cast<const char*>(&value), sizeof(value));
  for (const std::string padding : {"", " ", "  ", "   "}) {
    const auto file = folder.write(
        "odd.safetensors", safetensors(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                       R"("w":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})" +
                                           padding,
                                       data));
    const TensorFiles files = TensorFiles::open(file);
    EXPECT_THAT(read(files, "w"), ElementsAre(2.5f));
  }
}

TEST(TensorFiles, RefuseValuesThatWereCutOffAfterTheFileWasOpened) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "m.safetensors";
  write_one(path, "w", counting(100000));
  const TensorFiles files = TensorFiles::open(path);
  files.check_unchanged();
  const auto size = fs::file_size(path);
  fs::resize_file(path, size / 2);
  const ErrorDetail error = error_of([&] { read(files, "w"); });
  EXPECT_EQ(error.what, "file: it was shortened while it was read");
  EXPECT_EQ(error.where, path.string());
  EXPECT_THAT(error.expected, HasSubstr(std::to_string(size)));
  EXPECT_THAT(error_of([&] { files.check_unchanged(); }).what, HasSubstr("was changed"));
}

TEST(TensorFiles, GoOnWithTheFileThatWasOpenedWhenAnotherTakesItsName) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "m.safetensors";
  const auto values = counting(1000);
  write_one(path, "w", values);
  const TensorFiles files = TensorFiles::open(path);
  write_one(path, "w", counting(3));
  EXPECT_EQ(read(files, "w"), values);
}

TEST(TensorFiles, NameTheFirstValueThatIsNotFinite) {
  const TemporaryFolder folder;
  auto values = counting(600000);
  values[500001] = std::numeric_limits<float>::quiet_NaN();
  values[300002] = -std::numeric_limits<float>::infinity();
  write_one(folder.path() / "m.safetensors", "layer.0.weight", values);
  const TensorFiles files = TensorFiles::open(folder.path() / "m.safetensors");
  const TensorInfo& info = files.tensors()[0];
  const auto error = error_of([&] { files.check_finite(info, files.bytes(info).span()); });
  EXPECT_THAT(error.where, AllOf(HasSubstr("m.safetensors: tensor \"layer.0.weight\""),
                                 HasSubstr("index 300002")));
  EXPECT_EQ(error.got, "-inf");
  EXPECT_THAT(error.expected, HasSubstr("finite"));
}

TEST(TensorFiles, ReadOnlyFloatsOfTheRightSize) {
  const TemporaryFolder folder;
  const auto file =
      folder.write("i.safetensors",
                   safetensors(R"({"i":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})", "1234"));
  const TensorFiles files = TensorFiles::open(file);
  const TensorInfo& info = files.tensors()[0];
  std::vector<float> out(4);
  const auto error = error_of([&] { files.read(info, out); });
  EXPECT_THAT(error.where, HasSubstr("tensor \"i\""));
  EXPECT_EQ(error.got, "I8");
  files.check_finite(info, files.bytes(info).span());

  write_one(folder.path() / "f.safetensors", "f", counting(3));
  const TensorFiles other = TensorFiles::open(folder.path() / "f.safetensors");
  const auto size = error_of([&] { other.read(other.tensors()[0], out); });
  EXPECT_EQ(size.got, "4 values");
  EXPECT_EQ(size.expected, "3 values");
}

class Shards : public testing::Test {
 protected:
  void index(const std::string& weight_map) {
    folder_.write("model.safetensors.index.json",
                  R"({"metadata":{"total_size":12},"weight_map":)" + weight_map + "}");
  }
  ErrorDetail refused() {
    return error_of([&] { TensorFiles::open(folder_.path()); });
  }
  void SetUp() override {
    write_one(folder_.path() / "m-1.safetensors", "a", counting(2));
    write_one(folder_.path() / "m-2.safetensors", "b", counting(1));
  }
  TemporaryFolder folder_;
};

TEST_F(Shards, AreOneCheckpoint) {
  index(R"({"a":"m-1.safetensors","b":"m-2.safetensors"})");
  const TensorFiles files = TensorFiles::open(folder_.path());
  EXPECT_THAT(read(files, "a"), ElementsAre(1, 2));
  EXPECT_THAT(read(files, "b"), ElementsAre(1));
  EXPECT_EQ(files.files().size(), 2u);
  EXPECT_THAT(files.where(*files.find("b")), HasSubstr("m-2.safetensors: tensor \"b\""));
}

TEST_F(Shards, MustLieBesideTheIndex) {
  for (const char* name :
       {"../m-1.safetensors", "/etc/passwd", "..", ".", "", "x\\\\y", "a\\u0000"}) {
    index(R"({"a":")" + std::string(name) + R"("})");
    const auto error = refused();
    EXPECT_THAT(error.what, HasSubstr("a shard outside the folder"));
    EXPECT_THAT(error.where, HasSubstr("index.json: weight_map.a"));
    EXPECT_THAT(error.expected, HasSubstr("a file beside it"));
  }
}

TEST_F(Shards, MustAllBeThere) {
  index(R"({"a":"m-1.safetensors","b":"m-3.safetensors"})");
  const auto error = refused();
  EXPECT_THAT(error.what, HasSubstr("a shard is missing"));
  EXPECT_THAT(error.where, HasSubstr("index.json"));
  EXPECT_THAT(error.got, HasSubstr("m-3.safetensors"));
}

TEST_F(Shards, MustNotRepeatATensor) {
  fs::copy(folder_.path() / "m-1.safetensors", folder_.path() / "m-3.safetensors");
  index(R"({"a":"m-1.safetensors","b":"m-2.safetensors","c":"m-3.safetensors"})");
  const auto error = refused();
  EXPECT_THAT(error.what, HasSubstr("a tensor is in two shards"));
  EXPECT_THAT(error.where, HasSubstr("tensor \"a\""));
  EXPECT_THAT(error.got, AllOf(HasSubstr("m-1.safetensors"), HasSubstr("m-3.safetensors")));
}

TEST_F(Shards, MustHoldWhatTheIndexSays) {
  index(R"({"a":"m-1.safetensors","b":"m-1.safetensors"})");
  const auto error = refused();
  EXPECT_THAT(error.what, HasSubstr("not in its shard"));
  EXPECT_THAT(error.where, HasSubstr("tensor \"b\""));
  EXPECT_EQ(error.got, "in no shard");
  index(R"({"a":"m-2.safetensors","b":"m-1.safetensors"})");
  EXPECT_THAT(refused().got, HasSubstr("m-1.safetensors"));
}

TEST_F(Shards, NeedAnIndexThatIsOne) {
  index("[]");
  EXPECT_THAT(refused().where, HasSubstr("index.json: weight_map"));
  index(R"({"a":7})");
  EXPECT_THAT(refused().got, "7");
  folder_.write("model.safetensors.index.json", "{}");
  EXPECT_THAT(refused().got, "nothing");
  index(R"({"a":"m-1.safetensors","a":"m-2.safetensors"})");
  EXPECT_THAT(refused().what, HasSubstr("a key is there twice"));
}

TEST(TensorFolder, WithOnlyAPickleSaysHowToConvertIt) {
  const TemporaryFolder folder;
  folder.write("pytorch_model.bin", "PK\3\4");
  folder.write("config.json", "{}");
  const auto error = error_of([&] { TensorFiles::open(folder.path()); });
  EXPECT_THAT(error.what, HasSubstr("only a pickle"));
  EXPECT_EQ(error.where, folder.path().string());
  EXPECT_EQ(error.got, "pytorch_model.bin");
  EXPECT_THAT(error.expected, HasSubstr("model.safetensors"));
  EXPECT_THAT(error.hint, AllOf(HasSubstr("python -c \"import sys, transformers"),
                                HasSubstr("'" + folder.path().string() + "'")));
  const fs::path odd = folder.path() / "it's";
  folder.write(odd / "model.pt", "");
  EXPECT_THAT(error_of([&] { TensorFiles::open(odd); }).hint, EndsWith("/it'\\''s'"));
}

TEST(TensorFolder, WithoutItsFileSaysWhatIsThere) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { TensorFiles::open(folder.path()); }).what, HasSubstr("no weights"));
  folder.write("adapter_model.safetensors", "");
  const auto error = error_of([&] { TensorFiles::open(folder.path()); });
  EXPECT_EQ(error.got, "adapter_model.safetensors");
  EXPECT_THAT(error.hint, HasSubstr("name the file itself"));
}

TEST(TensorFolder, HoldsADirectoryPipeOrDanglingLinkInPlaceOfTheFile) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "model.safetensors";
  const auto refused = [&] {
    const auto error = error_of([&] { TensorFiles::open(folder.path()); });
    EXPECT_EQ(error.where, file.string());
    EXPECT_EQ(error.expected, "a regular file");
    fs::remove(file);
    return error.got;
  };
  fs::create_directory(file);
  EXPECT_EQ(refused(), "a directory");
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_EQ(refused(), "a pipe");
  fs::create_symlink("nowhere", file);
  EXPECT_EQ(refused(), "a link to nowhere, which is not there");
  EXPECT_EQ(error_of([&] { TensorFiles::open(folder.path() / "none"); }).got, "no such file");
}

TEST(WriteTensors, RefusesWhatCouldNotBeReadAgain) {
  const TemporaryFolder folder;
  const auto values = counting(4);
  const auto refused = [&](std::vector<TensorToWrite> tensors,
                           const std::map<std::string, std::string>& metadata = {}) {
    const auto error =
        error_of([&] { write_tensors(folder.path() / "m.safetensors", tensors, metadata); });
    EXPECT_THAT(error.where, HasSubstr("m.safetensors"));
    EXPECT_TRUE(folder.names().empty());
    return error.what;
  };
  TensorToWrite tensor = floats("w", values);
  EXPECT_THAT(refused({tensor, tensor}), HasSubstr("a name is there twice"));
  tensor.shape = {5};
  EXPECT_THAT(refused({tensor}), HasSubstr("does not fit the shape"));
  tensor.shape = {-2, -2};
  EXPECT_THAT(refused({tensor}), HasSubstr("the shape cannot be"));
  EXPECT_THAT(refused({floats("__metadata__", values)}), HasSubstr("reserved"));
  EXPECT_THAT(refused({floats("\xff", values)}), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(refused({}, {{"k", "\xff"}}), HasSubstr("not valid UTF-8"));
}

}  // namespace
}  // namespace headwise
