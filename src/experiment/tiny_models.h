// Models and texts of --quick, made on the spot.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace headwise {

/// The file of the settings that stands for the built-in text, a sentence per line.
inline constexpr std::string_view kBuiltInText = "built-in text";

/// "tiny-lm", a causal language model of 2 layers with 4 heads each, and "tiny-encoder", a masked
/// one.
bool is_tiny_model(const std::string& name);

/// Trains one on the built-in text for a second or so; `folder` is new. `check` may throw to stop.
void train_tiny_model(const std::string& name, const std::filesystem::path& folder,
                      const std::function<void()>& check);

}  // namespace headwise
