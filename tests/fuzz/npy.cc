// Arrays of any shape are written as a reader that follows NumPy's description of the format
// expects them.
#include "headwise/io/npy.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "files.h"
#include "fuzz.h"

namespace headwise {
namespace {

using fuzz::must;

struct Array {
  std::vector<int64_t> shape{};
  std::vector<float> values{};
};

/// Independent of the writer: finds the fields of the header by their names.
Array read_npy(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  must(bytes.starts_with("\x93NUMPY") && bytes[6] == 1 && bytes[7] == 0, "no npy of version 1.0");
  const size_t length = static_cast<uint8_t>(bytes[8]) + 256u * static_cast<uint8_t>(bytes[9]);
  must((10 + length) % 64 == 0 && bytes[9 + length] == '\n', "a header that is not padded");
  const std::string header = bytes.substr(10, length);
  must(header.find("'descr': '<f4'") != header.npos &&
           header.find("'fortran_order': False") != header.npos,
       "values of another kind");
  Array array;
  size_t at = header.find('(') + 1;
  while (header[at] != ')') {
    size_t digits = 0;
    array.shape.push_back(std::stoll(header.substr(at), &digits));
    at = header.find_first_not_of(", ", at + digits);
  }
  must(array.shape.size() != 1 || header.find(",)") != header.npos, "a number instead of a tuple");
  const size_t data = bytes.size() - 10 - length;
  must(data % sizeof(float) == 0, "half a value");
  array.values.resize(data / sizeof(float));
  if (data > 0) std::memcpy(array.values.data(), bytes.data() + 10 + length, data);
  return array;
}

}  // namespace
}  // namespace headwise

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headwise;
  static const fuzz::Folder folder;
  if (size == 0) return 0;
  Array array;
  const size_t dimensions = std::min<size_t>(data[0], size - 1);
  for (size_t i = 0; i < dimensions; ++i) array.shape.push_back(data[1 + i] % 5);
  const size_t begin = 1 + dimensions;
  array.values.resize((size - begin) / sizeof(float));
  if (!array.values.empty())
    std::memcpy(array.values.data(), data + begin, array.values.size() * sizeof(float));
  if (dimensions > 0 && size % 2 == 0) {  // a shape that fits
    std::fill(array.shape.begin() + 1, array.shape.end(), 1);
    array.shape[0] = std::ssize(array.values);
  }
  const auto file = folder.path() / "a.npy";
  if (!fuzz::succeeds([&] { write_npy(file, array.values, array.shape); })) return 0;
  const Array read = read_npy(file);
  fuzz::must(read.shape == array.shape, "another shape");
  fuzz::must(read.values.size() == array.values.size() &&
                 (read.values.empty() || std::memcmp(read.values.data(), array.values.data(),
                                                     read.values.size() * sizeof(float)) == 0),
             "other values");
  return 0;
}
