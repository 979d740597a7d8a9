// The header of a .npy file, then the values.
#include "headwise/io/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <string>

#include "headwise/core/error.h"
#include "headwise/core/shape.h"
#include "io/file.h"
#include "io/safetensors.h"

namespace headwise {
namespace {

static_assert(std::endian::native == std::endian::little);

std::string npy_header(std::span<const int64_t> shape) {
  constexpr size_t kBefore = 10;  // magic, version, length
  constexpr size_t kAlignment = 64;
  constexpr size_t kDigits = 21;  // NumPy leaves room to append along the first dimension
  std::string text = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}{}), }}",
                                 fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  if (!shape.empty()) text.append(kDigits - fmt::formatted_size("{}", shape[0]), ' ');
  const size_t whole = (kBefore + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  text.resize(whole - kBefore - 1, ' ');
  text += '\n';
  const auto length = static_cast<uint16_t>(text.size());
  const char low = static_cast<char>(length & 0xff), high = static_cast<char>(length >> 8);
  return std::string("\x93NUMPY\1\0", 8) + low + high + text;
}

}  // namespace

void write_npy(const std::filesystem::path& file, std::span<const float> values,
               std::span<const int64_t> shape) {
  constexpr size_t kMostDimensions = 64;  // of NumPy
  const bool possible = shape.size() <= kMostDimensions &&
                        std::ranges::all_of(shape, [](int64_t n) { return n >= 0; });
  const std::optional<int64_t> bytes =
      possible ? tensor_bytes(shape, Dtype::kF32) : std::optional<int64_t>();
  if (bytes != static_cast<int64_t>(values.size_bytes())) {
    constexpr int64_t kEach = sizeof(float);
    throw Error({.what = "write_npy: the shape does not fit the values",
                 .where = file.string(),
                 .got = fmt::format("{} values", values.size()),
                 .expected = bytes ? fmt::format("{} for {}", *bytes / kEach, to_string(shape))
                                   : "a shape of at most 64 dimensions and 2^63 bytes"});
  }
  const std::string header = npy_header(shape);
  const std::array parts = {std::as_bytes(std::span(header)), std::as_bytes(values)};
  write_file_whole(file, parts);
}

}  // namespace headwise
