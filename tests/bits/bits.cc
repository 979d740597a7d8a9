#include "bits/bits.h"

#include <fmt/format.h>
#include <gnu/libc-version.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "golden/folder.h"
#include "headwise/io/tensor_file.h"

namespace headwise {
namespace {

constexpr std::string_view kToolchain = "toolchain ";

std::filesystem::path file_of(const std::string& name) {
  return golden_folder().parent_path() / "bits" / (name + ".txt");
}

}  // namespace

void BitHash::add(View<const float, 2> rows) {
  add(rows.extent(0));
  add(rows.extent(1));
  for (int64_t row = 0; row < rows.extent(0); ++row) {
    add(std::span<const float>(&rows(row, 0), rows.extent(1)));
  }
}

void BitHash::add(std::string_view name) {
  add(name.size());
  sha_.add(name);
}

void BitHash::add_tensors(const std::filesystem::path& folder) {
  const TensorFiles files = TensorFiles::open(folder);
  std::vector<TensorInfo> tensors(files.tensors().begin(), files.tensors().end());
  std::ranges::sort(tensors, {}, &TensorInfo::name);
  for (const TensorInfo& tensor : tensors) {
    add(tensor.name);
    add(static_cast<int>(tensor.dtype));
    add(tensor.shape);
    sha_.add(files.bytes(tensor).span());
  }
}

RecordedBits::RecordedBits(const std::string& name) : file_(file_of(name)) {
  std::ifstream lines(file_);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kToolchain)) {
      toolchain_ = line.substr(kToolchain.size());
    } else if (!line.starts_with('#')) {
      std::istringstream words(line);
      std::string name;
      words >> name >> all_[name];
    }
  }
}

Bits RecordedBits::of_kind(const std::string& kind) const {
  Bits found;
  for (const auto& [name, hash] : all_) {
    if (name.starts_with(kind + "/")) found[name.substr(kind.size() + 1)] = hash;
  }
  return found;
}

void RecordedBits::replace(const std::string& kind, const Bits& bits) {
  std::erase_if(all_, [&](const auto& entry) { return entry.first.starts_with(kind + "/"); });
  for (const auto& [name, hash] : bits) all_[kind + "/" + name] = hash;
  toolchain_ = headwise::toolchain();
  std::ofstream out(file_);
  out << "# Written by test_bits; see docs/hacking.md.\n" << kToolchain << toolchain_ << "\n";
  for (const auto& [name, hash] : all_) out << name << " " << hash << "\n";
}

std::string toolchain() {
  return fmt::format("{}, glibc {}", HEADWISE_TOOLCHAIN, gnu_get_libc_version());
}

}  // namespace headwise
