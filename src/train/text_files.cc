// Reads files line by line and hands on what a task sees in them.
#include "train/text_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "headwise/core/error.h"
#include "headwise/io/json.h"
#include "text/unicode.h"

namespace headwise {
namespace {

constexpr int64_t kLinesPerReport = 4096;
constexpr size_t kPieceSize = size_t{1} << 20;
constexpr size_t kLargestPiece = size_t{16} << 20;

/// Words are cut apart between lines, if there is no other space: the pre-tokenizers in use put a
/// run of space together, or with the word behind it.
bool may_cut_between(std::string_view text, std::string_view next_line) {
  if (text.size() > kLargestPiece) return true;
  if (text.size() < kPieceSize || text.size() < 2 || next_line.empty()) return false;
  size_t end = text.size() - 1;  // behind it is "\n"
  size_t begin = 0;
  const auto is_space = [](char32_t c) { return (text::flags_of(c) & text::kSpace) != 0; };
  return !is_space(text::previous_char(text, end)) && !is_space(text::next_char(next_line, begin));
}

/// Names of columns, as headers have them.
bool names_column(std::string_view cell) {
  static constexpr std::string_view kNames[] = {
      "text",       "text1",      "text2",  "sentence",  "sentence1",  "sentence2",
      "sentence_a", "sentence_b", "label",  "labels",    "category",   "class",
      "score",      "similarity", "review", "sentiment", "index",      "id",
      "idx",        "source",     "target", "premise",   "hypothesis", "question"};
  std::string lower(cell);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return std::ranges::find(kNames, lower) != std::end(kNames);
}

void refuse_header(std::span<const std::string_view> cells, const char* form,
                   const LineReader& reader) {
  if (reader.line() != 1 || cells.size() < 2 || !std::ranges::all_of(cells, names_column)) return;
  throw Error({.what = "data: the first line is a header",
               .where = reader.where(),
               .got = fmt::format("{}", fmt::join(cells, "<TAB>")),
               .expected = fmt::format("{} in every line", form),
               .hint = "remove the header: tail -n +2 FILE"});
}

}  // namespace

void LineProgress::count() {
  if (++lines_ % kLinesPerReport == 0 && report_) report_(lines_);
}

void for_each_piece(
    const Files& files, Documents documents, const ReadOptions& options,
    const std::function<void(const Piece& piece, const LineReader& reader)>& found) {
  LineProgress progress(options);
  for (const auto& file : files) {
    LineReader reader(file);
    std::string text;
    bool begins = true;
    for (std::string_view line; reader.next(line);) {
      progress.count();
      if (documents == Documents::lines) {
        if (!line.empty()) found({.text = line}, reader);
        continue;
      }
      if (may_cut_between(text, line)) {
        found({.text = text, .begins = begins, .ends = false}, reader);
        begins = false;
        text.clear();
      }
      text.append(line).append(1, '\n');
    }
    if (!text.empty()) found({.text = text, .begins = begins}, reader);
  }
}

void for_each_row(const Files& files, size_t columns, const char* form, const ReadOptions& options,
                  const std::function<void(std::span<const std::string_view> row,
                                           const LineReader& reader)>& found) {
  LineProgress progress(options);
  std::vector<std::string_view> cells;
  for (const auto& file : files) {
    LineReader reader(file);
    for (std::string_view line; reader.next(line);) {
      progress.count();
      cells.clear();
      for (size_t begin = 0, end; begin <= line.size(); begin = end + 1) {
        end = std::min(line.find('\t', begin), line.size());
        cells.push_back(line.substr(begin, end - begin));
      }
      refuse_header(cells, form, reader);
      if (cells.size() != columns) {
        throw Error({.what = "data: a line has other columns",
                     .where = reader.where(),
                     .got = fmt::format("{} ({})", cells.size(), quote(line)),
                     .expected = fmt::format("{}: {}", columns, form),
                     .hint = "columns are separated by tabs; there is no header and no quoting"});
      }
      found(cells, reader);
    }
  }
}

void add_words(const Files& files, Documents documents, BpeTrainer& trainer,
               const ReadOptions& options) {
  for_each_piece(files, documents, options,
                 [&](const Piece& piece, const LineReader&) { trainer.add(piece.text); });
}

void add_words_of_columns(const Files& files, int64_t columns, BpeTrainer& trainer,
                          const ReadOptions& options) {
  LineProgress progress(options);
  for (const auto& file : files) {
    LineReader reader(file);
    for (std::string_view line; reader.next(line);) {
      progress.count();
      for (int64_t column = 0; column < columns; ++column) {
        const size_t end = std::min(line.find('\t'), line.size());
        trainer.add(line.substr(0, end));
        line.remove_prefix(std::min(end + 1, line.size()));
      }
    }
  }
}

}  // namespace headwise
