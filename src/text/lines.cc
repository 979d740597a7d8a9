// Reads a text file whole.
#include "headwise/text/lines.h"

#include "text/line_reader.h"

namespace headwise {

std::vector<std::string> read_lines(const std::filesystem::path& file) {
  LineReader reader(file);
  std::vector<std::string> lines;
  for (std::string_view line; reader.next(line);) lines.emplace_back(line);
  return lines;
}

}  // namespace headwise
