// Arrays for NumPy.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace headwise {

/// A .npy file (version 1.0, row-major little-endian float32), byte for byte as numpy.save writes
/// it. The file is written completely or not at all. Throws Error unless the shape has as many
/// elements as there are values.
void write_npy(const std::filesystem::path& file, std::span<const float> values,
               std::span<const int64_t> shape);

}  // namespace headwise
