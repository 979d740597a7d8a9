// Where a model is: a folder, or an id in the local Hugging Face cache.
#pragma once

#include <filesystem>
#include <string>

namespace headwise {

/// The folder with the config.json of a model that is named by its folder, or by an id (org/name)
/// whose main revision is in the cache. The cache is HF_HUB_CACHE, else HF_HOME/hub, else
/// XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub. Nothing is downloaded: for a
/// missing model it throws Error with the command that downloads it.
std::filesystem::path find_model(const std::string& folder_or_id);

/// The id of a model whose folder is a snapshot in a Hugging Face cache; else empty.
std::string id_of_folder(const std::filesystem::path& folder);

}  // namespace headwise
