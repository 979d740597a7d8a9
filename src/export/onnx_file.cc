// Writes graphs in the messages of onnx.proto. Field numbers are those of that file.
#include "export/onnx_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "export/protobuf.h"
#include "io/file.h"

namespace headwise::onnx {
namespace {

using protobuf::Message;

constexpr int64_t kPage = 4096;         // where weights in a data file begin
constexpr int64_t kSmallWeight = 1024;  // bytes; smaller ones stay with the graph

Message attribute(const Attribute& attribute) {
  Message message;
  message.text(1, attribute.name);
  if (const auto* number = std::get_if<int64_t>(&attribute.value)) {
    message.number(3, *number).number(20, 2);
  } else if (const auto* real = std::get_if<float>(&attribute.value)) {
    message.real(2, *real).number(20, 1);
  } else {
    for (const int64_t each : std::get<std::vector<int64_t>>(attribute.value)) {
      message.number(8, each);
    }
    message.number(20, 7);
  }
  return message;
}

Message node(const Node& node) {
  Message message;
  for (const Value& input : node.inputs) message.text(1, input);
  for (const Value& output : node.outputs) message.text(2, output);
  message.text(3, node.name).text(4, node.op);
  for (const Attribute& each : node.attributes) message.message(5, attribute(each));
  return message;
}

Message port(const Port& port) {
  Message shape;
  for (const Extent& extent : port.dims) {
    Message dimension;
    if (const auto* size = std::get_if<int64_t>(&extent)) {
      dimension.number(1, *size);
    } else {
      dimension.text(2, std::get<std::string>(extent));
    }
    shape.message(1, dimension);
  }
  Message tensor;
  tensor.number(1, static_cast<int64_t>(port.type)).message(2, shape);
  return Message().text(1, port.name).message(2, Message().message(1, tensor));
}

/// All of a tensor but its values, which follow.
Message tensor_head(const Initializer& tensor) {
  Message message;
  for (const int64_t extent : tensor.dims) message.number(1, extent);
  message.number(2, static_cast<int64_t>(tensor.type)).text(8, tensor.name);
  return message;
}

Message entry(const char* key, const std::string& value) {
  return Message().text(1, key).text(2, value);
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// Calls f with the bytes of a tensor.
template <class F>
void with_values(const Initializer& tensor, const F& f) {
  if (tensor.tensor == nullptr) return f(bytes_of(tensor.constant));
  f(std::as_bytes(weight_values(tensor).span()));
}

bool is_apart(const Initializer& tensor) {
  return tensor.tensor != nullptr && tensor.bytes() >= kSmallWeight;
}

/// Where tensors lie in a data file, in their order.
std::vector<int64_t> offsets_apart(const Graph& graph) {
  std::vector<int64_t> offsets;
  int64_t end = 0;
  for (const Initializer& tensor : graph.initializers) {
    if (!is_apart(tensor)) continue;
    offsets.push_back((end + kPage - 1) / kPage * kPage);
    end = offsets.back() + tensor.bytes();
  }
  return offsets;
}

void write_data(const Graph& graph, const std::filesystem::path& file) {
  write_file_whole(file, [&](const FileSink& write) {
    const std::vector<std::byte> zeros(kPage);
    int64_t end = 0;
    size_t next = 0;
    const std::vector<int64_t> offsets = offsets_apart(graph);
    for (const Initializer& tensor : graph.initializers) {
      if (!is_apart(tensor)) continue;
      write(std::span(zeros).first(offsets[next++] - end));
      with_values(tensor, write);
      end = offsets[next - 1] + tensor.bytes();
    }
  });
}

/// A piece of the file: bytes, and the values of a tensor behind them.
struct Piece {
  Message head{};
  const Initializer* tensor = nullptr;
  int64_t size() const { return head.size() + (tensor == nullptr ? 0 : tensor->bytes()); }
};

std::vector<Piece> pieces_of(const Graph& graph, const std::filesystem::path& data) {
  Message rest;
  for (const Node& each : graph.nodes) rest.message(1, node(each));
  rest.text(2, graph.name);
  for (const Port& each : graph.inputs) rest.message(11, port(each));
  for (const Port& each : graph.outputs) rest.message(12, port(each));
  std::vector<Piece> pieces = {{std::move(rest)}};
  const std::vector<int64_t> offsets = offsets_apart(graph);
  size_t next = 0;
  for (const Initializer& tensor : graph.initializers) {
    Message inside = tensor_head(tensor);
    if (!data.empty() && is_apart(tensor)) {
      inside.message(13, entry("location", data.filename().string()))
          .message(13, entry("offset", fmt::format("{}", offsets[next++])))
          .message(13, entry("length", fmt::format("{}", tensor.bytes())))
          .number(14, 1);
      pieces.push_back({Message().message(5, inside)});
      continue;
    }
    inside.head(9, tensor.bytes());
    Message whole;
    whole.head(5, inside.size() + tensor.bytes());
    whole.append(inside);
    pieces.push_back({std::move(whole), &tensor});
  }
  return pieces;
}

int64_t size_of(const std::vector<Piece>& pieces) {
  int64_t size = 0;
  for (const Piece& piece : pieces) size += piece.size();
  return size;
}

}  // namespace

Buffer weight_values(const Initializer& weight) {
  const int64_t count = weight.tensor->size();
  Buffer stored(count);
  weight.files->read(*weight.tensor, stored.span());
  if (!weight.transposed) return stored;
  constexpr int64_t kTile = 32;  // rows and columns at once, so that both stay in the cache
  const int64_t rows = weight.dims[1], columns = weight.dims[0];
  Buffer transposed(count);
  for (int64_t first = 0; first < rows; first += kTile) {
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t r = first; r < std::min(rows, first + kTile); ++r) {
        transposed[c * rows + r] = stored[r * columns + c];
      }
    }
  }
  return transposed;
}

std::filesystem::path data_file(const std::filesystem::path& file) {
  return file.string() + ".data";
}

bool has_data_file(const Graph& graph, int64_t most) {
  constexpr int64_t kModel = 64;  // what is around the graph
  return size_of(pieces_of(graph, {})) + kModel > most;
}

void write_graph(const Graph& graph, const std::filesystem::path& file, int64_t most) {
  std::filesystem::path data;
  if (has_data_file(graph, most)) {
    data = data_file(file);
    write_data(graph, data);
  }
  const std::vector<Piece> pieces = pieces_of(graph, data);
  Message model;
  model.number(1, kIrVersion).text(2, "headwise");
  model.message(8, Message().text(1, "").number(2, kOpset)).head(7, size_of(pieces));
  write_file_whole(file, [&](const FileSink& write) {
    write(bytes_of(model.bytes()));
    for (const Piece& piece : pieces) {
      write(bytes_of(piece.head.bytes()));
      if (piece.tensor != nullptr) with_values(*piece.tensor, write);
    }
  });
}

}  // namespace headwise::onnx
