// Any files of a study or a training are shown or refused by name. The page has the scripts that it
// has without them, and the data that were put in; the first byte says which file the others are.
#include "headwise/report/report.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "files.h"
#include "fuzz.h"

namespace headwise {
namespace {

using fuzz::must;

constexpr std::array kParts = {"summary.json", "samples.json", "table.json", "log.jsonl",
                               "evidence.json"};

size_t count(std::string_view text, std::string_view part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++found;
  return found;
}

void check_page(const std::string& data) {
  static const std::string empty = report_page("null");
  const std::string page = report_page(data);
  for (const char* const part : {"<script", "</script", "<!--"}) {
    must(count(page, part) == count(empty, part), "data became a part of the page");
  }
  const size_t begin = page.find('>', page.find("<script id=\"headwise-data\"")) + 1;
  const std::string shown = page.substr(begin, page.find("</script>", begin) - begin);
  must(nlohmann::json::parse(shown) == nlohmann::json::parse(data), "the page has other data");
}

}  // namespace
}  // namespace headwise

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headwise;
  static const fuzz::Folder folder;
  if (size == 0) return 0;
  const auto file = folder.write(kParts[data[0] % kParts.size()], fuzz::text(data + 1, size - 1));
  std::string shown;
  if (fuzz::succeeds([&] { shown = report_data(folder.path()); })) check_page(shown);
  std::filesystem::remove(file);
  return 0;
}
