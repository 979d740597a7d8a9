// Makes a folder beside its place, and renames it when it is done.
#include "io/folder_aside.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <system_error>
#include <utility>

#include "headwise/core/error.h"
#include "io/file.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* what, const fs::path& where, const std::error_code& error) {
  throw Error({.what = what, .where = where.string(), .got = error.message()});
}

/// Throws Error unless nothing is there, or an empty folder.
void require_free(const fs::path& out) {
  std::error_code error;
  if (!fs::exists(out, error) || (fs::is_directory(out, error) && fs::is_empty(out, error))) return;
  throw Error({.what = "the output folder is there already",
               .where = out.string(),
               .got = fs::is_directory(out, error) ? "a folder with files" : "a file",
               .expected = "a name that is free, or an empty folder"});
}

}  // namespace

void check_outside(const fs::path& folder, const fs::path& out) {
  const fs::path relative = fs::weakly_canonical(out).lexically_relative(fs::canonical(folder));
  if (relative.empty() || *relative.begin() == "..") return;
  throw Error({.what = "a model cannot be written into the folder that it is from",
               .where = out.string(),
               .expected = "a folder elsewhere"});
}

FolderAside::FolderAside(fs::path out) : out_(fs::absolute(out).lexically_normal()) {
  if (!out_.has_filename()) out_ = out_.parent_path();
  require_free(out_);
  std::error_code error;
  if (fs::exists(out_, error)) out_ = fs::canonical(out_);  // a link is followed
  make_folder(out_.parent_path());
  room_ = out_.string() + ".headwise-part";
  path_ = room_ / "model";
  take_room();
  try {
    for (const auto& left : fs::directory_iterator(room_)) fs::remove_all(left.path());
    require_free(out_);
    if (fs::exists(out_)) {
      // What cannot be replaced, such as a mount point, is found now.
      fs::remove(out_, error);
      if (!error) fs::create_directory(out_, error);
      if (error) fail("the output folder cannot be replaced", out_, error);
    }
    fs::create_directory(path_);
  } catch (...) {
    remove_room();
    throw;
  }
}

FolderAside::~FolderAside() { remove_room(); }

void FolderAside::take_room() {
  std::error_code error;
  while (!lock_ || !lock_->is_of(room_)) {  // a process that ends may remove it meanwhile
    fs::create_directory(room_, error);
    if (!error && fs::is_symlink(room_)) error = std::make_error_code(std::errc::file_exists);
    if (error) fail("the output folder cannot be made", room_, error);
    lock_.emplace(room_);
  }
}

void FolderAside::remove_room() {
  std::error_code ignored;
  if (lock_) fs::remove_all(room_, ignored);
  lock_.reset();
}

void FolderAside::become_out() {
  sync_folder(path_);
  std::error_code error;
  fs::rename(path_, out_, error);
  if (error) fail("the output folder cannot be made", out_, error);
  sync_names(out_.parent_path());
  remove_room();
}

std::shared_ptr<FolderAside> temporary_folder() {
  static std::atomic<int> number = 0;
  return std::make_shared<FolderAside>(fs::temp_directory_path() /
                                       fmt::format("headwise-{}-{}", ::getpid(), number++));
}

void copy_files(const fs::path& from, const fs::path& to) {
  std::error_code error;
  for (fs::recursive_directory_iterator at(from, error), end; !error && at != end;
       at.increment(error)) {
    if (!at->is_regular_file()) continue;
    copy_file_whole(at->path(), to / at->path().lexically_relative(from));
  }
  if (error) fail("the folder cannot be read", from, error);
}

}  // namespace headwise
