// Text files as documents, and tab-separated lines as columns.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "headwise/train/examples.h"
#include "text/line_reader.h"

namespace headwise {

/// A piece of a document; pieces of one follow each other, and no word crosses their borders.
struct Piece {
  std::string_view text{};
  bool begins = true;  // its document
  bool ends = true;
};

/// The documents of files in pieces of about 1 MiB, so that memory does not grow with them. Lines
/// that are empty are no documents; in a whole file every line ends with "\n". Calls
/// `options.progress`.
void for_each_piece(const Files& files, Documents documents, const ReadOptions& options,
                    const std::function<void(const Piece& piece, const LineReader& reader)>& found);

/// The columns of every line. Throws Error if a line has not `columns` of them, and for a header.
void for_each_row(const Files& files, size_t columns, const char* form, const ReadOptions& options,
                  const std::function<void(std::span<const std::string_view> row,
                                           const LineReader& reader)>& found);

/// Tells how many lines were read so far, now and then.
class LineProgress {
 public:
  explicit LineProgress(const ReadOptions& options) : report_(options.progress) {}
  void count();

 private:
  const std::function<void(int64_t)>& report_;
  int64_t lines_ = 0;
};

}  // namespace headwise
