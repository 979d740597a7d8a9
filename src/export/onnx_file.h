// A graph as a file of ONNX, and the file read back.
#pragma once

#include <cstdint>
#include <filesystem>

#include "export/onnx_graph.h"
#include "headwise/export/onnx.h"
#include "model/weight_reader.h"

namespace headwise::onnx {

/// The numbers of a weight, in the order in which the file has them.
Buffer weight_values(const Initializer& weight);

/// The file that has the weights of a model too large for one file.
std::filesystem::path data_file(const std::filesystem::path& file);

/// Whether a graph needs such a file: above `most` bytes, of which protocol buffers allow 2 GiB.
bool has_data_file(const Graph& graph, int64_t most);

/// Writes the file, and before it its data file, whole or not at all.
void write_graph(const Graph& graph, const std::filesystem::path& file, int64_t most);

/// Reads the file, and throws Error unless it says what the graph says: every input of a node is
/// there before it, every name is given once, all values have the size of their shape, and weights
/// are those of the checkpoint, bit by bit. What was seen is added to the proof.
void check_graph(const Graph& graph, const std::filesystem::path& file, OnnxProof& proof);

}  // namespace headwise::onnx
