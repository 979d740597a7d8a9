// headwise report: what a folder holds, as one page.
#include "headwise/report/report.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "command.h"
#include "headwise/io/output_file.h"

namespace headwise::program {
namespace {

void write_report(const std::string& folder, const CommonOptions& common) {
  const std::string data = report_data(folder), page = report_page(data);
  const std::string file =
      common.out.empty() ? (std::filesystem::path(folder) / "report.html").string() : common.out;
  write_file_whole(file, page);
  CommonOptions screen = common;
  screen.out.clear();
  if (!common.json) {
    return write_output(screen,
                        fmt::format("{} ({} KB) opens in any browser, without network\n", file,
                                    grouped(static_cast<int64_t>(page.size() / 1000))));
  }
  nlohmann::ordered_json said = {{"file", file}, {"bytes", page.size()}};
  said["parts"] = nlohmann::ordered_json::array();
  const auto parts = nlohmann::json::parse(data);
  for (const auto& [part, value] : parts.items()) {
    if (part != "schema" && part != "made") said["parts"].push_back(part);
  }
  write_output(screen, said.dump(2) + "\n");
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
  command.add_option("STUDY", *folder, "A folder that headwise study, train or sweep wrote")
      ->type_name("")
      ->required();
}

}  // namespace headwise::program
