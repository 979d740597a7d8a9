// Takes the weights of layers out of a checkpoint: every tensor by name and shape, none left
// behind.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "headwise/core/buffer.h"
#include "headwise/core/view.h"
#include "headwise/io/tensor_file.h"
#include "headwise/kernels/gemm.h"
#include "model/init_std.h"
#include "model/weight_source.h"

namespace headwise {

class ParameterTable;

class WeightReader : public WeightSource {
 public:
  struct Options {
    bool allow_nonfinite = false;
    bool allow_unexpected = false;
  };
  WeightReader(TensorFiles files, Options options) : files_(std::move(files)), options_(options) {}

  bool has(const std::string& name) const override { return find(name) != nullptr; }

  // Weights to run with: matrices in the order of the kernel, embeddings as they are stored.
  bool packs() const override { return true; }
  Table table(const LayerName& name, int64_t rows, int64_t width) override;
  std::shared_ptr<const Weights> factor(Table& table) override;
  Dtype tensor(const std::string& name, std::vector<int64_t> shape,
               std::vector<TensorPart> parts) override;
  SharedParameterState parameter(const std::string&, std::span<float>, std::span<float>,
                                 bool) override {
    return nullptr;
  }
  /// Marks the tensor as used, if there is one.
  void copy(const std::string& name, const std::string& of) override;

  /// Throws Error, before anything is read, unless the checkpoint has the tensors of the table in
  /// their shapes, and no others. `saved`, if any, is the model that was saved with another output
  /// layer: then that of `table` need not be there.
  void expect(const ParameterTable& table, const ParameterTable* saved = nullptr);

  /// The tensor, which must be there in this shape; marks it as used.
  const TensorInfo& take(const std::string& name, const std::vector<int64_t>& shape);

  // The values of a tensor. Throws Error for one that is not finite, unless these are allowed.
  Buffer floats(const TensorInfo& tensor) const;
  TensorBytes bytes(const TensorInfo& tensor) const;  // as they are stored
  void check_finite(const TensorInfo& tensor) const;  // reads them for that alone

  /// A matrix in the order of the kernel, in 16 bits if it is stored so. `transposed`: stored as
  /// [inputs, outputs].
  PackedWeights packed(const TensorInfo& tensor, bool transposed = false) const;

  /// Marks a tensor as used that says again what another one says, and checks that it does.
  void same_as(const std::string& name, const TensorInfo& other);

  /// Marks a tensor as used, if there is one, that is of no use.
  void ignore(const std::string& name);

  /// Parameters of the architecture that no layer reads.
  std::span<const TensorInfo* const> unused() const { return unused_; }

  /// Throws Error if there are tensors that nobody took or expected, or if the files were changed
  /// meanwhile.
  void finish() const;

  const TensorFiles& files() const { return files_; }

 protected:
  PackedWeights packed(const std::string& name, int64_t outputs, int64_t inputs,
                       bool transposed) override;

 private:
  const TensorInfo* find(const std::string& name) const;
  void check(const TensorInfo& tensor, std::span<const std::byte> bytes) const;
  void refuse_unexpected() const;

  TensorFiles files_;
  Options options_;
  std::set<std::string, std::less<>> used_;
  std::vector<const TensorInfo*> unused_;
};

/// The tensors that a checkpoint of this config has. `prefix` is the base model's, as found there.
ParameterTable table_of(const ModelConfig& config, const std::string& prefix,
                        const WeightReader& reader, bool fresh_output = false,
                        const InitStd& init_std = {});

}  // namespace headwise
