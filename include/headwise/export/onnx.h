// A model as ONNX, for other runtimes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "headwise/model/model.h"

namespace headwise {

struct OnnxOptions {
  LoadOptions load{};
  /// A larger file is split: its weights go to FILE.data. Protocol buffers end at 2 GiB.
  int64_t largest_file = (int64_t{1} << 31) - 1;
};

struct OnnxGraph {
  std::filesystem::path file{};
  std::vector<std::string> inputs{}, outputs{};
};

/// What was found in the files when they were read again.
struct OnnxProof {
  int64_t nodes = 0;    // each after what it reads
  int64_t weights = 0;  // tensors that are those of the folder, bit by bit (as float32)
  int64_t numbers = 0;  // in them
};

struct OnnxExport {
  std::vector<OnnxGraph> graphs{};
  OnnxProof proof{};
};

/// Writes the model of a folder to `file`, whose folder is made if it is missing. Encoder-decoders
/// are two graphs: model.onnx becomes model_encoder.onnx and model_decoder.onnx. Throws Error, and
/// leaves no file, if one of them is there already or what was written is not the model.
OnnxExport export_onnx(const std::filesystem::path& folder, const std::filesystem::path& file,
                       const OnnxOptions& options = {});

/// The same of the folder of a model, read as the model was.
OnnxExport export_onnx(const Model& model, const std::filesystem::path& file,
                       OnnxOptions options = {});

}  // namespace headwise
