// The inputs of a golden model as arguments of the program, and what transformers makes of them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "headwise/io/tensor_file.h"
#include "program/program.h"

namespace headwise {

class GoldenInputs {
 public:
  explicit GoldenInputs(const std::string& name)
      : folder_(golden_model_path(name)),
        files_(TensorFiles::open(folder_ + "/expected.safetensors")) {}

  bool has(const std::string& name) const { return files_.find(name) != nullptr; }

  std::vector<float> floats(const std::string& name) const {
    std::vector<float> values(files_.find(name)->size());
    files_.read(*files_.find(name), values);
    return values;
  }

  std::vector<int64_t> integers(const std::string& name) const {
    std::vector<int64_t> values(files_.find(name)->size());
    files_.read_bytes(*files_.find(name), 0, std::as_writable_bytes(std::span(values)));
    return values;
  }

  /// Ids of each sequence, apart.
  std::vector<std::vector<int64_t>> sequences(const std::string& ids,
                                              const std::string& lengths) const {
    std::vector<std::vector<int64_t>> all;
    const std::vector<int64_t> flat = integers(ids);
    auto at = flat.begin();
    for (const int64_t length : integers(lengths)) {
      all.emplace_back(at, at + length);
      at += length;
    }
    return all;
  }

  /// COMMAND FOLDER --json --ids …, with token types and decoder ids where there are any.
  std::vector<std::string> arguments(const std::string& command, bool decoder = true) const {
    std::vector<std::string> result = {command, folder_, "--json"};
    const auto add = [&](const char* option, const char* ids, const char* lengths) {
      for (const auto& sequence : sequences(ids, lengths)) {
        result.emplace_back(option);
        result.push_back(joined(sequence));
      }
    };
    add("--ids", "ids", "lengths");
    if (has("type_ids")) add("--type-ids", "type_ids", "lengths");
    if (decoder && has("decoder_ids")) add("--decoder-ids", "decoder_ids", "decoder_lengths");
    return result;
  }

  static std::string joined(const std::vector<int64_t>& ids) {
    std::string text;
    for (const int64_t id : ids) text += (text.empty() ? "" : " ") + std::to_string(id);
    return text;
  }

 private:
  std::string folder_;
  TensorFiles files_;
};

/// Runs the program, expects it to succeed, and parses what it prints.
inline nlohmann::json run_json(std::vector<std::string> arguments,
                               const std::vector<std::string>& more = {},
                               const std::string& input = "") {
  arguments.insert(arguments.end(), more.begin(), more.end());
  const ProgramResult result = run_program(arguments, input);
  EXPECT_EQ(result.code, 0) << result.errors;
  return nlohmann::json::parse(result.out);
}

/// All numbers of nested arrays, in order.
inline void flatten(const nlohmann::json& value, std::vector<float>& numbers) {
  if (value.is_number()) numbers.push_back(value.get<float>());
  if (value.is_array()) {
    for (const nlohmann::json& element : value) flatten(element, numbers);
  }
}

/// Within 2e-5 of the largest value, as float32 demands of whole models.
inline void expect_near(const std::string& what, const std::vector<float>& got,
                        const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  float largest = 0, error = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    error = std::max(error, std::abs(got[i] - expected[i]));
  }
  EXPECT_LE(error, 2e-5f * largest) << what;
}

}  // namespace headwise
