// Whether a file is still the same: its size and a hash of its bytes.
#pragma once

#include <filesystem>
#include <string>

namespace headwise {

/// "1234 bytes, 0f3a…": the same for the same contents. Not meant against somebody who forges it.
std::string file_identity(const std::filesystem::path& path);

}  // namespace headwise
