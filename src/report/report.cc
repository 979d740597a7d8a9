// Gathers the files of a folder, and puts them into the page.
#include "headwise/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "headwise/core/error.h"
#include "headwise/io/json.h"
#include "headwise/judge/judge.h"
#include "headwise/plan/plan.h"
#include "io/file.h"
#include "report/first_head.h"
#include "report/page.h"
#include "report/training_data.h"
#include "report/without_paths.h"

namespace headwise {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr size_t kMostBytes = size_t{1} << 30;
constexpr size_t kWholeComposition = 256;  // heads: beyond, only what is drawn
constexpr size_t kStrongest = 2000;        // pairs of heads of larger models
constexpr std::string_view kNothing = ">null</script>", kNotLive = ">false</script>";

/// Five digits are enough to look at, and half the size.
void shorten(Json& value) {
  if (value.is_structured()) {
    for (Json& part : value) shorten(part);
  } else if (value.is_number_float()) {
    value = std::strtod(fmt::format("{:.5g}", value.get<double>()).c_str(), nullptr);
  }
}

/// A matrix of a thousand heads has a million numbers.
void keep_strongest(Json& evidence) {
  if (evidence["heads"].size() <= kWholeComposition) return;
  Json& pairs = evidence["pairs"];
  if (!pairs.is_object() || !pairs.contains("composition")) return;
  for (Json& way : pairs["composition"]) {
    std::vector<std::pair<double, std::pair<size_t, size_t>>> found;
    const Json& all = way["all"];
    for (size_t a = 0; a < all.size(); ++a) {
      for (size_t b = 0; b < all[a].size(); ++b) {
        if (all[a][b].is_number()) found.push_back({-all[a][b].get<double>(), {a, b}});
      }
    }
    const size_t count = std::min(found.size(), kStrongest);
    std::partial_sort(found.begin(), found.begin() + static_cast<int64_t>(count), found.end());
    Json strongest = Json::array();
    for (size_t i = 0; i < count; ++i) {
      const auto& [value, heads] = found[i];
      strongest.push_back({heads.first, heads.second, -value});
    }
    way = {{"strongest", std::move(strongest)}};
  }
}

/// Throws Error unless every map is as large as it says.
void check_samples(const std::string& text, const std::string& where) {
  const Json json = parse_json(text, where);
  for (const JsonObject& sample : JsonObject(json, where).objects("samples")) {
    (void)sample.texts("tokens");
    const JsonObject maps = sample.object("maps");
    for (const std::string& head : maps.names()) {
      const JsonObject map = maps.object(head);
      const auto side = [&](const char* name) {
        return static_cast<size_t>(map.integer(name, 0, 1 << 16));
      };
      if (map.text("data").size() != (side("rows") * side("columns") + 2) / 3 * 4) {
        map.refuse("data", "a map has another size", "base64 of rows x columns bytes");
      }
    }
  }
}

/// Throws Error unless what the page shows of a pruning is there.
void check_summary(const std::string& text, const std::string& where) {
  const Json json = parse_json(text, where);
  const std::optional<JsonObject> prune = JsonObject(json, where).optional_object("prune");
  if (!prune) return;
  for (const char* state : {"before", "after"}) {
    const JsonObject model = prune->object(state);
    for (const char* count : {"heads", "parameters", "attention_parameters", "bytes"}) {
      (void)model.integer(count);
    }
    if (const std::optional<JsonObject> loss = model.optional_object("loss")) {
      (void)loss->text("task");
      (void)loss->number("value");
    }
    if (!model.has("speed")) continue;
    for (const JsonObject& speed : model.objects("speed")) {
      (void)speed.integer("texts");
      (void)speed.integer("tokens");
      (void)speed.number("seconds");
    }
  }
  if (const std::optional<JsonObject> proof = prune->optional_object("proof")) {
    (void)proof->number("max_difference");
    (void)proof->integer("texts");
  }
}

/// Throws Error for an evidence beside the verdict of another model.
void check_one_model(const Json& data, const std::string& where) {
  if (!data.contains("evidence") || !data.contains("verdict")) return;
  const Json &seen = data["evidence"]["model"], &judged = data["verdict"]["model"];
  if (seen["sha256"] == judged["sha256"]) return;
  throw Error({.what = "evidence.json and verdict.json are of different models",
               .where = where,
               .got = fmt::format("{} and {}", seen["name"].dump(), judged["name"].dump()),
               .expected = "files of one study"});
}

/// What the page says about roles and standings, so that it says the same as the program.
Json vocabulary() {
  Json roles = Json::array(), standings = Json::array();
  for (const RoleKind& kind : role_kinds()) {
    roles.push_back({{"role", kind.name},
                     {"letter", std::string(1, kind.letter)},
                     {"color", fmt::format("#{:06x}", kind.color)},
                     {"group", kind.group},
                     {"meaning", kind.meaning},
                     {"none", kind.none()}});
  }
  for (const StandingKind& kind : standing_kinds()) {
    standings.push_back({{"standing", to_string(kind.standing)},
                         {"removable", kind.removable},
                         {"meaning", kind.meaning}});
  }
  return {{"roles", roles}, {"standings", standings}};
}

Json new_data() { return {{"schema", 1}, {"made", {{"report_version", program_version()}}}}; }

/// Leaves what the page shows, and adds what it says about it. The page is mailed to others, so
/// paths of files lose their folders.
std::string for_page(Json data) {
  if (data.contains("evidence")) {
    keep_strongest(data["evidence"]);
    for (const char* part : {"model", "corpus", "options"}) {
      if (data["evidence"].contains(part)) remove_paths(data["evidence"][part]);
    }
  }
  if (data.contains("verdict")) {
    remove_paths(data["verdict"]["model"]);
    data["vocabulary"] = vocabulary();
    data["first_head"] = first_head(verdict_from_json(data["verdict"].dump(), "verdict.json"));
  }
  for (const char* part : {"made", "summary", "training"}) {
    if (data.contains(part)) remove_paths(data[part]);
  }
  if (data.contains("samples")) data["samples"] = Json(data["samples"]["samples"]);
  shorten(data);
  return data.dump();
}

/// Puts a value into a <script> of the page.
void put(std::string& page, std::string_view id, std::string_view placeholder,
         std::string_view value) {
  const size_t at = page.find(fmt::format("<script id=\"{}\"", id));
  const size_t from = page.find(placeholder, at);
  page.replace(from + 1, placeholder.size() - 1, fmt::format("{}</script>", value));
}

}  // namespace

std::string report_data(const fs::path& folder) {
  if (!fs::is_directory(folder)) {
    throw Error({.what = "there is no such folder",
                 .where = folder.string(),
                 .expected = "a folder that headwise study, train or sweep wrote"});
  }
  Json data = new_data();
  // A part that the stages can read is what the page takes it for: so `check` reads it.
  const auto add = [&](const char* part, const auto& check) {
    const fs::path file = folder / fmt::format("{}.json", part);
    if (!is_there(file)) return;
    const std::string text = read_file(file, kMostBytes);
    check(text, file.string());
    data[part] = parse_json(text, file.string());
  };
  std::optional<Evidence> evidence;
  add("evidence", [&](const std::string& text, const std::string& where) {
    evidence = evidence_from_json(text, where);
  });
  add("verdict", verdict_from_json);
  add("plan", plan_from_json);
  add("samples", check_samples);
  check_one_model(data, folder.string());
  if (evidence) {
    if (!data.contains("verdict")) data["verdict"] = Json::parse(to_json(judge(*evidence)));
  }
  if (Json training = training_data(folder); !training.empty()) {
    data["training"] = std::move(training);
  } else {
    add("summary", check_summary);
  }
  if (data.size() == 2) {
    throw Error({.what = "the folder has no study, training or sweep",
                 .where = folder.string(),
                 .expected = "evidence.json, verdict.json, plan.json, log.jsonl or table.json",
                 .hint = "headwise study MODEL -o FOLDER writes one"});
  }
  return for_page(std::move(data));
}

std::string report_data(const std::map<std::string, std::string>& texts) {
  Json data = new_data();
  for (const auto& [part, text] : texts) data[part] = Json::parse(text);
  return for_page(std::move(data));
}

std::string report_page(std::string_view data, bool live) {
  // Outside of strings JSON has no '<': so nothing in it can end the element or open a comment.
  std::string safe;
  for (const char c : data) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe.push_back(c);
    }
  }
  std::string page(page_template());
  put(page, "headwise-data", kNothing, safe);
  if (live) put(page, "headwise-live", kNotLive, "true");
  return page;
}

}  // namespace headwise
