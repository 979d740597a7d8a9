// Checks names, shapes and values of tensors on their way into layers.
#include "model/weight_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/core/shape.h"
#include "io/to_float.h"
#include "model/parameter_table.h"
#include "model/stored_tensors.h"

namespace headwise {
namespace {

/// What the tensor may be called instead, for the hint of a missing one.
std::string nearest(const TensorFiles& files, const std::string& name) {
  const std::string_view ending =
      std::string_view(name).substr(name.rfind('.', name.rfind('.') - 1) + 1);
  for (const TensorInfo& tensor : files.tensors()) {
    if (tensor.name.ends_with(ending)) return tensor.name;
  }
  return files.tensors().empty() ? "" : files.tensors().front().name;
}

}  // namespace

/// Under its name, or under the one that norms had in the first checkpoints of BERT.
const TensorInfo* WeightReader::find(const std::string& name) const {
  const TensorInfo* const tensor = files_.find(name);
  if (tensor != nullptr) return tensor;
  for (const auto& [now, then] : {std::pair{"LayerNorm.weight", "LayerNorm.gamma"},
                                  std::pair{"LayerNorm.bias", "LayerNorm.beta"}}) {
    if (name.ends_with(now)) {
      return files_.find(name.substr(0, name.size() - std::string_view(now).size()) + then);
    }
  }
  return nullptr;
}

const TensorInfo& WeightReader::take(const std::string& name, const std::vector<int64_t>& shape) {
  const TensorInfo* const tensor = find(name);
  if (tensor == nullptr) {
    const std::string near = nearest(files_, name);
    throw Error(
        {.what = "a tensor is missing from the checkpoint",
         .where = name,
         .got = fmt::format("{} tensors without it", files_.tensors().size()),
         .expected = fmt::format("shape {}", to_string(shape)),
         .hint = near.empty() ? "" : fmt::format("the checkpoint has, for instance, {}", near)});
  }
  if (tensor->shape != shape) {
    std::vector<int64_t> transposed(shape.rbegin(), shape.rend());
    throw Error({.what = "a tensor does not have the shape that config.json gives it",
                 .where = name,
                 .got = to_string(tensor->shape),
                 .expected = to_string(shape),
                 .hint = tensor->shape == transposed ? "it is transposed" : ""});
  }
  used_.insert(tensor->name);
  return *tensor;
}

void WeightReader::check(const TensorInfo& tensor, std::span<const std::byte> bytes) const {
  if (!options_.allow_nonfinite) files_.check_finite(tensor, bytes);
}

Buffer WeightReader::floats(const TensorInfo& tensor) const {
  Buffer values(tensor.size());
  if (tensor.dtype == Dtype::kF32 || !is_float(tensor.dtype)) {
    files_.read(tensor, values.span());  // which refuses tensors that are not of floats
    check(tensor, std::as_bytes(values.span()));
  } else {
    to_float(tensor.dtype, bytes(tensor).span(), values.span());
  }
  return values;
}

TensorBytes WeightReader::bytes(const TensorInfo& tensor) const {
  TensorBytes bytes = files_.bytes(tensor);
  check(tensor, bytes.span());
  return bytes;
}

void WeightReader::check_finite(const TensorInfo& tensor) const {
  if (!options_.allow_nonfinite) (void)bytes(tensor);
}

Table WeightReader::table(const LayerName& name, int64_t rows, int64_t width) {
  const TensorInfo& tensor = take(name.tensor, {rows, width});
  return {.tensor = tensor.name, .stored = bytes(tensor), .dtype = tensor.dtype};
}

std::shared_ptr<const Weights> WeightReader::factor(Table& table) {
  table.stored = {};  // its rows are read from the packed matrix
  table.weights = std::make_shared<const Weights>(packed(*files_.find(table.tensor)));
  return table.weights;
}

Dtype WeightReader::tensor(const std::string& name, std::vector<int64_t> shape,
                           std::vector<TensorPart> parts) {
  const TensorInfo& stored = take(name, shape);
  scatter(floats(stored).span(), parts);
  return stored.dtype;
}

PackedWeights WeightReader::packed(const std::string& name, int64_t outputs, int64_t inputs,
                                   bool transposed) {
  return packed(transposed ? take(name, {inputs, outputs}) : take(name, {outputs, inputs}),
                transposed);
}

PackedWeights WeightReader::packed(const TensorInfo& tensor, bool transposed) const {
  const auto pack = [&](const auto* data, auto... type) {
    const View<std::remove_pointer_t<decltype(data)>, 2> stored(data,
                                                                {tensor.shape[0], tensor.shape[1]});
    return PackedWeights(transposed ? headwise::transposed(stored) : stored, type...);
  };
  const bool half = tensor.dtype == Dtype::kF16 || tensor.dtype == Dtype::kBF16;
  if (half) {
    return pack(reinterpret_cast<const uint16_t*>(bytes(tensor).data()),
                tensor.dtype == Dtype::kF16 ? WeightType::float16 : WeightType::bfloat16);
  }
  return pack(static_cast<const float*>(floats(tensor).data()));
}

void WeightReader::copy(const std::string& name, const std::string& of) {
  const TensorInfo* const original = of.empty() ? nullptr : find(of);
  original == nullptr ? ignore(name) : same_as(name, *original);
}

void WeightReader::same_as(const std::string& name, const TensorInfo& other) {
  const TensorInfo* const tensor = files_.find(name);
  if (tensor == nullptr) return;
  used_.insert(name);
  if (tensor->dtype == other.dtype && tensor->byte_count() == other.byte_count() &&
      std::ranges::equal(files_.bytes(*tensor).span(), files_.bytes(other).span())) {
    return;
  }
  throw Error({.what = "tensors that config.json ties together disagree",
               .where = name,
               .got = "other values",
               .expected = fmt::format("those of {}", other.name),
               .hint = "set \"tie_word_embeddings\" to false if they are meant to differ"});
}

void WeightReader::ignore(const std::string& name) {
  if (const TensorInfo* const tensor = find(name)) used_.insert(tensor->name);
}

void WeightReader::expect(const ParameterTable& table, const ParameterTable* saved) {
  const bool fresh_output = saved != nullptr;
  for (const ParameterTensor& tensor : table.tensors()) {
    if (tensor.of_output && fresh_output) {
      ignore(tensor.name);
    } else {
      take(tensor.name, tensor.shape);
    }
  }
  for (const RepeatedTensor& tensor : table.repeated()) ignore(tensor.name);
  if (fresh_output) {
    for (const ParameterTensor& tensor : saved->tensors()) ignore(tensor.name);
    for (const RepeatedTensor& tensor : saved->repeated()) ignore(tensor.name);
  }
  for (const TensorInfo& tensor : files_.tensors()) {
    const bool buffer = table.is_buffer(tensor.name);
    if (used_.contains(tensor.name) || (!buffer && !table.is_unused(tensor.name))) continue;
    used_.insert(tensor.name);
    if (!buffer) unused_.push_back(&tensor);
  }
  refuse_unexpected();
}

void WeightReader::finish() const {
  files_.check_unchanged();
  refuse_unexpected();
}

void WeightReader::refuse_unexpected() const {
  if (options_.allow_unexpected) return;
  std::vector<std::string_view> unexpected;
  for (const TensorInfo& tensor : files_.tensors()) {
    if (!used_.contains(tensor.name)) unexpected.push_back(tensor.name);
  }
  if (unexpected.empty()) return;
  throw Error({.what = "the checkpoint has tensors that the architecture does not know",
               .where = std::string(unexpected.front()),
               .got = fmt::format(
                   "{} unexpected: {}", unexpected.size(),
                   fmt::join(unexpected.begin(),
                             unexpected.begin() + std::min<size_t>(5, unexpected.size()), ", ")),
               .expected = "only what config.json describes",
               .hint = "check \"architectures\" and \"model_type\", or allow unexpected tensors"});
}

ParameterTable table_of(const ModelConfig& config, const std::string& prefix,
                        const WeightReader& reader, bool fresh_output, const InitStd& init_std) {
  return {config,
          {.prefix = prefix,
           .has = [&](const std::string& name) { return reader.has(name); },
           .fresh_output = fresh_output,
           .init_std = init_std}};
}

}  // namespace headwise
