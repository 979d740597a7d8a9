// Pronouns and names in the form of the GAP data set (Webster et al. 2018): tab-separated lines
// whose offsets count code points.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/io/json.h"
#include "headwise/text/treebank.h"
#include "text/line_reader.h"
#include "text/unicode.h"

namespace headwise {
namespace {

constexpr std::array<std::string_view, 11> kColumnNames = {
    "ID",      "Text", "Pronoun",  "Pronoun-offset", "A",  "A-offset",
    "A-coref", "B",    "B-offset", "B-coref",        "URL"};
enum Column { kItemId, kText, kPronoun, kPronounAt, kA, kAAt, kAIs, kB, kBAt, kBIs, kUrl };

[[noreturn]] void refuse_line(const LineReader& lines, const char* what, std::string got,
                              std::string expected, const char* hint = "") {
  throw Error({.what = fmt::format("gap: {}", what),
               .where = lines.where(),
               .got = std::move(got),
               .expected = std::move(expected),
               .hint = hint});
}

std::vector<std::string_view> split_cells(std::string_view line) {
  std::vector<std::string_view> cells;
  for (size_t begin = 0, end; begin <= line.size(); begin = end + 1) {
    end = std::min(line.find('\t', begin), line.size());
    cells.push_back(line.substr(begin, end - begin));
  }
  return cells;
}

/// Where the columns are, by the names in the first line; all but the URL must be there.
class Row {
 public:
  explicit Row(const LineReader& lines, std::string_view header) : lines_(lines) {
    const std::vector<std::string_view> names = split_cells(header);
    columns_ = names.size();
    for (size_t c = 0; c < kUrl; ++c) {
      at_[c] = static_cast<size_t>(std::ranges::find(names, kColumnNames[c]) - names.begin());
      if (at_[c] < columns_) continue;
      refuse_line(lines_, "a column is missing", quote(header),
                  quote(kColumnNames[c]) + " among them",
                  "the first line names the columns, separated by tabs");
    }
  }

  void set(std::string_view line) {
    cells_ = split_cells(line);
    if (cells_.size() == columns_) return;
    refuse_line(lines_, "a line has other columns",
                fmt::format("{} ({})", cells_.size(), quote(line)),
                fmt::format("{}, as in the first line", columns_),
                "columns are separated by tabs; there is no quoting");
  }

  std::string_view operator[](Column column) const { return cells_[at_[column]]; }

  /// Where the text has what one column says, at the offset that another says.
  TokenSpan span(Column form, Column offset) const {
    const std::string_view text = (*this)[kText], part = (*this)[form], count = (*this)[offset];
    uint64_t left = 0;
    const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), left);
    size_t at = 0;
    if (error == std::errc() && end == count.data() + count.size()) {
      for (; left > 0 && at < text.size(); --left) at += text::char_size(text[at]);
      if (left == 0 && !part.empty() && text.substr(at).starts_with(part)) {
        return {static_cast<int64_t>(at), static_cast<int64_t>(at + part.size())};
      }
    }
    refuse_line(lines_, "a name is not where its offset says",
                fmt::format("{} at {}", quote(part), quote(count)),
                left == 0 ? fmt::format("what stands there: {}", quote(text.substr(at)))
                          : "an offset within the text",
                "offsets count characters (code points) from 0");
  }

  bool flag(Column column) const {
    std::string lower((*this)[column]);
    for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    if (lower != "true" && lower != "false") {
      refuse_line(lines_, "neither true nor false", quote((*this)[column]), "TRUE or FALSE");
    }
    return lower == "true";
  }

 private:
  const LineReader& lines_;
  size_t columns_ = 0;
  std::array<size_t, kUrl> at_{};
  std::vector<std::string_view> cells_;
};

int64_t code_points(std::string_view text) {
  return std::ranges::count_if(text, [](char byte) { return !text::is_continuation(byte); });
}

}  // namespace

std::vector<CoreferenceItem> read_gap(const std::filesystem::path& file) {
  LineReader lines(file);
  std::string_view line;
  if (!lines.next(line)) {
    refuse_line(lines, "the file is empty", "no line", "a line that names the columns");
  }
  Row row(lines, line);
  std::vector<CoreferenceItem> items;
  while (lines.next(line)) {
    row.set(line);
    const TokenSpan pronoun = row.span(kPronoun, kPronounAt);
    TokenSpan a = row.span(kA, kAAt), b = row.span(kB, kBAt);
    const bool is_a = row.flag(kAIs), is_b = row.flag(kBIs);
    if (is_a == is_b) continue;
    if (is_b) std::swap(a, b);
    items.push_back({.id = std::string(row[kItemId]),
                     .text = std::string(row[kText]),
                     .pronoun = pronoun,
                     .right = a,
                     .wrong = b});
  }
  if (items.empty()) {
    throw Error({.what = "gap: no pronoun with one right name",
                 .where = file.string(),
                 .expected = "at least one item in which exactly one of A and B is TRUE"});
  }
  return items;
}

std::string to_gap(const std::vector<CoreferenceItem>& items) {
  std::string out = fmt::format("{}\n", fmt::join(kColumnNames, "\t"));
  for (const CoreferenceItem& item : items) {
    if ((item.id + item.text).find_first_of("\t\r\n") != std::string::npos) {
      throw Error({.what = "gap: this cannot be written",
                   .where = item.id,
                   .got = quote(item.text),
                   .expected = "text without tabs and line ends"});
    }
    const std::string_view text = item.text;
    const auto name = [&](TokenSpan bytes) {
      return fmt::format("{}\t{}", text.substr(bytes.begin, bytes.end - bytes.begin),
                         code_points(text.substr(0, bytes.begin)));
    };
    const bool right_first = item.right.begin <= item.wrong.begin;
    out += fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}\t\n", item.id, text, name(item.pronoun),
                       name(right_first ? item.right : item.wrong), right_first ? "TRUE" : "FALSE",
                       name(right_first ? item.wrong : item.right), right_first ? "FALSE" : "TRUE");
  }
  return out;
}

}  // namespace headwise
