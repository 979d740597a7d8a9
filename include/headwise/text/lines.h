// The lines of a text file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace headwise {

/// The lines of a text, without their ends, \n or \r\n, and without a byte order mark.
std::vector<std::string> lines_of(std::string_view text);

enum class InvalidUtf8 { refuse, keep };

/// Those of a file, which may be gzip. Throws Error for what is no text, with the line.
std::vector<std::string> read_lines(const std::filesystem::path& file,
                                    InvalidUtf8 invalid = InvalidUtf8::refuse);

/// Recognises labelled files where texts alone are wanted: every line has a tab, and a last column
/// without spaces.
class LabelColumns {
 public:
  void see(std::string_view line);
  /// Throws Error, naming the task that the file is for, if all lines of it were such.
  void check(const std::filesystem::path& file) const;

 private:
  int64_t lines_ = 0, labelled_ = 0, scored_ = 0;
};

}  // namespace headwise
