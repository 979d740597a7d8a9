// Writes what is left of every tensor, and copies everything else.
#include "prune/pruned_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/io/json_text.h"
#include "headwise/io/tensor_file.h"
#include "io/file.h"
#include "io/from_float.h"
#include "model/compact_config.h"
#include "model/modeling_headwise.h"
#include "model/parameter_table.h"
#include "model/stack_layout.h"
#include "prune/card_metadata.h"
#include "prune/uniform_config.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndex = "model.safetensors.index.json";

[[noreturn]] void fail(const char* what, const fs::path& where, const std::error_code& error) {
  throw Error({.what = what, .where = where.string(), .got = error.message()});
}

/// Whether a file of the folder says what the pruned model says anew, its config, and its weights
/// in whatever format; or what is true only of the other model: how it was trained.
bool is_replaced(const fs::path& relative) {
  const std::string name = relative.begin()->string();
  const bool inside = std::next(relative.begin()) != relative.end();
  if (inside)
    return name == "onnx" || name == "openvino" || name == "coreml" || name == "original" ||
           name == "checkpoint" || name == ".git" || name == ".cache";
  if (name == "settings.json" || name == "summary.json" || name == "log.jsonl" ||
      name == "measures.json" || name == "manifest.json") {
    return true;
  }
  const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
  return name == "config.json" || name == kModelingFile || ends(".safetensors") ||
         ends(".safetensors.index.json") || ends(".bin.index.json") ||
         (name.starts_with("pytorch_model") && ends(".bin")) || ends(".h5") || ends(".msgpack") ||
         ends(".ot") || ends(".onnx") || ends(".gguf") || ends(".tflite") || ends(".pth");
}

/// What the card of the model is called in a pruned folder: the card of an original is kept aside,
/// one that an earlier pruning wrote is replaced.
fs::path card_in_pruned(const fs::path& from) {
  const bool ours = read_file(from / kModelCard, kLargestCard).find(kCardMark) != std::string::npos;
  return ours || is_there(from / kOriginalCard) ? kModelCard : kOriginalCard;
}

void copy_others(const fs::path& from, const fs::path& to) {
  std::error_code error;
  for (fs::recursive_directory_iterator at(from, error), end; !error && at != end;
       at.increment(error)) {
    const fs::path relative = at->path().lexically_relative(from);
    if (is_replaced(relative) || !at->is_regular_file()) continue;
    copy_file_whole(at->path(), to / (relative == kModelCard ? card_in_pruned(from) : relative));
  }
  if (error) fail("the folder of the model cannot be read", from, error);
}

/// The tensors of a pruned model, those that change in memory, the others read when they are
/// written.
class PrunedTensors {
 public:
  PrunedTensors(const Pruning& pruning, TensorFiles files)
      : pruning_(pruning), files_(std::move(files)) {
    const WeightReader reader(files_, {});
    prefix_ = find_prefix(pruning.model.config(), reader);
    before_ = ParameterTable(pruning.model.config(), {.prefix = prefix_});
  }

  /// `after` is the compact config, or null for tensors of the same shapes. `uniform`: also tables
  /// of biases are without the dropped heads.
  void write(const fs::path& to, const ModelConfig* after, bool uniform) {
    const ParameterTable left =
        after == nullptr ? before_ : ParameterTable(*after, {.prefix = prefix_});
    std::map<int32_t, std::vector<TensorToWrite>> by_file;
    std::vector<CutTensor> contents;
    contents.reserve(files_.tensors().size());
    int64_t total = 0;
    nlohmann::ordered_json where = nlohmann::ordered_json::object();
    for (const TensorInfo& tensor : files_.tensors()) {
      TensorToWrite out = files_.copy_of(tensor);
      if (std::optional<CutTensor> changed = change(tensor, left, after, uniform)) {
        contents.push_back(std::move(*changed));
        out.shape = contents.back().shape;
        out.bytes = contents.back().bytes;
        out.load = nullptr;
      }
      total += out.load == nullptr ? std::ssize(out.bytes) : tensor.byte_count();
      where[tensor.name] = files_.files()[tensor.file].filename().string();
      by_file[tensor.file].push_back(std::move(out));
    }
    for (const auto& [file, tensors] : by_file) {
      write_tensors(to / files_.files()[file].filename(), tensors, files_.metadata());
    }
    if (files_.files().size() < 2 && !is_there(pruning_.model.folder() / kIndex)) return;
    const nlohmann::ordered_json index = {{"metadata", {{"total_size", total}}},
                                          {"weight_map", where}};
    write_file_whole(to / kIndex, json_text(index, 2));
  }

 private:
  std::optional<CutTensor> change(const TensorInfo& tensor, const ParameterTable& left,
                                  const ModelConfig* after, bool uniform) const {
    const ParameterTensor* const before = before_.find(tensor.name);
    if (before == nullptr) return std::nullopt;
    if (before->output_bias_of) {
      if (pruning_.corrections.empty()) return std::nullopt;
      const Correction& correction = pruning_.corrections[*before->output_bias_of];
      if (correction.bias.empty()) return std::nullopt;
      return CutTensor{.shape = tensor.shape, .bytes = stored(correction.bias, tensor.dtype)};
    }
    if (!before->heads) return std::nullopt;
    const HeadTensor& from = *before->heads;
    HeadTensor to = *left.find(tensor.name)->heads;
    if (uniform && !to.rows.empty() && to.rows.front().part == HeadPart::bias) {
      const std::vector<int32_t> kept = attention_sites(*after)[to.site].heads;
      std::erase_if(to.rows, [&](const HeadRows& rows) {
        return std::ranges::find(kept, rows.name) == kept.end();
      });
    }
    std::optional<CutTensor> silent = silenced(tensor, from);
    if (to.rows == from.rows) return silent;
    if (silent) {
      return cut(from, to, tensor.shape, silent->bytes, byte_size(tensor.dtype));
    }
    return cut(from, to, tensor.shape, files_.bytes(tensor).span(), byte_size(tensor.dtype));
  }

  /// An output projection in which dropped heads are 0, and others corrected; or nothing, of a
  /// tensor that stays as it is.
  std::optional<CutTensor> silenced(const TensorInfo& tensor, const HeadTensor& heads) const {
    const AttentionSite& site = pruning_.model.attentions()[heads.site];
    const std::span gates = std::span(pruning_.gates).subspan(site.first, site.heads.size());
    const bool output = !heads.rows.empty() && heads.rows.front().part == HeadPart::output;
    if (!output || std::ranges::find(gates, 0.f) == gates.end()) return std::nullopt;
    CutTensor result{.shape = tensor.shape,
                     .bytes = std::vector<std::byte>(static_cast<size_t>(tensor.byte_count()))};
    if (pruning_.corrections.empty() || pruning_.corrections[heads.site].output.empty()) {
      files_.read_bytes(tensor, 0, result.bytes);
    } else {
      result.bytes =
          stored(in_order(pruning_.corrections[heads.site].output, tensor.shape, heads.axis == 0),
                 tensor.dtype);
    }
    const size_t element = byte_size(tensor.dtype);
    for_each_piece(heads, tensor.shape, [&](const HeadRows& rows, int64_t first, int64_t count) {
      const auto head = std::ranges::find(site.heads, rows.name) - site.heads.begin();
      if (gates[head] != 0) return;
      std::memset(result.bytes.data() + first * element, 0, count * element);
    });
    return result;
  }

  /// [C, H Dv] in the order of a tensor of this shape.
  static std::vector<float> in_order(const std::vector<float>& output,
                                     const std::vector<int64_t>& shape, bool transposed) {
    if (!transposed) return output;
    std::vector<float> column;
    for (int64_t i = 0; i < shape[0]; ++i) {
      for (int64_t c = 0; c < shape[1]; ++c) column.push_back(output[c * shape[0] + i]);
    }
    return column;
  }

  static std::vector<std::byte> stored(const std::vector<float>& numbers, Dtype dtype) {
    std::vector<std::byte> bytes(numbers.size() * byte_size(dtype));
    from_float(dtype, numbers, bytes);
    return bytes;
  }

  const Pruning& pruning_;
  TensorFiles files_;
  std::string prefix_;
  ParameterTable before_;
};

}  // namespace

PrunedConfig pruned_config(const Pruning& pruning, PruneForm form) {
  const fs::path file = pruning.model.folder() / "config.json";
  PrunedConfig config{.text = read_file(file, kLargestConfig)};
  if (form != PruneForm::masked) {
    config.text = compact_config(config.text, pruning.model.config(), pruning.model.attentions(),
                                 pruning.gates);
    config.compact = parse_config(config.text, file.string(), pruning.model.load_options().config);
  }
  if (form == PruneForm::uniform) config.text = uniform_config(config.text, *config.compact);
  return config;
}

void write_pruned(const Pruning& pruning, PruneForm form, const fs::path& to) {
  const auto [text, compact] = pruned_config(pruning, form);
  copy_others(pruning.model.folder(), to);
  PrunedTensors(pruning, TensorFiles::open(pruning.model.folder()))
      .write(to, compact ? &*compact : nullptr, form == PruneForm::uniform);
  write_config(text, to);
}

}  // namespace headwise
