// Where the layers of a model get their weights: a checkpoint, to run them, or new memory, to train
// them. Layers name and shape their weights once for both.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "headwise/io/tensor_file.h"
#include "headwise/model/stored_tensor.h"
#include "model/weights.h"

namespace headwise {

/// Names of a layer, or of one tensor: in the list of parameters, and in a checkpoint.
struct LayerName {
  std::string parameter{}, tensor{};

  LayerName weight() const { return {parameter + ".weight", tensor + ".weight"}; }
  LayerName bias() const { return {parameter + ".bias", tensor + ".bias"}; }
};

/// How a matrix is stored, run and trained.
struct MatrixForm {
  bool transposed = false;  // in a checkpoint
  bool decays = true;
  bool plain = false;  // never packed: no matmul reads it
};

/// The rows of an embedding, shared by all layers that read them.
struct Table {
  std::string tensor{};                      // its name; empty if it was computed
  std::shared_ptr<const Weights> weights{};  // plain, or packed if a matmul reads it
  TensorBytes stored{};                      // else as a file has them, in this type
  Dtype dtype = Dtype::kF32;
};

class WeightSource {
 public:
  WeightSource() = default;
  virtual ~WeightSource() = default;
  WeightSource(const WeightSource&) = delete;
  WeightSource& operator=(const WeightSource&) = delete;

  /// True: weights are to run, and those that matmuls read are packed. False: they are to be
  /// trained; all are plain, and have gradients.
  virtual bool packs() const = 0;
  /// Whether the checkpoint has a tensor of this name.
  virtual bool has(const std::string& name) const = 0;

  // Tensors of these names and shapes.
  Weights matrix(const LayerName& name, int64_t outputs, int64_t inputs, const MatrixForm& form);
  Weights vector(const LayerName& name, int64_t size);
  virtual Table table(const LayerName& name, int64_t rows, int64_t width) = 0;
  /// The rows of a table as a matrix to multiply with, which the table then has, too.
  virtual std::shared_ptr<const Weights> factor(Table& table) = 0;

  /// A tensor whose numbers belong into these parts. They are there at once, or, to train, when all
  /// layers are made. Gives its type in the checkpoint, if it was read.
  virtual Dtype tensor(const std::string& name, std::vector<int64_t> shape,
                       std::vector<TensorPart> parts) = 0;
  /// Adds to what is trained; null if nothing is.
  virtual SharedParameterState parameter(const std::string& name, std::span<float> values,
                                         std::span<float> gradient, bool decays) = 0;
  /// A tensor that a checkpoint may have beside `of`, with the same numbers; empty: of no use.
  virtual void copy(const std::string& name, const std::string& of) = 0;

 protected:
  virtual PackedWeights packed(const std::string& name, int64_t outputs, int64_t inputs,
                               bool transposed) = 0;
};

}  // namespace headwise
