// Files as the writers of their formats make them: read right, and written the same, byte for byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "golden/folder.h"
#include "headwise/io/npy.h"
#include "headwise/io/tensor_file.h"
#include "io/io_testing.h"

namespace headwise {
namespace {

const std::filesystem::path kFolder = golden_folder() / "io";

template <class T>
std::vector<T> stored(const TensorFiles& files, const char* name) {
  const TensorInfo* info = files.find(name);
  std::vector<T> values(info->size());
  if (byte_size(info->dtype) == sizeof(T)) {
    files.read_bytes(*info, 0, std::as_writable_bytes(std::span(values)));
  }
  return values;
}

std::vector<float> floats(const TensorFiles& files, const char* name) {
  const TensorInfo* info = files.find(name);
  std::vector<float> values(info->size());
  files.read(*info, values);
  return values;
}

TEST(GoldenSafetensors, ReadsEveryType) {
  const TensorFiles files = TensorFiles::open(kFolder / "all_types.safetensors");
  EXPECT_EQ(files.tensors().size(), 13u);
  EXPECT_EQ(files.metadata().at("format"), "pt \"ü\"");
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(floats(files, "float64")[i], static_cast<float>(i + 0.1));
    EXPECT_EQ(floats(files, "float32")[i], static_cast<float>(i) + 0.1f);
    EXPECT_NEAR(floats(files, "float16")[i], i / 3.0, 2 * 0x1p-11);  // half an ulp below 2
    EXPECT_NEAR(floats(files, "bfloat16")[i], i / 3.0, 2 * 0x1p-8);
    EXPECT_EQ(stored<int64_t>(files, "int64")[i], i - (int64_t{1} << 40));
    EXPECT_EQ(stored<int32_t>(files, "int32")[i], i - 70000);
    EXPECT_EQ(stored<int16_t>(files, "int16")[i], i - 300);
    EXPECT_EQ(stored<int8_t>(files, "int8")[i], i - 3);
    EXPECT_EQ(stored<uint8_t>(files, "uint8")[i], i + 200);
    EXPECT_EQ(stored<uint8_t>(files, "bool")[i], i % 2 == 0);
  }
  EXPECT_EQ(floats(files, "scalar"), std::vector<float>{2.5f});
  EXPECT_TRUE(files.find("scalar")->shape.empty());
  EXPECT_EQ(files.find("empty")->shape, (std::vector<int64_t>{0, 4}));
  EXPECT_NE(files.find("a \"name\" with ü, \t and \x1f"), nullptr);
}

TEST(GoldenSafetensors, IsWrittenTheSame) {
  const TensorFiles files = TensorFiles::open(kFolder / "all_types.safetensors");
  std::vector<TensorToWrite> tensors;
  for (const TensorInfo& info : files.tensors()) {
    tensors.push_back(files.copy_of(info));
  }
  const TemporaryFolder folder;
  write_tensors(folder.path() / "again.safetensors", tensors, files.metadata());
  EXPECT_EQ(contents_of(folder.path() / "again.safetensors"),
            contents_of(kFolder / "all_types.safetensors"));
}

TEST(GoldenNpy, IsWrittenTheSame) {
  std::vector<float> values(24);
  for (int i = 0; i < 24; ++i) values[i] = static_cast<float>(i) / 7;
  const TemporaryFolder folder;
  write_npy(folder.path() / "array.npy", values, std::vector<int64_t>{2, 3, 4});
  EXPECT_EQ(contents_of(folder.path() / "array.npy"), contents_of(kFolder / "array.npy"));
}

}  // namespace
}  // namespace headwise
