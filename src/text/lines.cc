// Reads a text file whole.
#include "headwise/text/lines.h"

#include <algorithm>

#include "headwise/core/error.h"
#include "text/line_reader.h"

namespace headwise {

std::vector<std::string> lines_of(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.emplace_back(text.substr(begin, end - begin));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
    begin = end + 1;
  }
  return lines;
}

std::vector<std::string> read_lines(const std::filesystem::path& file, InvalidUtf8 invalid) {
  LineReader reader(file, invalid);
  std::vector<std::string> lines;
  for (std::string_view line; reader.next(line);) lines.emplace_back(line);
  return lines;
}

void LabelColumns::see(std::string_view line) {
  ++lines_;
  const size_t tab = line.rfind('\t');
  if (tab == std::string_view::npos || tab == 0) return;
  const std::string_view last = line.substr(tab + 1);
  if (last.empty() || last.find(' ') != std::string_view::npos) return;
  const auto tabs = std::ranges::count(line, '\t');
  ++(tabs == 1 ? labelled_ : scored_);
}

void LabelColumns::check(const std::filesystem::path& file) const {
  if (lines_ == 0 || (labelled_ != lines_ && scored_ != lines_)) return;
  const bool scored = scored_ == lines_;
  throw Error(
      {.what = "texts alone are wanted, and the lines have other columns",
       .where = file.string(),
       .got = scored ? "text<TAB>text<TAB>score" : "text<TAB>label",
       .expected = "a text per line",
       .hint = scored ? "for scores: --data FILE --loss similarity; for the texts alone: cut -f1"
                      : "for labels: --data FILE --loss classify; for the texts alone: cut -f1"});
}

}  // namespace headwise
