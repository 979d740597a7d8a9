// Reads evidence.json, verdict.json and plan.json.
#include "stage_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "headwise/core/error.h"
#include "io/file.h"
#include "io/json.h"

namespace headwise::program {
namespace {

struct Stage {
  const char* name;     // of what it writes
  const char* file;     // what that is called in the folder of a study
  const char* writes;   // the command
  const char* has;      // a field that no other stage's file has
  int64_t most;         // bytes of its file
  const char* read_by;  // the command
};
constexpr std::array kStages = {
    Stage{"evidence", "evidence.json", "observe", "corpus", int64_t{1} << 30, "judge"},
    Stage{"a verdict", "verdict.json", "judge", "clusters", int64_t{1} << 28, "plan"},
    Stage{"a plan", "plan.json", "plan", "drop", int64_t{1} << 26, "prune"},
};

/// The stage, other than the wanted one, that writes files such as this; or null.
const Stage* other_stage(const Stage& wanted, const std::string& text, const std::string& file) {
  try {
    const nlohmann::json json = parse_json(text, file);
    if (!json.is_object() || json.contains(wanted.has)) return nullptr;
    const auto* const stage =
        std::ranges::find_if(kStages, [&](const Stage& each) { return json.contains(each.has); });
    return stage == kStages.end() ? nullptr : stage;
  } catch (const Error&) {
    return nullptr;  // not JSON at all
  }
}

/// What `from_json` makes of the file of a stage. The folder of a study stands for the one in it.
template <class FromJson>
auto read(const Stage& wanted, std::string file, const FromJson& from_json) {
  const std::filesystem::path inside = std::filesystem::path(file) / wanted.file;
  if (is_there(inside)) file = inside.string();
  const std::string text = read_file(file, wanted.most);
  try {
    return from_json(text, file);
  } catch (const Error&) {
    const Stage* const stage = other_stage(wanted, text, file);
    if (stage == nullptr) throw;
    throw Error({.what = fmt::format("{}: this is {}", wanted.read_by, stage->name),
                 .where = file,
                 .got = fmt::format("what headwise {} writes", stage->writes),
                 .expected = fmt::format("{}, what headwise {} writes", wanted.name, wanted.writes),
                 .hint = fmt::format("headwise {} reads it", stage->read_by)});
  }
}

}  // namespace

Evidence read_evidence(const std::string& file) {
  return read(kStages[0], file, evidence_from_json);
}

Verdict read_verdict(const std::string& file) { return read(kStages[1], file, verdict_from_json); }

Plan read_plan(const std::string& file) { return read(kStages[2], file, plan_from_json); }

void check_about(const Verdict& verdict, const std::string& file, const std::string& model,
                 const std::string& sha256) {
  if (verdict.model.sha256 == sha256) return;
  throw Error({.what = "the verdict is about another model",
               .where = file,
               .got = verdict.model.name,
               .expected = fmt::format("{}, with the same weights", model),
               .hint = "headwise observe and judge make one of this model"});
}

}  // namespace headwise::program
