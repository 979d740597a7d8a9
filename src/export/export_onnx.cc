// From a folder to the files of its graphs, written and read again.
#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "export/onnx_file.h"
#include "export/onnx_output.h"
#include "export/onnx_stack.h"
#include "headwise/core/error.h"
#include "headwise/export/onnx.h"
#include "io/file.h"
#include "model/parameter_table.h"
#include "model/task_head.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;
using namespace onnx;

struct File {
  fs::path path{};
  Graph graph;
};

/// Builds the graphs of a model.
class GraphBuilder {
 public:
  GraphBuilder(fs::path folder, const LoadOptions& options)
      : folder_(std::move(folder)),
        config_(read_config(folder_, options.config)),
        reader_(TensorFiles::open(folder_), {.allow_nonfinite = options.allow_nonfinite,
                                             .allow_unexpected = options.allow_unexpected}),
        prefix_(find_prefix(config_, reader_)) {
    if (!TaskHead::was_saved(config_, prefix_, reader_)) config_.task = Task::hidden;
    table_ = table_of(config_, prefix_, reader_);
    reader_.expect(table_);
    for (const RepeatedTensor& tensor : table_.repeated()) reader_.copy(tensor.name, tensor.of);
  }

  std::vector<File> build(const fs::path& file) {
    std::vector<File> files;
    if (config_.encoder_decoder()) {
      files.push_back({with_ending(file, "_encoder"), one_stack(Side::encoder)});
      files.push_back({with_ending(file, "_decoder"), decoder()});
    } else {
      files.push_back(
          {file, one_stack(config_.encoder.layers() > 0 ? Side::encoder : Side::decoder)});
    }
    reader_.finish();
    for (File& each : files) each.graph.drop_unused();
    return files;
  }

 private:
  static fs::path with_ending(const fs::path& file, const char* ending) {
    fs::path path = file;
    path.replace_filename(file.stem().string() + ending + file.extension().string());
    return path;
  }

  Graph empty_graph() const {
    return Graph(config_.architecture.empty() ? config_.model_type : config_.architecture);
  }

  /// A model of one stack, or the encoder of one of two.
  Graph one_stack(Side side) {
    Graph graph = empty_graph();
    const Layers layers(config_, table_, graph, reader_);
    const std::vector<Extent> tokens = {"batch", "sequence"};
    const Value ids = graph.input("input_ids", Type::int64, tokens);
    Texts texts(graph, graph.input("attention_mask", Type::int64, tokens));
    const Value types =
        config_.token_types > 1 ? graph.input("token_type_ids", Type::int64, tokens) : "";
    StackGraph stack(layers, side, prefix_, texts, {});
    const HiddenStates hidden{stack.build(ids, types), texts, "sequence"};
    const bool has_output = !config_.encoder_decoder() && add_task_output(layers, hidden, prefix_);
    const bool has_embedding = add_sentence_output(layers, hidden, folder_);
    if (has_embedding || !has_output) add_hidden_output(layers, hidden);
    return graph;
  }

  /// The decoder of a model of two stacks. Its texts are padded behind their ends, if at all, where
  /// nothing looks: it needs no mask of its own.
  Graph decoder() {
    Graph graph = empty_graph();
    const Layers layers(config_, table_, graph, reader_);
    const std::vector<Extent> tokens = {"batch", "decoder_sequence"};
    const Value ids = graph.input("decoder_input_ids", Type::int64, tokens);
    const Value rows =
        graph.input("encoder_hidden_states", Type::float32, {"batch", "sequence", config_.width});
    Texts source(graph, graph.input("encoder_attention_mask", Type::int64, {"batch", "sequence"}));
    Texts texts(graph,
                graph.node("Expand", {graph.scalar(int64_t{1}), graph.node("Shape", {ids})}));
    StackGraph stack(layers, Side::decoder, prefix_, texts, {rows, &source});
    const HiddenStates hidden{stack.build(ids, ""), texts, "decoder_sequence"};
    if (!add_task_output(layers, hidden, prefix_)) add_hidden_output(layers, hidden);
    return graph;
  }

  fs::path folder_;
  ModelConfig config_;
  WeightReader reader_;
  std::string prefix_;
  ParameterTable table_;
};

/// All files that an export makes.
std::vector<fs::path> made_by(const File& file, int64_t largest) {
  std::vector<fs::path> paths = {file.path};
  if (has_data_file(file.graph, largest)) paths.push_back(data_file(file.path));
  return paths;
}

void refuse_existing(const std::vector<File>& files, int64_t largest) {
  for (const File& file : files) {
    for (const fs::path& path : made_by(file, largest)) {
      if (!is_there(path)) continue;
      throw Error({.what = "the file is there already",
                   .where = path.string(),
                   .expected = "a new file",
                   .hint = "name another one, or remove it"});
    }
  }
}

std::vector<std::string> names_of(const std::vector<Port>& ports) {
  std::vector<std::string> names;
  for (const Port& port : ports) names.push_back(port.name);
  return names;
}

}  // namespace

OnnxExport export_onnx(const fs::path& folder, const fs::path& file, const OnnxOptions& options) {
  const std::vector<File> files = GraphBuilder(folder, options.load).build(file);
  refuse_existing(files, options.largest_file);
  if (file.has_parent_path()) make_folder(file.parent_path());
  OnnxExport result;
  try {
    for (const File& each : files) {
      write_graph(each.graph, each.path, options.largest_file);
      check_graph(each.graph, each.path, result.proof);
      result.graphs.push_back({.file = each.path,
                               .inputs = names_of(each.graph.inputs),
                               .outputs = names_of(each.graph.outputs)});
    }
  } catch (...) {
    std::error_code ignored;
    for (const File& each : files) {
      for (const fs::path& path : made_by(each, options.largest_file)) fs::remove(path, ignored);
    }
    throw;
  }
  return result;
}

OnnxExport export_onnx(const Model& model, const fs::path& file, OnnxOptions options) {
  options.load = model.load_options();
  return export_onnx(model.folder(), file, options);
}

}  // namespace headwise
