// Cuts what is read or inflated at its line ends, and checks every line.
#include "text/line_reader.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/text/utf8.h"

namespace headwise {
namespace {

constexpr size_t kStep = size_t{1} << 18;  // bytes put into the buffer at once

/// At most kStep bytes of a file.
std::string read_part(const InputFile& file, size_t at) {
  std::string part(std::min(kStep, static_cast<size_t>(file.size()) - at), '\0');
  file.read(static_cast<int64_t>(at), std::as_writable_bytes(std::span(part)));
  return part;
}

bool is_gzip(const InputFile& file) {
  std::string begin(std::min<int64_t>(2, file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(begin)));
  return begin == "\x1F\x8B";
}

}  // namespace

/// Inflates the members of a gzip file one after the other.
class LineReader::Gzip {
 public:
  Gzip() {
    constexpr int kGzipOnly = 16;
    if (inflateInit2(&stream_, MAX_WBITS + kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~Gzip() { inflateEnd(&stream_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  /// Appends up to kStep bytes; false if there are none.
  bool read(const InputFile& file, std::string& out) {
    const size_t before = out.size();
    const auto size = static_cast<size_t>(file.size());
    while (out.size() == before && (in_member_ || taken_ < size)) {
      out.resize(before + kStep);
      stream_.next_out = reinterpret_cast<Bytef*>(out.data() + before);
      stream_.avail_out = kStep;
      if (stream_.avail_in == 0) {
        part_ = read_part(file, taken_);
        stream_.next_in = reinterpret_cast<Bytef*>(part_.data());
        stream_.avail_in = static_cast<uInt>(part_.size());
      }
      const uInt waiting = stream_.avail_in;
      const int result = inflate(&stream_, Z_NO_FLUSH);
      taken_ += waiting - stream_.avail_in;
      out.resize(before + kStep - stream_.avail_out);
      in_member_ = result != Z_STREAM_END;
      if (result == Z_STREAM_END) {
        inflateReset(&stream_);
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        refuse(file, "gzip: broken",
               stream_.msg != nullptr ? stream_.msg : "bytes that are no gzip",
               "gzip -t names the same place; fetch or write the file again");
      } else if (taken_ == size && out.size() == before) {
        refuse(file, "gzip: the file ends too soon", "no end of the compressed text",
               "it was cut off; fetch or write it again");
      }
    }
    return out.size() > before;
  }

 private:
  [[noreturn]] void refuse(const InputFile& file, const char* what, const char* got,
                           const char* hint) const {
    throw Error(
        {.what = what,
         .where = fmt::format("{}, byte {} of {}", file.path().string(), taken_, file.size()),
         .got = got,
         .expected = "gzip members one after the other, whole",
         .hint = hint});
  }

  std::string part_;  // of the file, which is being inflated
  size_t taken_ = 0;  // bytes of the file
  bool in_member_ = true;
  z_stream stream_{};
};

LineReader::LineReader(const std::filesystem::path& path, InvalidUtf8 invalid)
    : file_(path), invalid_(invalid) {
  if (is_gzip(file_)) gzip_ = std::make_unique<Gzip>();
  while (buffer_.size() < 3 && fill()) {
  }
  if (buffer_.starts_with("\xEF\xBB\xBF")) begin_ = 3;
}

LineReader::~LineReader() = default;
LineReader::LineReader(LineReader&&) noexcept = default;

std::string LineReader::where() const {
  return fmt::format("{}, line {}", file_.path().string(), line_);
}

bool LineReader::fill() {
  if (gzip_) return gzip_->read(file_, buffer_);
  const std::string part = read_part(file_, taken_);
  buffer_.append(part);
  taken_ += part.size();
  return !part.empty();
}

bool LineReader::next(std::string_view& line) {
  size_t searched = begin_;
  size_t end;
  while ((end = buffer_.find('\n', searched)) == std::string::npos) {
    buffer_.erase(0, std::exchange(begin_, 0));
    searched = buffer_.size();
    if (searched > kLongestLine + 1 || !fill()) break;  // 1: "\r"
  }
  if (end == std::string::npos) end = buffer_.size();
  if (end == begin_ && end == buffer_.size()) return false;
  ++line_;
  line = std::string_view(buffer_).substr(begin_, end - begin_);
  begin_ = std::min(end + 1, buffer_.size());
  if (line.ends_with('\r')) line.remove_suffix(1);
  check(line);
  return true;
}

void LineReader::check(std::string_view line) const {
  const auto refuse = [&](const char* what, std::string got, const char* expected,
                          const char* hint) {
    throw Error({.what = what,
                 .where = where(),
                 .got = std::move(got),
                 .expected = expected,
                 .hint = hint});
  };
  if (line.size() > kLongestLine) {
    refuse("text: a line is too long", fmt::format("more than {} bytes", kLongestLine),
           "a text per line", "is it a text file, and are its line ends \\n or \\r\\n?");
  }
  const std::optional<size_t> invalid =
      invalid_ == InvalidUtf8::refuse ? find_invalid_utf8(line) : std::nullopt;
  if (invalid) {
    const size_t at = *invalid;
    const bool utf16 =
        line_ == 1 && at == 0 && (line.starts_with("\xFF\xFE") || line.starts_with("\xFE\xFF"));
    refuse("text: not UTF-8",
           fmt::format("byte {:02X} at place {} of the line{}", static_cast<uint8_t>(line[at]),
                       at + 1, utf16 ? ", as UTF-16 starts" : ""),
           "text in UTF-8", "convert it, for instance with iconv -t UTF-8 -f ENCODING");
  }
  if (const size_t at = line.find('\0'); at != std::string_view::npos) {
    refuse("text: a NUL byte", fmt::format("at place {} of the line", at + 1), "text",
           "is it a text file?");
  }
}

}  // namespace headwise
