// Puts data into the page.
#include "page.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "headwise/core/error.h"
#include "io/file.h"
#include "io/json.h"

namespace headwise::program {
namespace {

constexpr size_t kMostBytes = size_t{1} << 30;  // of a study's file

constexpr std::string_view kPage = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>headwise</title>
<link rel="icon" href="data:,">
</head>
<body>
<h1>headwise</h1>
<p>POST a text to <code>/api/look</code>: see docs/serve.md.</p>
<script id="headwise-data" type="application/json">@data@</script>
<script id="headwise-live" type="application/json">@live@</script>
</body>
</html>
)";

/// JSON that a script element can hold: nothing in it ends the element or begins a comment.
std::string within_script(std::string_view json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

void put(std::string& page, std::string_view mark, std::string_view content) {
  page.replace(page.find(mark), mark.size(), content);
}

}  // namespace

std::string study_data(const std::filesystem::path& folder) {
  nlohmann::ordered_json data = {{"schema", 1}};
  for (const char* part : {"summary", "evidence", "verdict", "plan"}) {
    const std::filesystem::path file = folder / fmt::format("{}.json", part);
    if (is_there(file)) data[part] = parse_json(read_file(file, kMostBytes), file.string());
  }
  if (data.size() > 1) return data.dump();
  throw Error({.what = "the folder has no study",
               .where = folder.string(),
               .expected = "evidence.json, verdict.json, plan.json or summary.json",
               .hint = "headwise study MODEL -o FOLDER makes one"});
}

std::string page_html(std::string_view data, bool live) {
  std::string page(kPage);
  put(page, "@live@", live ? "true" : "false");
  put(page, "@data@", within_script(data));
  return page;
}

}  // namespace headwise::program
