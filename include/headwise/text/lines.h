// The lines of a text file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace headwise {

/// Without their ends, \n or \r\n, and without a byte order mark. The file may be gzip. Throws
/// Error for what is no text in UTF-8, with the line.
std::vector<std::string> read_lines(const std::filesystem::path& file);

}  // namespace headwise
