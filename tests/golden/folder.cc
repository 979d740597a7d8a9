#include "golden/folder.h"

#include <algorithm>

namespace headwise {

std::filesystem::path golden_folder() { return HEADWISE_GOLDEN; }

std::vector<std::string> golden_model_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder() / "models")) {
    if (exists(entry.path() / "config.json")) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace headwise
