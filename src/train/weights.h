// Weights with their gradients, and the lists that describe those of a whole model: pieces of
// memory for an optimiser, tensors for a checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "headwise/core/buffer.h"
#include "headwise/core/view.h"
#include "headwise/train/trainable_model.h"

namespace headwise {

/// What a tensor holds in a model that begins.
struct Start {
  enum class Kind { zeros, ones, normal };
  Kind kind = Kind::zeros;
  float deviation = 0;    // of the normal distribution
  int64_t zero_row = -1;  // that of padding, or none

  static Start zeros() { return {}; }
  static Start ones() { return {.kind = Kind::ones}; }
  static Start normal(double deviation, int64_t zero_row = -1) {
    return {Kind::normal, static_cast<float>(deviation), zero_row};
  }
};

/// What layers know of a parameter in a pass.
struct InPass {
  bool trained = false;
  bool blank = false;  // the gradient is all 0 so far
};
using Switch = std::shared_ptr<InPass>;

/// A gradient to add to.
struct MatrixGradient {
  View<float, 2> sums{};  // none if it is not trained
  bool blank = false;     // all 0: to overwrite them is as good as to add, without reading them
};

/// A matrix or a vector; at first all 0.
class Weights {
 public:
  Weights() = default;
  explicit Weights(int64_t size, bool trained = true);

  /// Whose switch says from now on whether they are trained; until then they are not.
  void obey(Switch in_pass) { in_pass_ = std::move(in_pass); }

  bool exists() const { return values_.size() > 0; }
  int64_t size() const { return values_.size(); }
  std::span<float> values() const { return values_.span(); }
  std::span<float> gradient() const { return gradient_.span(); }
  bool trained() const { return in_pass_ != nullptr && in_pass_->trained; }

  View<float, 1> vector() const;
  View<float, 2> matrix(int64_t rows) const;

  // Where gradients are added; none if it is not trained. A matrix that was taken is blank no more.
  View<float, 1> dvector() const;
  MatrixGradient take_gradient(int64_t rows) const;

  /// The gradient of a matrix that was multiplied: += dyᵀ x, if it is trained.
  void add_product(View<const float, 2> dy, View<const float, 2> x) const;

 private:
  Switch in_pass_;
  Buffer values_, gradient_;
};

/// How a matrix is stored and trained.
struct MatrixForm {
  bool transposed = false;  // in a checkpoint
  bool decays = true;
};

/// Layers declare here what they are made of, when they are made.
class Declarations {
 public:
  struct Copy {
    std::string name, of;  // tensors that checkpoints may have twice
  };
  struct Tensor {
    StoredTensor stored{};
    Start start{};
    bool of_output = false;  // made anew if the checkpoint has none
  };

  /// `has`: whether the checkpoint has a tensor of this name.
  explicit Declarations(std::function<bool(const std::string&)> has) : has_(std::move(has)) {}

  bool has(const std::string& name) const { return has_(name); }

  Switch parameter(const std::string& name, std::span<float> values, std::span<float> gradient,
                   bool decays);
  void tensor(const std::string& name, std::vector<int64_t> shape, std::vector<TensorPart> parts,
              const Start& start);

  /// Weights of a matrix [rows, columns] or a vector that a checkpoint stores as they are, or
  /// transposed.
  Weights matrix(const std::string& parameter, const std::string& tensor, int64_t rows,
                 int64_t columns, const Start& start, const MatrixForm& form = {});
  Weights vector(const std::string& parameter, const std::string& tensor, int64_t size,
                 const Start& start);

  void copy(const std::string& name, const std::string& of) { copies.push_back({name, of}); }

  std::vector<Parameter> parameters{};
  std::vector<Switch> switches{};  // of the parameters
  std::vector<Tensor> tensors{};
  std::vector<Copy> copies{};
  bool in_output = false;  // what is declared now belongs to the output layer
  bool frozen = false;     // weights have no gradients

 private:
  std::function<bool(const std::string&)> has_;
};

}  // namespace headwise
