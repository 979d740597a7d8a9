// Where the golden files are. Only one source knows the path, so that a compiler cache serves the
// tests of any clone.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace headwise {

/// tests/golden
std::filesystem::path golden_folder();

/// The folder of a golden model.
inline std::filesystem::path golden_model(const std::string& name) {
  return golden_folder() / "models" / name;
}

/// Of the folders of models in it, sorted.
std::vector<std::string> golden_model_names();

/// The folder of the project.
inline std::filesystem::path project_folder() {
  return golden_folder().parent_path().parent_path();
}

}  // namespace headwise
