// headwise export: a model as ONNX, for other runtimes.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "command.h"
#include "headwise/export/onnx.h"
#include "headwise/io/json_text.h"
#include "headwise/io/model_folder.h"
#include "options.h"

namespace headwise::program {
namespace {

struct ExportOptions {
  std::string model{}, onnx{};
  bool external_data = false;
  bool allow_nonfinite = false;
};

Json as_json(const OnnxGraph& graph) {
  return {{"file", graph.file.string()}, {"inputs", graph.inputs}, {"outputs", graph.outputs}};
}

Json as_json(const OnnxExport& made) {
  Json json = as_json(made.graphs.front());
  json["graphs"] = Json::array();
  for (const OnnxGraph& graph : made.graphs) json["graphs"].push_back(as_json(graph));
  json["proof"] = {{"nodes", made.proof.nodes},
                   {"weights", made.proof.weights},
                   {"numbers", made.proof.numbers}};
  return json;
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
  write_output(common, common.json ? json_text(as_json(made)) : export_text(made));
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
  Options declare(command);
  declare.model("MODEL", options->model);
  declare.add("--onnx", options->onnx, "FILE", "The file to write, which is not there yet")
      ->required();
  declare.flag("--external-data", options->external_data,
               "Weights in FILE.data, as is done by itself from 2 GiB on");
  declare.allow_nonfinite(options->allow_nonfinite);
}

}  // namespace headwise::program
