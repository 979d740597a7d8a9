// headwise export: a model as ONNX, for other runtimes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "command.h"
#include "headwise/export/onnx.h"
#include "headwise/io/model_folder.h"
#include "json_writer.h"
#include "options.h"

namespace headwise::program {
namespace {

struct ExportOptions {
  std::string model{}, onnx{};
  bool external_data = false;
  bool allow_nonfinite = false;
};

void write_graph(JsonWriter& json, const OnnxGraph& graph) {
  json.field("file", graph.file.string());
  json.field("inputs", graph.inputs);
  json.field("outputs", graph.outputs);
}

std::string as_json(const OnnxExport& made) {
  JsonWriter json;
  json.begin_object();
  write_graph(json, made.graphs.front());
  json.key("graphs");
  json.begin_array();
  for (const OnnxGraph& graph : made.graphs) {
    json.begin_object();
    write_graph(json, graph);
    json.end_object();
  }
  json.end_array();
  json.key("proof");
  json.begin_object();
  json.field("nodes", made.proof.nodes);
  json.field("weights", made.proof.weights);
  json.field("numbers", made.proof.numbers);
  json.end_object();
  json.end_object();
  return json.take();
}

std::string export_text(const OnnxExport& made) {
  std::string text;
  for (const OnnxGraph& graph : made.graphs) {
    text += fmt::format("{}\n  from  {}\n  to    {}\n", graph.file.string(),
                        fmt::join(graph.inputs, ", "), fmt::join(graph.outputs, ", "));
  }
  return text + fmt::format(
                    "\nread again: {} nodes, each after what it reads; {} tensors ({} numbers), "
                    "all of them those of the folder\n",
                    grouped(made.proof.nodes), grouped(made.proof.weights),
                    grouped(made.proof.numbers));
}

void export_model(const ExportOptions& options, const CommonOptions& common) {
  OnnxOptions params{.load = {.allow_nonfinite = options.allow_nonfinite}};
  if (options.external_data) params.largest_file = 0;
  const OnnxExport made = export_onnx(find_model(options.model), options.onnx, params);
  write_output(common, common.json ? as_json(made) : export_text(made));
}

}  // namespace

void add_export(CLI::App& app, CommonOptions& common) {
  const auto options = std::make_shared<ExportOptions>();
  CLI::App& command = add_command(
      app, "export", "A model, pruned or not, as ONNX",
      "Batches of any size and length, padded with a mask. Encoder-decoders become two files:\n"
      "model_encoder.onnx and model_decoder.onnx. See docs/export.md.\n\n"
      "Example:\n"
      "  headwise export ./minilm-pruned --onnx minilm.onnx",
      common, [options, &common] { export_model(*options, common); });
  add_model(command, "MODEL", options->model);
  command.add_option("--onnx", options->onnx, "The file to write, which is not there yet")
      ->required()
      ->type_name("FILE");
  command.add_flag("--external-data", options->external_data,
                   "Weights in FILE.data, as is done by itself from 2 GiB on");
  add_allow_nonfinite(command, options->allow_nonfinite);
}

}  // namespace headwise::program
