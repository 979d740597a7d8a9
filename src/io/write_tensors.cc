// Writes a safetensors file byte for byte as the format's own writer does.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/core/shape.h"
#include "headwise/io/json.h"
#include "headwise/io/tensor_file.h"
#include "io/file.h"
#include "io/safetensors.h"

namespace headwise {
namespace {

[[noreturn]] void refuse_tensor(const char* what, const std::string& file, const std::string& name,
                                std::string got, std::string expected) {
  throw Error({.what = fmt::format("write_tensors: {}", what),
               .where = fmt::format("{}: {}", file, quote(name)),
               .got = std::move(got),
               .expected = std::move(expected)});
}

class Writer {
 public:
  Writer(const std::filesystem::path& file, std::span<const TensorToWrite> tensors)
      : file_(file.string()) {
    for (const TensorToWrite& tensor : tensors) sorted_.push_back(&tensor);
    // Largest alignment first, so that every tensor lies aligned.
    std::sort(sorted_.begin(), sorted_.end(), [](const auto* a, const auto* b) {
      return a->dtype != b->dtype ? a->dtype > b->dtype : a->name < b->name;
    });
  }

  const std::vector<const TensorToWrite*>& sorted() const { return sorted_; }

  std::string header(const std::map<std::string, std::string>& metadata) const {
    std::vector<std::string> fields;
    if (!metadata.empty()) {
      std::vector<std::string> texts;
      for (const auto& [key, value] : metadata) {
        texts.push_back(fmt::format("{}:{}", json(key, key), json(key, value)));
      }
      fields.push_back(fmt::format(R"("__metadata__":{{{}}})", fmt::join(texts, ",")));
    }
    int64_t begin = 0;
    for (const TensorToWrite* tensor : sorted_) {
      const int64_t end = checked_add(begin, bytes(*tensor));
      fields.push_back(fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                                   json(tensor->name, tensor->name), to_string(tensor->dtype),
                                   fmt::join(tensor->shape, ","), begin, end));
      begin = end;
    }
    std::string text = fmt::format("{{{}}}", fmt::join(fields, ","));
    text.resize((text.size() + 7) / 8 * 8, ' ');
    if (static_cast<int64_t>(text.size()) > kLongestHeader) {
      refuse_tensor("the header is too long", file_, "", fmt::format("{} bytes", text.size()),
                    fmt::format("at most {} bytes", kLongestHeader));
    }
    return text;
  }

 private:
  std::string json(const std::string& name, const std::string& text) const {
    try {
      return nlohmann::json(text).dump();
    } catch (const nlohmann::json::exception&) {
      refuse_tensor("a name or a metadata text is not valid UTF-8", file_, name, quote(text),
                    "UTF-8");
    }
  }

  int64_t bytes(const TensorToWrite& tensor) const {
    if (tensor.name == "__metadata__") {
      refuse_tensor("the name is reserved", file_, tensor.name, "a tensor", "metadata");
    }
    if (tensor.shape.size() > kMostDimensions ||
        std::any_of(tensor.shape.begin(), tensor.shape.end(), [](int64_t n) { return n < 0; })) {
      refuse_tensor("the shape cannot be", file_, tensor.name, to_string(tensor.shape),
                    fmt::format("at most {} extents, none negative", kMostDimensions));
    }
    const auto expected = tensor_bytes(tensor.shape, tensor.dtype);
    const bool loaded = tensor.load == nullptr;
    if (!expected || (loaded && *expected != static_cast<int64_t>(tensor.bytes.size()))) {
      refuse_tensor("the size does not fit the shape", file_, tensor.name,
                    fmt::format("{} bytes", tensor.bytes.size()),
                    fmt::format("{} {}", to_string(tensor.dtype), to_string(tensor.shape)));
    }
    return *expected;
  }

  std::string file_;
  std::vector<const TensorToWrite*> sorted_;
};

void check_names(const std::filesystem::path& file, std::span<const TensorToWrite> tensors) {
  std::vector<std::string_view> names;
  for (const TensorToWrite& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto duplicate = std::adjacent_find(names.begin(), names.end());
  if (duplicate == names.end()) return;
  refuse_tensor("a name is there twice", file.string(), std::string(*duplicate), "two tensors",
                "one");
}

}  // namespace

void write_tensors(const std::filesystem::path& file, std::span<const TensorToWrite> tensors,
                   const std::map<std::string, std::string>& metadata) {
  check_names(file, tensors);
  const Writer writer(file, tensors);
  const std::string header = writer.header(metadata);
  const uint64_t length = header.size();
  write_file_whole(file, [&](const FileSink& write) {
    write(std::as_bytes(std::span(&length, 1)));
    write(std::as_bytes(std::span(header)));
    for (const TensorToWrite* tensor : writer.sorted()) {
      write(tensor->load == nullptr ? tensor->bytes : tensor->load().span());
    }
  });
}

}  // namespace headwise
