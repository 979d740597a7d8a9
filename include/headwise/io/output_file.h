// Files that are written whole or not at all.
#pragma once

#include <filesystem>
#include <string_view>

namespace headwise {

/// Writes beside `path`, syncs, then renames: whatever happens, `path` holds the old contents or
/// the new ones, and an Error leaves nothing else behind. What a process that was killed left of
/// `path` is removed. Makes missing folders above it.
void write_file_whole(const std::filesystem::path& path, std::string_view text);

/// Makes a folder and those above it, where they are missing. Throws Error if it cannot be made.
void make_folder(const std::filesystem::path& folder);

}  // namespace headwise
