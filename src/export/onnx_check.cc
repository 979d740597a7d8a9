// Reads a file of ONNX that was just written, and compares it with what it shall be.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "export/onnx_file.h"
#include "export/protobuf.h"
#include "headwise/core/error.h"
#include "io/file.h"

namespace headwise::onnx {
namespace {

using protobuf::Field;
using protobuf::Fields;
using Bytes = std::span<const std::byte>;

class Check {
 public:
  Check(const Graph& graph, const std::filesystem::path& file)
      : graph_(graph), file_(file), text_(read_file(file)) {
    for (const Initializer& tensor : graph.initializers) expected_[tensor.name] = &tensor;
  }

  void run(OnnxProof& proof) {
    Fields model(std::as_bytes(std::span(text_)));
    while (const auto field = model.next()) {
      if (field->number == 7) read_graph(*field);
    }
    if (nodes_ != std::ssize(graph_.nodes)) fail("nodes", "their number");
    for (const auto& [name, tensor] : expected_) fail(name, "a tensor that is missing");
    for (const Port& output : graph_.outputs) {
      if (!outputs_.contains(output.name) || !known_.contains(output.name)) {
        fail(output.name, "an output that nothing gives");
      }
    }
    proof.nodes += nodes_;
    proof.weights += weights_;
    proof.numbers += numbers_;
  }

 private:
  [[noreturn]] void fail(std::string_view where, std::string got) const {
    throw Error({.what = "the file that was written is not the model",
                 .where = fmt::format("{}: {}", file_.string(), where),
                 .got = std::move(got),
                 .hint = "this is a mistake of the program, or the disk's"});
  }

  void define(std::string_view name) {
    if (!known_.insert(std::string(name)).second) fail(name, "a name that is given twice");
  }

  static std::string_view first_text(const Field& message, int number) {
    Fields fields(message);
    while (const auto field = fields.next()) {
      if (field->number == number) return field->text();
    }
    return {};
  }

  /// Initializers and inputs before nodes, wherever they lie.
  void read_graph(const Field& graph) {
    for (Fields fields(graph); const auto field = fields.next();) {
      if (field->number == 5) read_tensor(*field);
      if (field->number == 11) define(first_text(*field, 1));
      if (field->number == 12) outputs_.insert(std::string(first_text(*field, 1)));
    }
    for (Fields fields(graph); const auto field = fields.next();) {
      if (field->number == 1) read_node(*field);
    }
  }

  void read_node(const Field& node) {
    ++nodes_;
    std::vector<std::string_view> outputs;
    for (Fields fields(node); const auto field = fields.next();) {
      if (field->number == 1 && !field->bytes.empty() &&
          !known_.contains(std::string(field->text()))) {
        fail(field->text(), "an input that nothing gave before");
      }
      if (field->number == 2) outputs.push_back(field->text());
    }
    for (const std::string_view output : outputs) define(output);
  }

  void read_tensor(const Field& message) {
    std::string_view name;
    std::vector<int64_t> dims;
    int64_t type = 0;
    Bytes bytes;
    std::map<std::string_view, std::string_view> elsewhere;
    for (Fields fields(message); const auto field = fields.next();) {
      if (field->number == 1) dims.push_back(field->value);
      if (field->number == 2) type = field->value;
      if (field->number == 8) name = field->text();
      if (field->number == 9) bytes = field->bytes;
      if (field->number == 13) elsewhere[first_text(*field, 1)] = first_text(*field, 2);
    }
    define(name);
    const auto found = expected_.find(name);
    if (found == expected_.end()) fail(name, "a tensor that is not the model's");
    const Initializer& expected = *found->second;
    TensorBytes apart;
    if (!elsewhere.empty()) {
      apart = data_of(name, elsewhere);
      bytes = apart.span();
    }
    if (dims != expected.dims || type != static_cast<int64_t>(expected.type) ||
        std::ssize(bytes) != expected.bytes()) {
      fail(name, "another shape, type or size");
    }
    compare(expected, bytes);
    expected_.erase(found);
  }

  TensorBytes data_of(std::string_view name,
                      const std::map<std::string_view, std::string_view>& elsewhere) {
    const std::filesystem::path path = data_file(file_);
    if (!data_) data_.emplace(path);
    const auto number = [&](std::string_view key) {
      int64_t value = -1;
      const auto text = elsewhere.find(key);
      if (text != elsewhere.end()) {
        std::from_chars(text->second.data(), text->second.data() + text->second.size(), value);
      }
      return value;
    };
    const int64_t offset = number("offset"), length = number("length");
    const auto location = elsewhere.find("location");
    if (location == elsewhere.end() || location->second != path.filename().string() || offset < 0 ||
        length < 0 || offset > data_->size() - length) {
      fail(name, "values outside the data file");
    }
    TensorBytes values(length);
    data_->read(offset, values.span());
    return values;
  }

  void compare(const Initializer& expected, Bytes bytes) {
    if (expected.tensor == nullptr) {
      if (std::memcmp(bytes.data(), expected.constant.data(), bytes.size()) != 0) {
        fail(expected.name, "another constant");
      }
      return;
    }
    const int64_t count = expected.tensor->size();
    Buffer stored(count);
    expected.files->read(*expected.tensor, stored.span());
    const int64_t rows = expected.transposed ? expected.tensor->shape[0] : 1;
    const int64_t columns = rows == 0 ? 0 : count / rows;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        const size_t at = (expected.transposed ? c * rows + r : c) * sizeof(float);
        if (std::memcmp(&bytes[at], &stored[r * columns + c], sizeof(float)) != 0) {
          fail(expected.name, "another weight");
        }
      }
    }
    ++weights_;
    numbers_ += count;
  }

  const Graph& graph_;
  std::filesystem::path file_;
  std::string text_;
  std::optional<InputFile> data_;
  std::map<std::string, const Initializer*, std::less<>> expected_;
  std::set<std::string> known_, outputs_;
  int64_t nodes_ = 0, weights_ = 0, numbers_ = 0;
};

}  // namespace

void check_graph(const Graph& graph, const std::filesystem::path& file, OnnxProof& proof) {
  Check(graph, file).run(proof);
}

}  // namespace headwise::onnx
