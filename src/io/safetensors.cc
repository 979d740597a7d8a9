// Reads and checks the header of a safetensors file.
#include "io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <tuple>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/core/shape.h"
#include "headwise/io/json.h"

namespace headwise {
namespace {

static_assert(std::endian::native == std::endian::little, "data are used as they are stored");

constexpr const char* kMetadata = "__metadata__";

struct DtypeRow {
  const char* name;
  size_t bytes;
  bool is_float;
};
constexpr std::array<DtypeRow, 13> kDtypes = {{{"BOOL", 1, false},
                                               {"U8", 1, false},
                                               {"I8", 1, false},
                                               {"I16", 2, false},
                                               {"U16", 2, false},
                                               {"F16", 2, true},
                                               {"BF16", 2, true},
                                               {"I32", 4, false},
                                               {"U32", 4, false},
                                               {"F32", 4, true},
                                               {"F64", 8, true},
                                               {"I64", 8, false},
                                               {"U64", 8, false}}};

const DtypeRow& row(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)]; }

/// Where a tensor's data lies, as its header says, counted from the end of the header.
struct Placed {
  TensorInfo info;
  int64_t begin = 0;
  int64_t end = 0;
};

class Parser {
 public:
  explicit Parser(const InputFile& file) : file_(file), where_(file.path().string()) {}

  Safetensors parse() {
    const nlohmann::json header = parse_json(read_header(), where_ + ", header");
    const JsonObject fields(header, where_);
    Safetensors parsed;
    std::vector<Placed> placed;
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadata) {
        parsed.metadata = metadata(fields.object(name));
      } else {
        placed.push_back(tensor(name, JsonObject(value, where_, tensor_named(name))));
      }
    }
    place(placed);
    for (Placed& one : placed) parsed.tensors.push_back(std::move(one.info));
    return parsed;
  }

 private:
  [[noreturn]] void refuse(const char* what, std::string got, std::string expected,
                           std::string hint = "") const {
    throw Error({.what = fmt::format("safetensors: {}", what),
                 .where = where_,
                 .got = std::move(got),
                 .expected = std::move(expected),
                 .hint = std::move(hint)});
  }

  [[noreturn]] void refuse_tensor(const std::string& tensor, const char* what, std::string got,
                                  std::string expected) const {
    throw Error({.what = fmt::format("safetensors: {}", what),
                 .where = fmt::format("{}: {}", where_, tensor_named(tensor)),
                 .got = std::move(got),
                 .expected = std::move(expected)});
  }

  static std::string tensor_named(const std::string& name) {
    return fmt::format("tensor {}", quote(name));
  }

  std::string read(int64_t at, int64_t count) const {
    std::string text(static_cast<size_t>(count), '\0');
    file_.read(at, std::as_writable_bytes(std::span(text)));
    return text;
  }

  /// For a file that is no safetensors: what it is instead, where that is known.
  void refuse_known_formats() const {
    const std::string begin = read(0, std::min<int64_t>(32, file_.size()));
    if (begin.starts_with("PK\3\4") ||
        (begin.starts_with('\x80') && begin.size() > 1 && begin[1] >= 2 && begin[1] <= 5)) {
      refuse("this is a pickle, which could run any code when read",
             begin.starts_with("PK") ? "a zip archive, as torch.save writes" : "a pickle",
             "a safetensors file", "convert it: " + conversion_command(file_.path().parent_path()));
    }
    if (begin.starts_with("version https://git-lfs")) {
      refuse("this is a pointer to a file that was not downloaded", "a Git LFS pointer",
             "a safetensors file", "run: git lfs pull");
    }
  }

  std::string read_header() {
    uint64_t length = 0;
    constexpr int64_t kLength = sizeof(length);
    if (file_.size() < kLength) {
      refuse("the file is too short", fmt::format("{} bytes", file_.size()), "at least 8 bytes",
             file_.size() == 0 ? "the file is empty: was its download interrupted?" : "");
    }
    file_.read(0, std::as_writable_bytes(std::span(&length, 1)));
    const auto rest = static_cast<uint64_t>(file_.size() - kLength);
    if (length > rest || length > static_cast<uint64_t>(kLongestHeader)) {
      refuse_known_formats();
      refuse("the header's length cannot be", fmt::format("{} bytes", length),
             fmt::format("at most {} bytes", std::min<uint64_t>(rest, kLongestHeader)),
             length > rest ? "is this a safetensors file, and whole?" : "");
    }
    data_ = kLength + static_cast<int64_t>(length);
    std::string text = read(kLength, static_cast<int64_t>(length));
    if (!text.starts_with('{')) {
      refuse_known_formats();
      refuse("the header is no JSON object",
             text.empty() ? "nothing" : quote(std::string_view(text).substr(0, 20)),
             "a header that begins with {");
    }
    return text;
  }

  std::map<std::string, std::string> metadata(const JsonObject& fields) const {
    std::map<std::string, std::string> texts;
    for (const std::string& name : fields.names()) texts.emplace(name, fields.text(name));
    return texts;
  }

  Placed tensor(const std::string& name, const JsonObject& fields) const {
    for (const std::string& field : fields.names()) {
      if (field != "dtype" && field != "shape" && field != "data_offsets") {
        fields.refuse(field, "safetensors: an unknown field", "dtype, shape and data_offsets only");
      }
    }
    const auto dtype = dtype_named(fields.text("dtype"));
    if (!dtype) fields.refuse("dtype", "safetensors: an unknown dtype", dtype_names());
    Placed placed{.info = {.name = name, .dtype = *dtype, .shape = fields.integers("shape")}};
    const auto& shape = placed.info.shape;
    if (shape.size() > kMostDimensions) {
      refuse_tensor(name, "too many dimensions", fmt::format("{}", shape.size()),
                    fmt::format("at most {}", kMostDimensions));
    }
    const auto offsets = fields.integers("data_offsets");
    if (offsets.size() != 2) {
      fields.refuse("data_offsets", "safetensors: not a begin and an end", "two offsets");
    }
    placed.begin = offsets[0];
    placed.end = offsets[1];
    if (placed.end < placed.begin) {
      refuse_tensor(name, "the data ends before it begins",
                    fmt::format("[{}, {}]", placed.begin, placed.end), "begin ≤ end");
    }
    const auto bytes = tensor_bytes(shape, *dtype);
    if (!bytes) {
      refuse_tensor(name, "the size overflows", fmt::format("shape {}", to_string(shape)),
                    "a size below 2^63 bytes");
    }
    if (*bytes != placed.end - placed.begin) {
      refuse_tensor(name, "the size does not fit the shape",
                    fmt::format("{} bytes", placed.end - placed.begin),
                    fmt::format("{} bytes for {} {}", *bytes, to_string(*dtype), to_string(shape)));
    }
    return placed;
  }

  /// Sorts by offset; the tensors must fill the data, without overlaps and holes.
  void place(std::vector<Placed>& placed) const {
    std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
      return std::tie(a.begin, a.end, a.info.name) < std::tie(b.begin, b.end, b.info.name);
    });
    const int64_t size = file_.size() - data_;
    int64_t filled = 0;
    const std::string* before = nullptr;
    for (Placed& one : placed) {
      const std::string& name = one.info.name;
      if (one.begin < filled) {
        refuse_tensor(
            name, "the data overlaps that of another tensor",
            fmt::format("begin {} before the end {} of {}", one.begin, filled, quote(*before)),
            fmt::format("begin {}", filled));
      }
      if (one.begin > filled) {
        refuse_tensor(
            name, "there is a hole before the data",
            fmt::format("begin {}, {} bytes after the end of {}", one.begin, one.begin - filled,
                        before != nullptr ? quote(*before) : "the header"),
            fmt::format("begin {}", filled));
      }
      if (one.end > size) {
        refuse_tensor(name, "the file is truncated", fmt::format("{} bytes of data", size),
                      fmt::format("at least {} bytes", one.end));
      }
      one.info.offset = data_ + one.begin;
      filled = one.end;
      before = &name;
    }
    if (filled < size) {
      refuse("there are bytes after the last tensor", fmt::format("{} bytes of data", size),
             fmt::format("{} bytes", filled));
    }
  }

  const InputFile& file_;
  std::string where_;
  int64_t data_ = 0;  // where the data begin
};

}  // namespace

std::string to_string(Dtype dtype) { return row(dtype).name; }
size_t byte_size(Dtype dtype) { return row(dtype).bytes; }
bool is_float(Dtype dtype) { return row(dtype).is_float; }

std::optional<Dtype> dtype_named(std::string_view name) {
  for (size_t i = 0; i < kDtypes.size(); ++i) {
    if (kDtypes[i].name == name) return static_cast<Dtype>(i);
  }
  return {};
}

std::string dtype_names() {
  std::string names;
  for (const DtypeRow& one : kDtypes) names += (names.empty() ? "" : ", ") + std::string(one.name);
  return names;
}

std::optional<int64_t> tensor_bytes(std::span<const int64_t> shape, Dtype dtype) {
  int64_t bytes = static_cast<int64_t>(byte_size(dtype));
  for (const int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return {};
  }
  return bytes;
}

Safetensors parse_safetensors(const InputFile& file) { return Parser(file).parse(); }

std::string conversion_command(const std::filesystem::path& folder) {
  std::string name;  // in single quotes
  for (const char c : folder.empty() ? "." : folder.string()) {
    name += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return fmt::format(
      "python -c \"import sys, transformers as t; f = sys.argv[1]; "
      "getattr(t, t.AutoConfig.from_pretrained(f).architectures[0]).from_pretrained(f)"
      ".save_pretrained(f)\" '{}'",
      name);
}

}  // namespace headwise
