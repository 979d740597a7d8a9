// Opens a checkpoint: finds its files, and joins the shards that an index names.
#include "headwise/io/tensor_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/core/shape.h"
#include "headwise/io/json.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "io/to_float.h"

namespace headwise {

namespace fs = std::filesystem;

struct TensorFiles::Contents {
  std::vector<InputFile> opened;
  std::vector<fs::path> paths;
  std::vector<TensorInfo> tensors;
  std::map<std::string, std::string> metadata;

  void add(const fs::path& path) {
    InputFile file(path);
    Safetensors parsed = parse_safetensors(file);
    for (TensorInfo& tensor : parsed.tensors) {
      tensor.file = static_cast<int32_t>(paths.size());
      tensors.push_back(std::move(tensor));
    }
    metadata.merge(parsed.metadata);
    opened.push_back(std::move(file));
    paths.push_back(path);
  }

  void sort() {
    const auto by_name = [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; };
    std::stable_sort(tensors.begin(), tensors.end(), by_name);
    const auto duplicate = std::adjacent_find(
        tensors.begin(), tensors.end(),
        [](const TensorInfo& a, const TensorInfo& b) { return a.name == b.name; });
    if (duplicate == tensors.end()) return;
    throw Error({.what = "safetensors: a tensor is in two shards",
                 .where = fmt::format("tensor {}", quote(duplicate->name)),
                 .got = fmt::format("in {} and {}", paths[duplicate[0].file].string(),
                                    paths[duplicate[1].file].string()),
                 .expected = "every tensor in one shard"});
  }
};

namespace {

constexpr const char* kWhole = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

bool is_pickle(const fs::path& file) {
  const auto extension = file.extension();
  return extension == ".bin" || extension == ".pt" || extension == ".pth" || extension == ".ckpt";
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

/// The file in a folder to begin with.
fs::path checkpoint_of(const fs::path& folder) {
  std::error_code error;
  for (const char* name : {kWhole, kIndex}) {
    if (is_there(folder / name)) return folder / name;
  }
  std::vector<std::string> pickles, others;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const fs::path name = entry.path().filename();
    if (is_pickle(name)) pickles.push_back(name.string());
    if (name.extension() == ".safetensors") others.push_back(name.string());
  }
  std::sort(pickles.begin(), pickles.end());
  std::sort(others.begin(), others.end());
  const std::string expected = fmt::format("{} or {}", kWhole, kIndex);
  if (!others.empty()) {
    throw Error({.what = "checkpoint: no model.safetensors",
                 .where = folder.string(),
                 .got = others.size() == 1
                            ? others.front()
                            : fmt::format("{} and {} more", others.front(), others.size() - 1),
                 .expected = expected,
                 .hint = "name the file itself, or add the index of the shards"});
  }
  if (!pickles.empty()) {
    throw Error({.what = "checkpoint: only a pickle, which could run any code when read",
                 .where = folder.string(),
                 .got = pickles.front(),
                 .expected = expected,
                 .hint = "convert it: " + conversion_command(folder)});
  }
  throw Error({.what = "checkpoint: no weights",
               .where = folder.string(),
               .got = error ? error.message() : "a folder without tensors",
               .expected = expected});
}

/// Which shard the index says each tensor is in.
std::map<std::string, std::string> read_index(const fs::path& path) {
  const nlohmann::json json = read_json(path);
  const JsonObject map = JsonObject(json, path.string()).object("weight_map");
  std::map<std::string, std::string> shard_of;
  for (const std::string& tensor : map.names()) {
    const std::string& shard = map.text(tensor);
    if (!is_plain_name(shard)) {
      map.refuse(tensor, "shard index: a shard outside the folder", "the name of a file beside it");
    }
    shard_of.emplace(tensor, shard);
  }
  return shard_of;
}

}  // namespace

TensorFiles TensorFiles::open(const fs::path& folder_or_file) {
  std::error_code ignored;
  const fs::path first =
      fs::is_directory(folder_or_file, ignored) ? checkpoint_of(folder_or_file) : folder_or_file;
  auto contents = std::make_shared<Contents>();
  if (first.extension() != ".json") {
    contents->add(first);
    contents->sort();
    return TensorFiles(std::move(contents));
  }
  const auto shard_of = read_index(first);
  std::map<std::string, int32_t> shards;
  for (const auto& [tensor, shard] : shard_of) shards.emplace(shard, 0);
  for (auto& [shard, number] : shards) {
    number = static_cast<int32_t>(contents->paths.size());
    const fs::path path = first.parent_path() / shard;
    if (!is_there(path)) {
      throw Error({.what = "shard index: a shard is missing",
                   .where = first.string(),
                   .got = fmt::format("no file {}", quote(shard)),
                   .expected = "every shard beside the index"});
    }
    contents->add(path);
  }
  contents->sort();
  const TensorFiles files(std::move(contents));
  for (const auto& [tensor, shard] : shard_of) {
    const TensorInfo* found = files.find(tensor);
    if (found != nullptr && found->file == shards.at(shard)) continue;
    throw Error({.what = "shard index: a tensor is not in its shard",
                 .where = fmt::format("{}: tensor {}", first.string(), quote(tensor)),
                 .got = found == nullptr ? "in no shard" : files.files()[found->file].string(),
                 .expected = quote(shard)});
  }
  return files;
}

TensorFiles::TensorFiles(std::shared_ptr<const Contents> contents)
    : contents_(std::move(contents)) {}

int64_t TensorInfo::size() const { return element_count(shape); }
int64_t TensorInfo::byte_count() const {
  return size() * static_cast<int64_t>(headwise::byte_size(dtype));
}

std::span<const TensorInfo> TensorFiles::tensors() const { return contents_->tensors; }

const TensorInfo* TensorFiles::find(std::string_view name) const {
  const auto& all = contents_->tensors;
  const auto found =
      std::lower_bound(all.begin(), all.end(), name,
                       [](const TensorInfo& info, std::string_view n) { return info.name < n; });
  return found != all.end() && found->name == name ? &*found : nullptr;
}

const std::map<std::string, std::string>& TensorFiles::metadata() const {
  return contents_->metadata;
}

std::span<const fs::path> TensorFiles::files() const { return contents_->paths; }

std::string TensorFiles::where(const TensorInfo& tensor) const {
  return fmt::format("{}: tensor {}", contents_->paths.at(tensor.file).string(),
                     quote(tensor.name));
}

TensorBytes TensorFiles::bytes(const TensorInfo& tensor) const {
  TensorBytes bytes(tensor.byte_count());
  read_bytes(tensor, 0, bytes.span());
  return bytes;
}

void TensorFiles::read_bytes(const TensorInfo& tensor, int64_t first,
                             std::span<std::byte> out) const {
  contents_->opened.at(tensor.file).read(tensor.offset + first, out);
}

void TensorFiles::read(const TensorInfo& tensor, std::span<float> out) const {
  if (!is_float(tensor.dtype)) {
    throw Error({.what = "read: not a tensor of floats",
                 .where = where(tensor),
                 .got = to_string(tensor.dtype),
                 .expected = "F64, F32, F16 or BF16"});
  }
  if (static_cast<int64_t>(out.size()) != tensor.size()) {
    throw Error({.what = "read: the output is of another size",
                 .where = where(tensor),
                 .got = fmt::format("{} values", out.size()),
                 .expected = fmt::format("{} values", tensor.size())});
  }
  if (tensor.dtype == Dtype::kF32) return read_bytes(tensor, 0, std::as_writable_bytes(out));
  to_float(tensor.dtype, bytes(tensor).span(), out);
}

void TensorFiles::check_finite(const TensorInfo& tensor, std::span<const std::byte> bytes) const {
  const int64_t index = first_not_finite(tensor.dtype, bytes);
  if (index < 0) return;
  float value = 0;
  const size_t size = byte_size(tensor.dtype);
  to_float(tensor.dtype, bytes.subspan(index * size, size), {&value, 1});
  throw Error({.what = "weights: a value is not finite",
               .where = fmt::format("{}, index {}", where(tensor), index),
               .got = fmt::format("{}", value),
               .expected = "finite values",
               .hint = "if they are meant: --allow-nonfinite, or allow_nonfinite in LoadOptions"});
}

TensorToWrite TensorFiles::copy_of(const TensorInfo& tensor) const {
  return {.name = tensor.name,
          .dtype = tensor.dtype,
          .shape = tensor.shape,
          .load = [files = *this, tensor] { return files.bytes(tensor); }};
}

void TensorFiles::check_unchanged() const {
  for (const InputFile& file : contents_->opened) file.check_unchanged();
}

}  // namespace headwise
