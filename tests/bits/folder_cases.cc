// Folders and files that are written for golden models.
#include <fmt/format.h>

#include "bits/bits.h"
#include "export/protobuf.h"
#include "headwise/export/onnx.h"
#include "headwise/prune/recover.h"
#include "io/io_testing.h"
#include "prune_testing.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

/// One head of each group of each attention, another one in each.
std::vector<std::string> one_per_group(const Model& model) {
  std::vector<std::string> drop;
  for (const AttentionSite& site : model.attentions()) {
    const int64_t groups = std::max<int64_t>(site.kv_heads, 1);
    const int64_t group = std::ssize(site.heads) / groups;
    for (int64_t kv = 0; kv < groups && group > 0; ++kv) {
      drop.push_back(site.head_name(kv * group + (site.layer + kv) % group));
    }
  }
  return drop;
}

std::string pruned(const std::string& name, const std::vector<std::string>& drop,
                   const PruneOptions& options) {
  const TemporaryFolder temporary;
  prune_to(golden_model(name), drop, temporary.path() / "out", options);
  BitHash hash;
  hash.add_tensors(temporary.path() / "out");
  return hash.finish();
}

std::string compensated(const std::string& name, Compensation options) {
  const Model model = load(golden_model(name));
  const Texts texts(model.config());
  return pruned(name, {model.attentions()[0].head_name(0)},
                {.compensate = options, .source = texts.source, .target = texts.target});
}

/// A few steps of the pruned model towards what the whole one says.
std::string recovered(const std::string& name) {
  const Model model = load(golden_model(name));
  const Texts texts(model.config());
  const std::vector<std::string> drop = {model.attentions()[0].head_name(0)};
  const Model recovered = recover(prune(model, drop), model, unlabelled(texts.source, texts.target),
                                  {.epochs = 4, .optimizer = {.rate = 1e-3}});
  BitHash hash;
  hash.add_tensors(recovered.folder());
  return hash.finish();
}

/// The graphs, without what the files say about where they come from.
std::string exported(const std::string& name) {
  constexpr int kGraph = 7;  // the field of ModelProto
  const TemporaryFolder temporary;
  BitHash hash;
  for (const OnnxGraph& graph :
       export_onnx(golden_model(name), temporary.path() / "model.onnx").graphs) {
    const std::string file = contents_of(graph.file);
    protobuf::Fields fields(std::as_bytes(std::span(file)));
    while (const auto field = fields.next()) {
      if (field->number == kGraph) hash.add(field->text());
    }
  }
  return hash.finish();
}

}  // namespace

std::vector<BitCase> file_cases() {
  std::vector<BitCase> cases;
  for (const std::string& name : golden_model_names()) {
    const auto prune_all = [name](PruneForm form) {
      return pruned(name, one_per_group(load(golden_model(name))), {.form = form});
    };
    cases.push_back({"compact." + name, [=] { return prune_all(PruneForm::compact); }});
    cases.push_back({"masked." + name, [=] { return prune_all(PruneForm::masked); }});
    cases.push_back({"onnx." + name, [=] { return exported(name); }});
  }
  for (const std::string name : {"llama", "mistral", "qwen2", "qwen3", "smollm3"}) {
    cases.push_back({"uniform." + name, [=] {
                       return pruned(name, one_per_group(load(golden_model(name))),
                                     {.form = PruneForm::uniform});
                     }});
  }
  cases.push_back({"uniform.t5", [] {
                     return pruned("t5",
                                   {"enc.L0.H1", "enc.L1.H1", "dec.L0.H2", "dec.L1.H2",
                                    "cross.L0.H0", "cross.L1.H3"},
                                   {.form = PruneForm::uniform});
                   }});
  return cases;
}

std::vector<BitCase> fitted_cases() {
  std::vector<BitCase> cases;
  for (const std::string name : {"bert", "gpt2", "gpt_neox", "marian"}) {
    cases.push_back({"mean." + name, [=] { return compensated(name, Compensation::mean); }});
  }
  for (const std::string name : {"bert", "gpt2", "llama", "marian"}) {
    cases.push_back(
        {"least_squares." + name, [=] { return compensated(name, Compensation::least_squares); }});
    cases.push_back({"recovered." + name, [=] { return recovered(name); }});
  }
  return cases;
}

}  // namespace headwise
