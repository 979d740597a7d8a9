// The page of headwise report and serve: one HTML file with its data inside.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace headwise::program {

/// The files of a study's folder as one JSON object: "summary", "evidence", "verdict" and "plan",
/// those that are there. Throws Error if there is none of them, or one is no JSON.
std::string study_data(const std::filesystem::path& folder);

/// `data` is JSON, "null" without a study; `live` if the page can ask the server it came from.
std::string page_html(std::string_view data, bool live);

}  // namespace headwise::program
