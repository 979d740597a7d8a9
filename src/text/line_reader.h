// Lines of text files, plain or gzip, one at a time: memory does not grow with the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "headwise/text/lines.h"
#include "io/file.h"

namespace headwise {

inline constexpr size_t kLongestLine = size_t{16} << 20;

/// Lines end with "\n" or "\r\n", the last one also without; a byte order mark at the beginning is
/// skipped. Whether the file is gzip is told by its first bytes, not by its name.
class LineReader {
 public:
  /// Throws Error for what is no regular file.
  explicit LineReader(const std::filesystem::path& path, InvalidUtf8 invalid = InvalidUtf8::refuse);
  ~LineReader();
  LineReader(LineReader&&) noexcept;

  /// The next line, without its end, valid until the next call; false behind the last one. Throws
  /// Error, with the line, for bytes that are no UTF-8, unless they are kept, NUL, a line above
  /// kLongestLine, or gzip that is broken or ends too soon.
  bool next(std::string_view& line);

  const std::filesystem::path& path() const { return file_.path(); }
  int64_t line() const { return line_; }  // the number of the last one, from 1
  std::string where() const;              // "a.txt, line 7"

 private:
  class Gzip;
  bool fill();  // more bytes behind those of buffer_; false at the end
  void check(std::string_view line) const;

  InputFile file_;
  InvalidUtf8 invalid_;
  std::unique_ptr<Gzip> gzip_;  // null: plain text
  size_t taken_ = 0;            // bytes of the file, if it is plain text
  std::string buffer_;
  size_t begin_ = 0;  // of the next line in buffer_
  int64_t line_ = 0;
};

}  // namespace headwise
