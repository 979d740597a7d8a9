// Looks for a model: first as a folder, then in the layout of the Hugging Face cache.
#include "headwise/io/model_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "headwise/core/error.h"
#include "io/file.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_folder(const char* what, const fs::path& where, std::string got,
                                std::string expected, std::string hint = "") {
  throw Error({.what = fmt::format("model: {}", what),
               .where = where.string(),
               .got = std::move(got),
               .expected = std::move(expected),
               .hint = std::move(hint)});
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool has_config(const fs::path& folder) { return is_there(folder / "config.json"); }

bool is_name(std::string_view text) {
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.';
  };
  return !text.empty() && text.front() != '.' && text.find("--") == text.npos &&
         std::all_of(text.begin(), text.end(), fits);
}

/// "org/name", or "name" for the models from before there were organisations.
bool is_id(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == text.npos) return is_name(text);
  return is_name(text.substr(0, slash)) && is_name(text.substr(slash + 1));
}

fs::path cache() {
  const auto variable = [](const char* name) -> fs::path {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
  };
  if (const fs::path hub = variable("HF_HUB_CACHE"); !hub.empty()) return hub;
  if (const fs::path home = variable("HF_HOME"); !home.empty()) return home / "hub";
  const fs::path xdg = variable("XDG_CACHE_HOME");
  return (xdg.empty() ? variable("HOME") / ".cache" : xdg) / "huggingface" / "hub";
}

/// The snapshot that the main branch of the cached repository points to.
fs::path snapshot_of(const fs::path& repository, const std::string& fetch) {
  const fs::path ref = repository / "refs" / "main";
  constexpr size_t kLongestRef = 1000;
  std::string revision = read_file(ref, kLongestRef);
  while (!revision.empty() && std::isspace(static_cast<unsigned char>(revision.back()))) {
    revision.pop_back();
  }
  if (!is_name(revision))
    refuse_folder("no revision", ref, "other text", "the hash of a commit", fetch);
  return repository / "snapshots" / revision;
}

}  // namespace

fs::path find_model(const std::string& folder_or_id) {
  const fs::path folder = folder_or_id;
  if (is_folder(folder)) {
    if (has_config(folder)) return folder;
    refuse_folder("no config.json", folder, "a folder without it", "a folder with config.json");
  }
  std::error_code ignored;
  if (fs::exists(folder, ignored)) {
    refuse_folder("not a folder", folder, "a file", "a folder with config.json", "name its folder");
  }
  if (!is_id(folder_or_id)) {
    refuse_folder("no such folder", folder, "nothing there", "a folder, or an id such as org/name");
  }
  const fs::path hub = cache();
  std::string name = "models--" + folder_or_id;
  if (const size_t slash = name.find('/'); slash != name.npos) name.replace(slash, 1, "--");
  const std::string fetch = fmt::format("to fetch it: hf download {}", folder_or_id);
  const fs::path repository = hub / name;
  if (!is_folder(repository)) {
    refuse_folder("neither a folder nor in the cache", folder,
                  fmt::format("no {} in {}", name, hub.string()),
                  "a folder with config.json, or the id of a model that was downloaded", fetch);
  }
  const fs::path snapshot = snapshot_of(repository, fetch);
  if (!has_config(snapshot)) {
    refuse_folder("the cached model is not whole", snapshot, "no config.json", "config.json",
                  fetch);
  }
  return snapshot;
}

std::string id_of_folder(const fs::path& folder) {
  std::error_code ignored;
  fs::path path = fs::absolute(folder, ignored).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const fs::path snapshots = path.parent_path();
  const std::string repository = snapshots.parent_path().filename().string();
  constexpr std::string_view kModels = "models--";
  if (snapshots.filename() != "snapshots" || !repository.starts_with(kModels)) return "";
  std::string id = repository.substr(kModels.size());
  if (const size_t between = id.find("--"); between != id.npos) id.replace(between, 2, 1, '/');
  return is_id(id) ? id : "";
}

}  // namespace headwise
