// headwise report: what a folder holds, as one page.
#include "headwise/report/report.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "command.h"
#include "headwise/io/json_text.h"
#include "headwise/io/output_file.h"
#include "options.h"

namespace headwise::program {
namespace {

void write_report(const std::string& folder, const CommonOptions& common) {
  const std::string data = report_data(folder), page = report_page(data);
  const std::string file =
      common.out.empty() ? (std::filesystem::path(folder) / "report.html").string() : common.out;
  write_file_whole(file, page);
  if (!common.json) {
    return print_result(fmt::format("{} ({} KB) opens in any browser, without network\n", file,
                                    grouped(static_cast<int64_t>(page.size() / 1000))));
  }
  Json said = {{"file", file}, {"bytes", page.size()}, {"parts", Json::array()}};
  const nlohmann::json parts = nlohmann::json::parse(data);
  for (const auto& [part, value] : parts.items()) {
    if (part != "schema" && part != "made") said["parts"].push_back(part);
  }
  print_result(json_text(said, 2));
}

}  // namespace

void add_report(CLI::App& app, CommonOptions& common) {
  const auto folder = std::make_shared<std::string>();
  CLI::App& command = add_command(
      app, "report", "What a study, a training or a sweep found, as one page",
      "The page is one file that needs no network. Without -o it is report.html in the folder.\n\n"
      "Example:\n"
      "  headwise report study -o report.html",
      common, [folder, &common] { write_report(*folder, common); });
  Options(command)
      .argument("STUDY", *folder, "A folder that headwise study, train or sweep wrote")
      ->required();
}

}  // namespace headwise::program
