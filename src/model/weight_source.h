// Where the layers of a model get their weights: a checkpoint, to run them, or new memory, to train
// them. Layers name and shape their weights once for both.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "headwise/io/tensor_file.h"
#include "model/weights.h"

namespace headwise {

/// Initialisation of a tensor in a new model.
struct Init {
  enum class Kind { zeros, ones, normal };
  Kind kind = Kind::zeros;
  float deviation = 0;    // of the normal distribution
  int64_t zero_row = -1;  // that of padding, or none

  static Init zeros() { return {}; }
  static Init ones() { return {.kind = Kind::ones}; }
  static Init normal(double deviation, int64_t zero_row = -1) {
    return {Kind::normal, static_cast<float>(deviation), zero_row};
  }
};

/// Names of a layer, or of one tensor: in the list of parameters, and in a checkpoint.
struct LayerName {
  std::string parameter{}, tensor{};

  LayerName weight() const { return {parameter + ".weight", tensor + ".weight"}; }
  LayerName bias() const { return {parameter + ".bias", tensor + ".bias"}; }
};

/// How a matrix is stored and trained.
struct MatrixForm {
  bool transposed = false;  // in a checkpoint
  bool decays = true;
};

/// The rows of an embedding, shared by all layers that read them.
struct Table {
  std::string tensor{};                         // its name; empty if it was computed
  std::shared_ptr<const Weights> weights{};     // plain
  std::shared_ptr<const TensorBytes> stored{};  // or as a file has them, in this type
  Dtype dtype = Dtype::kF32;
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;

  /// Whether the checkpoint has a tensor of this name.
  virtual bool has(const std::string& name) const = 0;

  // Tensors of these names and shapes.
  virtual Weights matrix(const LayerName& name, int64_t outputs, int64_t inputs, const Init& init,
                         const MatrixForm& form) = 0;
  virtual Weights vector(const LayerName& name, int64_t size, const Init& init) = 0;
  virtual Table table(const LayerName& name, int64_t rows, int64_t width, const Init& init) = 0;
};

}  // namespace headwise
