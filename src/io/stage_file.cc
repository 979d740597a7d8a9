// Reads evidence.json, verdict.json and plan.json, and tells one from another.
#include "io/stage_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "headwise/core/error.h"
#include "headwise/io/json.h"
#include "io/file.h"

namespace headwise {
namespace {

struct StageFile {
  const char* name;     // of what it writes
  const char* file;     // what that is called in the folder of a study
  const char* writes;   // the command
  const char* has;      // a field that no other stage's file has
  int64_t most;         // bytes of its file
  const char* read_by;  // the command
};
constexpr std::array kStages = {
    StageFile{"evidence", "evidence.json", "observe", "corpus", int64_t{1} << 30, "judge"},
    StageFile{"a verdict", "verdict.json", "judge", "clusters", int64_t{1} << 28, "plan"},
    StageFile{"a plan", "plan.json", "plan", "drop", int64_t{1} << 26, "prune"},
};

/// The stage, other than the wanted one, that writes files such as this; or null.
const StageFile* other_stage(const StageFile& wanted, const std::string& text,
                             const std::string& file) {
  try {
    const nlohmann::json json = parse_json(text, file);
    if (!json.is_object() || json.contains(wanted.has)) return nullptr;
    const auto* const stage = std::ranges::find_if(
        kStages, [&](const StageFile& each) { return json.contains(each.has); });
    return stage == kStages.end() ? nullptr : stage;
  } catch (const Error&) {
    return nullptr;  // not JSON at all
  }
}

}  // namespace

void read_stage_file(
    Stage stage, const std::filesystem::path& file,
    const std::function<void(std::string_view text, const std::string& where)>& parse) {
  const StageFile& wanted = kStages[static_cast<size_t>(stage)];
  const std::filesystem::path inside = file / wanted.file;
  const std::string where = (is_there(inside) ? inside : file).string();
  const std::string text = read_file(where, static_cast<size_t>(wanted.most));
  try {
    parse(text, where);
  } catch (const Error&) {
    const StageFile* const other = other_stage(wanted, text, where);
    if (other == nullptr) throw;
    throw Error({.what = fmt::format("{}: this is {}", wanted.read_by, other->name),
                 .where = where,
                 .got = fmt::format("what headwise {} writes", other->writes),
                 .expected = fmt::format("{}, what headwise {} writes", wanted.name, wanted.writes),
                 .hint = fmt::format("headwise {} reads it", other->read_by)});
  }
}

}  // namespace headwise
