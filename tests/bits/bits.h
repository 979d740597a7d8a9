// Hashes of what headwise computes, recorded so that a refactoring shows that it kept every bit.
//
// A case computes something and gives the hash of its numbers. Texts, such as the files of a folder
// that people read, are no part of it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "headwise/core/view.h"
#include "io/sha256.h"

namespace headwise {

/// The hash of numbers, in the order in which they are added.
class BitHash {
 public:
  template <class T>
  void add(std::span<const T> values) {
    static_assert(std::is_arithmetic_v<T>);
    sha_.add(std::as_bytes(values));
  }
  template <class T>
  void add(const std::vector<T>& values) {
    add(std::span<const T>(values));
  }
  template <class T>
    requires std::is_arithmetic_v<T>
  void add(T value) {
    add(std::span<const T>(&value, 1));
  }
  void add(View<const float, 2> rows);

  /// A name that belongs to numbers.
  void add(std::string_view name);

  /// Name, type, shape and bytes of every tensor of a model folder, in the order of the names.
  void add_tensors(const std::filesystem::path& folder);

  /// 16 hexadecimal digits.
  std::string finish() { return sha_.finish().substr(0, 16); }

 private:
  Sha256 sha_;
};

struct BitCase {
  std::string name;
  std::function<std::string()> hash;
};

/// Passes of every golden model: hidden states, outputs, gates, statistics of heads, decoding.
std::vector<BitCase> forward_cases();

/// Every golden model with gradients after 20 steps, with dropout, gates and clipping; those that
/// are an architecture's own also without. Trainings that were interrupted and resumed.
std::vector<BitCase> training_cases();

/// Pruned golden models whose weights were fitted: with compensation, or recovered.
std::vector<BitCase> fitted_cases();

/// Pruned golden models in all forms, and ONNX files: the numbers of the checkpoint.
std::vector<BitCase> file_cases();

/// Hashes by the names of cases.
using Bits = std::map<std::string, std::string>;

/// tests/bits/NAME.txt: hashes, and what compiled the code that computed them.
class RecordedBits {
 public:
  explicit RecordedBits(const std::string& name);

  /// The hashes of one kind of cases.
  Bits of_kind(const std::string& kind) const;

  /// Takes the place of what is recorded of this kind, and of the toolchain.
  void replace(const std::string& kind, const Bits& bits);

  const std::string& toolchain() const { return toolchain_; }

 private:
  std::filesystem::path file_;
  std::string toolchain_;
  Bits all_;  // "KIND/NAME"
};

/// The compiler, its version, the build type and the C library: what else decides bits.
std::string toolchain();

}  // namespace headwise
