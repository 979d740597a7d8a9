// A graph of ONNX in memory: nodes in the order of their computation, weights, constants, inputs
// and outputs. Operators are those of the standard domain, version 17.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "headwise/io/tensor_file.h"

namespace headwise::onnx {

inline constexpr int64_t kOpset = 17;     // the first with LayerNormalization
inline constexpr int64_t kIrVersion = 8;  // of the release that brought it

/// What flows from node to node, by its name; empty: nothing.
using Value = std::string;

/// The numbers of TensorProto.DataType.
enum class Type : int32_t { float32 = 1, int32 = 6, int64 = 7, boolean = 9, float64 = 11 };
int64_t byte_size(Type type);

struct Attribute {
  std::string name{};
  std::variant<int64_t, float, std::vector<int64_t>> value{};
};

struct Node {
  std::string op{}, name{};
  std::vector<Value> inputs{}, outputs{};
  std::vector<Attribute> attributes{};
};

/// Values that the file holds.
struct Initializer {
  Value name{};
  Type type = Type::float32;
  std::vector<int64_t> dims{};
  std::string constant{};  // its bytes, if it is no weight

  // A weight: a tensor of a checkpoint, in float32.
  std::optional<TensorFiles> files{};  // that have the tensor
  const TensorInfo* tensor = nullptr;
  bool transposed = false;

  int64_t bytes() const;
};

/// An extent of an input or output: a number, or a name for what may vary.
using Extent = std::variant<int64_t, std::string>;

struct Port {
  Value name{};
  Type type = Type::float32;
  std::vector<Extent> dims{};
};

class Graph {
 public:
  explicit Graph(std::string name) : name(std::move(name)) {}

  Value input(const std::string& name, Type type, std::vector<Extent> dims);
  void output(const Value& value, const std::string& name, std::vector<Extent> dims);

  /// A tensor of a checkpoint; a matrix may be stored the other way round, with this said behind
  /// its name. `place` stands before the name of one that is not the model's own.
  Value weight(const TensorFiles& files, const TensorInfo& tensor, bool transposed = false,
               const std::string& place = "");

  // Equal constants are held once.
  Value scalar(float value);
  Value scalar(double value);
  Value scalar(int64_t value);
  Value list(const std::vector<int64_t>& values);
  Value floats(const std::vector<float>& values, std::vector<int64_t> dims);

  Value node(const std::string& op, std::vector<Value> inputs,
             std::vector<Attribute> attributes = {});

  // Operators by what they do.
  Value add(const Value& a, const Value& b) { return node("Add", {a, b}); }
  Value multiply(const Value& a, const Value& b) { return node("Mul", {a, b}); }
  Value product(const Value& a, const Value& b) { return node("MatMul", {a, b}); }
  Value cast(const Value& x, Type type);
  Value gather(const Value& table, const Value& indices, int64_t axis);
  Value reshape(const Value& x, const std::vector<int64_t>& dims);  // 0: as it was
  Value transpose(const Value& x, const std::vector<int64_t>& order);
  Value unsqueeze(const Value& x, const std::vector<int64_t>& axes);
  Value squeeze(const Value& x, const std::vector<int64_t>& axes);
  Value concat(const std::vector<Value>& parts, int64_t axis);
  Value extent(const Value& x, int64_t axis);  // as a list of one number
  /// Parts of these sizes; those of size 0 are empty values.
  std::vector<Value> split(const Value& x, const std::vector<int64_t>& sizes, int64_t axis);

  /// The `count` largest along the last axis, and their indices; of equal ones the first.
  std::pair<Value, Value> largest(const Value& x, int64_t count);

  /// Leaves out what no output needs.
  void drop_unused();

  /// What is added now belongs to this part of the model, for the names of nodes.
  void enter(std::string part) { part_ = std::move(part); }

  std::string name;
  std::vector<Port> inputs{}, outputs{};
  std::vector<Node> nodes{};
  std::vector<Initializer> initializers{};

 private:
  template <class T>
  Value constant(Type type, const std::vector<T>& values, std::vector<int64_t> dims);
  Value constant_bytes(Type type, std::string bytes, std::vector<int64_t> dims);
  Node& add_node(const std::string& op, std::vector<Value> inputs);

  std::string part_;
  std::map<std::string, int64_t> counts_;   // of nodes by part and operator
  std::set<Value> weights_;                 // that are there
  std::map<std::string, Value> constants_;  // by type, shape and bytes
};

}  // namespace headwise::onnx
