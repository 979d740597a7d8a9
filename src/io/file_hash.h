// Whether a file is still the same: hashes of its bytes.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>

namespace headwise {

/// "1234 bytes, 0f3a…": the same for the same contents. Not meant against somebody who forges it.
std::string file_identity(const std::filesystem::path& path);

/// SHA-256 of the bytes of these files, one after the other. `check` is called now and then, and
/// may throw to stop.
std::string sha256_of_files(std::span<const std::filesystem::path> files,
                            const std::function<void()>& check = {});

}  // namespace headwise
