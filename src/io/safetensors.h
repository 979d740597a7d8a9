// One safetensors file: 8 bytes with the length of a JSON header, the header, the data.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/io/tensor_file.h"
#include "io/file.h"

namespace headwise {

inline constexpr int64_t kLongestHeader = 100'000'000;  // as the format's own reader
inline constexpr size_t kMostDimensions = 8;

std::optional<Dtype> dtype_named(std::string_view name);
std::string dtype_names();  // "BOOL, U8, …"

/// shape × dtype in bytes, or nothing if that overflows.
std::optional<int64_t> tensor_bytes(std::span<const int64_t> shape, Dtype dtype);

struct Safetensors {
  std::map<std::string, std::string> metadata{};
  std::vector<TensorInfo> tensors{};  // in the order of their data
};

/// Reads the header of a file, and checks that its tensors fill the rest.
Safetensors parse_safetensors(const InputFile& file);

/// A shell command that converts the pickles of a folder.
std::string conversion_command(const std::filesystem::path& folder);

}  // namespace headwise
