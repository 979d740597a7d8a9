// Any index of shards gives the tensors of the shards that it names, where another parser finds
// them, or is refused by name.
#include <nlohmann/json.hpp>
#include <string>

#include "files.h"
#include "fuzz.h"
#include "headwise/io/tensor_file.h"
#include "json_mutator.h"

namespace headwise {
namespace {

void write_shard(const fuzz::Folder& folder, const char* name,
                 std::initializer_list<const char*> tensors) {
  static constexpr float kValues[] = {1, 2};
  std::vector<TensorToWrite> all;
  for (const char* tensor : tensors) {
    all.push_back({.name = tensor, .shape = {2}, .bytes = std::as_bytes(std::span(kValues))});
  }
  write_tensors(folder.path() / name, all, {});
}

const fuzz::Folder& folder_of_shards() {
  static const fuzz::Folder folder;
  static const bool written = [] {
    write_shard(folder, "1.safetensors", {"a", "b"});
    write_shard(folder, "2.safetensors", {"c"});
    return true;
  }();
  fuzz::must(written, "no shards");
  return folder;
}

}  // namespace
}  // namespace headwise

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headwise;
  using fuzz::must;
  const auto text = fuzz::text(data, size);
  const fuzz::Folder& folder = folder_of_shards();
  folder.write("model.safetensors.index.json", text);
  fuzz::succeeds([&] {
    const TensorFiles files = TensorFiles::open(folder.path());
    const nlohmann::json index = nlohmann::json::parse(text).at("weight_map");
    must(index.size() == files.tensors().size(), "other tensors than another parser finds");
    for (const auto& [name, shard] : index.items()) {
      const TensorInfo* const tensor = files.find(name);
      must(tensor != nullptr, "a tensor is missing");
      must(files.files()[tensor->file].filename() == shard.get<std::string>(),
           "a tensor of another shard");
    }
    for (const auto& file : files.files())
      must(file.parent_path() == folder.path(), "a file outside the folder");
  });
  return 0;
}
