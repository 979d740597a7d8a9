// The values of a golden file that is safetensors.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "headwise/io/tensor_file.h"

namespace headwise {

class GoldenTensors {
 public:
  explicit GoldenTensors(const std::filesystem::path& file) : files_(TensorFiles::open(file)) {}

  bool has(const std::string& name) const { return files_.find(name) != nullptr; }

  std::vector<float> floats(const std::string& name) const {
    const TensorInfo* tensor = files_.find(name);
    std::vector<float> values(tensor->size());
    files_.read(*tensor, values);
    return values;
  }

  std::vector<int64_t> integers(const std::string& name) const {
    const TensorInfo* tensor = files_.find(name);
    std::vector<int64_t> values(tensor->size());
    files_.read_bytes(*tensor, 0, std::as_writable_bytes(std::span(values)));
    return values;
  }

 protected:
  TensorFiles files_;
};

}  // namespace headwise
