// Reads the golden files written by golden_file.py: a text index, an empty line, little-endian
// float32.
#pragma once

#include <bit>
#include <cstdint>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "golden/folder.h"
#include "headwise/core/view.h"

namespace headwise::golden {

static_assert(std::endian::native == std::endian::little);

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<float> values;

  template <int R>
  View<const float, R> view() const {
    if (shape.size() != R) throw std::runtime_error("golden: a tensor of another rank");
    std::array<int64_t, R> extents;
    for (int r = 0; r < R; ++r) extents[r] = shape[r];
    return {values.data(), extents};
  }
};

struct Case {
  std::string name;
  std::map<std::string, double> numbers;
  std::map<std::string, std::vector<int64_t>> ints;
  std::map<std::string, Tensor> tensors;

  bool has(const std::string& key) const { return ints.contains(key) || tensors.contains(key); }
  const Tensor& tensor(const std::string& key) const { return tensors.at(key); }
  /// Empty where the case has none.
  std::vector<int64_t> list(const std::string& key) const {
    const auto found = ints.find(key);
    return found == ints.end() ? std::vector<int64_t>{} : found->second;
  }
};

struct File {
  std::map<std::string, std::string> about;
  std::vector<Case> cases;

  const Case& at(const std::string& name) const {
    for (const Case& one : cases) {
      if (one.name == name) return one;
    }
    throw std::runtime_error("golden: no case " + name);
  }
};

template <class T>
std::vector<T> rest_of(std::istringstream& line) {
  std::vector<T> values;
  for (T value; line >> value;) values.push_back(value);
  return values;
}

inline File load(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  File file;
  std::vector<std::pair<size_t, std::string>> order;  // of tensors: case, name
  std::string text;
  if (!std::getline(stream, text) || text != "golden 1") {
    throw std::runtime_error("golden: cannot read " + path);
  }
  while (std::getline(stream, text) && !text.empty()) {
    std::istringstream line(text);
    std::string kind, name;
    line >> kind >> name;
    if (kind == "about") {
      line >> file.about[name];
    } else if (kind == "case") {
      file.cases.push_back({.name = name});
    } else if (kind == "number") {
      line >> file.cases.back().numbers[name];
    } else if (kind == "ints") {
      file.cases.back().ints[name] = rest_of<int64_t>(line);
    } else if (kind == "tensor") {
      file.cases.back().tensors[name].shape = rest_of<int64_t>(line);
      order.emplace_back(file.cases.size() - 1, name);
    }
  }
  for (const auto& [index, name] : order) {
    Tensor& tensor = file.cases[index].tensors[name];
    const int64_t count =
        std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
    tensor.values.resize(count);
    stream.read(reinterpret_cast<char*>(tensor.values.data()), count * sizeof(float));
  }
  if (!stream || stream.peek() != EOF) throw std::runtime_error("golden: wrong size of " + path);
  return file;
}

inline File load_named(const std::string& name) {
  return load((golden_folder() / (name + ".golden")).string());
}

}  // namespace headwise::golden
