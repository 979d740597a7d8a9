// Tensors on disk: safetensors, one file or shards with their index. Headers are read at once,
// values when they are asked for.
//
// Headers are validated before use: sizes against shapes, offsets against the file, names against
// the index. A mismatch throws Error with the file and the tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/core/buffer.h"

namespace headwise {

/// The order of the format's own writer: by alignment.
enum class Dtype { kBool, kU8, kI8, kI16, kU16, kF16, kBF16, kI32, kU32, kF32, kF64, kI64, kU64 };

std::string to_string(Dtype dtype);  // "BF16", as the file says
size_t byte_size(Dtype dtype);       // of one element
bool is_float(Dtype dtype);

struct TensorInfo {
  std::string name{};
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> shape{};  // empty for a scalar; an extent may be 0
  int32_t file = 0;              // which of TensorFiles::files() has it
  int64_t offset = 0;            // where its bytes begin in the file

  int64_t size() const;        // elements
  int64_t byte_count() const;  // in the file
};

/// Values as a file stores them.
using TensorBytes = AlignedBuffer<std::byte>;

struct TensorToWrite {
  std::string name{};
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> shape{};
  std::span<const std::byte> bytes{};
  std::function<TensorBytes()> load{};  // instead of bytes: called when they are written
};

/// All tensors of a checkpoint. A copy is cheap, and shares the open files with the original;
/// pointers to tensors live as long as one of them. Reading throws Error if a file was cut off
/// meanwhile.
class TensorFiles {
 public:
  /// A folder with model.safetensors or model.safetensors.index.json, or one of these files or any
  /// other .safetensors file. A folder that has only pickles is refused.
  static TensorFiles open(const std::filesystem::path& folder_or_file);

  std::span<const TensorInfo> tensors() const;                 // sorted by name
  const TensorInfo* find(std::string_view name) const;         // or nullptr
  const std::map<std::string, std::string>& metadata() const;  // where shards differ, the first's
  std::span<const std::filesystem::path> files() const;

  /// "model.safetensors: tensor "wte.weight"", for messages.
  std::string where(const TensorInfo& tensor) const;

  /// Its values as they are stored; or those bytes of it from `first` on that fill `out`.
  TensorBytes bytes(const TensorInfo& tensor) const;
  void read_bytes(const TensorInfo& tensor, int64_t first, std::span<std::byte> out) const;

  /// Its values as float32. Throws Error unless the tensor is of a float type and `out` has its
  /// size.
  void read(const TensorInfo& tensor, std::span<float> out) const;

  /// Throws Error that names the tensor, the index and the value, if a value is NaN, infinite or
  /// (float64) infinite as float32. `bytes` are those of the tensor.
  void check_finite(const TensorInfo& tensor, std::span<const std::byte> bytes) const;

  /// For write_tensors: the tensor as it is, read when it is written. `tensor` need not live on.
  TensorToWrite copy_of(const TensorInfo& tensor) const;

  /// Throws Error if a file was written to since it was opened.
  void check_unchanged() const;

 private:
  struct Contents;
  explicit TensorFiles(std::shared_ptr<const Contents> contents);
  std::shared_ptr<const Contents> contents_;
};

/// One safetensors file, byte for byte as the format's own writer makes it, written to a temporary
/// file and renamed: it appears completely or not at all.
void write_tensors(const std::filesystem::path& file, std::span<const TensorToWrite> tensors,
                   const std::map<std::string, std::string>& metadata);

}  // namespace headwise
