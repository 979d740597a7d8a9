// Counts what a folder holds from shapes alone.
#include "headwise/model/summary.h"

#include <algorithm>
#include <map>

#include "headwise/core/shape.h"
#include "headwise/io/tensor_file.h"
#include "model/parameter_table.h"
#include "model/stack_layout.h"

namespace headwise {
namespace {

const char* name_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF16:
      return "float16";
    case Dtype::kBF16:
      return "bfloat16";
    case Dtype::kF64:
      return "float64";
    default:
      return "float32";
  }
}

AttentionSummary summarize(const ModelConfig& config, const AttentionSite& site) {
  const StackConfig& stack = site.side == Side::encoder ? config.encoder : config.decoder;
  const bool cross = site.kind == AttentionKind::cross;
  const AttentionConfig& attention = (cross ? stack.cross : stack.attention)[site.layer];
  AttentionSummary result{.site = site};
  result.shape = layer_config(config, attention, cross);
  result.routing = attention.routing;
  result.parameters = count_attention(result.shape, 0, 0).parameters;
  if (result.routing) result.parameters += std::ssize(result.routing->heads) * config.width;
  const bool bias = config.projection_bias;
  const auto inputs = [&](bool biased) { return config.width + (bias && biased ? 1 : 0); };
  const int64_t own = site.head_dim * inputs(true) + site.value_dim * config.width;
  const int64_t shared =
      site.head_dim * inputs(config.key_bias) + site.value_dim * inputs(config.value_bias);
  const bool grouped = attention.group > 1;
  result.head_parameters = grouped ? own : own + shared;
  result.kv_head_parameters = grouped ? shared : 0;
  return result;
}

}  // namespace

ModelSummary summarize(const std::filesystem::path& folder) {
  ModelSummary summary{.config = read_config(folder)};
  for (const AttentionSite& site : attention_sites(summary.config)) {
    summary.attentions.push_back(summarize(summary.config, site));
    summary.attention_parameters += summary.attentions.back().parameters;
  }
  const TensorFiles files = TensorFiles::open(folder);
  const WeightReader reader(files, {});
  const ParameterTable table =
      table_of(summary.config, find_prefix(summary.config, reader), reader);
  const auto repeats = [&](const std::string& name) {
    return std::ranges::find(table.repeated(), name, &RepeatedTensor::name) !=
           table.repeated().end();
  };
  std::map<Dtype, int64_t> of_dtype;
  for (const TensorInfo& tensor : files.tensors()) {
    if (!is_float(tensor.dtype) || table.is_buffer(tensor.name) || repeats(tensor.name)) {
      continue;
    }
    summary.parameters = checked_add(summary.parameters, tensor.size());
    of_dtype[tensor.dtype] += tensor.size();
  }
  const auto most = std::ranges::max_element(
      of_dtype, {}, [](const auto& dtype_and_count) { return dtype_and_count.second; });
  if (most != of_dtype.end()) summary.dtype = name_of(most->first);
  for (const std::filesystem::path& file : files.files()) {
    summary.bytes += static_cast<int64_t>(std::filesystem::file_size(file));
  }
  return summary;
}

}  // namespace headwise
