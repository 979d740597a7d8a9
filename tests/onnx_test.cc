// Exported models as another reader of ONNX sees them: what the graphs hold, for every model and
// pruned ones. What they compute is compared in parity/onnx.py.
#include "headwise/export/onnx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "golden/folder.h"
#include "headwise/io/tensor_file.h"
#include "headwise/model/model.h"
#include "headwise/prune/prune.h"
#include "io/io_testing.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

/// The fields of a protocol buffer by number: texts and messages as bytes, numbers as they are.
struct Message {
  std::multimap<int, std::string> texts{};
  std::multimap<int, int64_t> numbers{};

  explicit Message(const std::string& bytes) {
    size_t at = 0;
    const auto varint = [&] {
      uint64_t value = 0;
      int shift = 0;
      while (at < bytes.size()) {
        const auto byte = static_cast<unsigned char>(bytes[at++]);
        value |= uint64_t{byte & 0x7fu} << shift;
        shift += 7;
        if ((byte & 0x80) == 0) break;
      }
      return value;
    };
    while (at < bytes.size()) {
      const uint64_t tag = varint();
      const int field = static_cast<int>(tag / 8);
      if (tag % 8 == 0) {
        numbers.emplace(field, static_cast<int64_t>(varint()));
        continue;
      }
      const size_t size = tag % 8 == 2 ? varint() : tag % 8 == 5 ? 4 : 8;
      EXPECT_LE(at + size, bytes.size()) << "field " << field;
      texts.emplace(field, bytes.substr(at, size));
      at += size;
    }
  }

  std::vector<std::string> all(int field) const {
    std::vector<std::string> found;
    const auto [begin, end] = texts.equal_range(field);
    for (auto it = begin; it != end; ++it) found.push_back(it->second);
    return found;
  }
  std::vector<int64_t> all_numbers(int field) const {
    std::vector<int64_t> found;
    const auto [begin, end] = numbers.equal_range(field);
    for (auto it = begin; it != end; ++it) found.push_back(it->second);
    return found;
  }
  std::string text(int field) const {
    return texts.contains(field) ? texts.find(field)->second : "";
  }
  int64_t number(int field) const {
    return numbers.contains(field) ? numbers.find(field)->second : 0;
  }
};

struct Tensor {
  std::vector<int64_t> dims{};
  int64_t type = 0;
  std::string bytes{};
  std::map<std::string, std::string> elsewhere{};

  int64_t count() const {
    int64_t count = 1;
    for (const int64_t extent : dims) count *= extent;
    return count;
  }
};

struct OnnxFile {
  Message model, graph;
  std::map<std::string, Tensor> tensors{};

  explicit OnnxFile(const fs::path& file) : model(contents_of(file)), graph(model.text(7)) {
    for (const std::string& bytes : graph.all(5)) {
      const Message message(bytes);
      Tensor tensor{message.all_numbers(1), message.number(2), message.text(9)};
      for (const std::string& entry : message.all(13)) {
        tensor.elsewhere[Message(entry).text(1)] = Message(entry).text(2);
      }
      if (!tensor.elsewhere.empty()) {
        const std::string data = contents_of(file.parent_path() / tensor.elsewhere["location"]);
        tensor.bytes = data.substr(std::stoll(tensor.elsewhere["offset"]),
                                   std::stoll(tensor.elsewhere["length"]));
      }
      EXPECT_TRUE(tensors.emplace(message.text(8), tensor).second) << message.text(8);
    }
  }

  std::vector<std::string> port_names(int field) const {
    std::vector<std::string> names;
    for (const std::string& port : graph.all(field)) names.push_back(Message(port).text(1));
    return names;
  }

  /// The extents of an input or output, named or not.
  std::vector<std::string> dims(int field, const std::string& name) const {
    for (const std::string& bytes : graph.all(field)) {
      const Message port(bytes);
      if (port.text(1) != name) continue;
      std::vector<std::string> extents;
      const Message shape(Message(Message(port.text(2)).text(1)).text(2));
      for (const std::string& dim : shape.all(1)) {
        const Message extent(dim);
        extents.push_back(extent.texts.empty() ? std::to_string(extent.number(1)) : extent.text(2));
      }
      return extents;
    }
    return {};
  }

  std::vector<std::string> ops() const {
    std::vector<std::string> ops;
    for (const std::string& node : graph.all(1)) ops.push_back(Message(node).text(4));
    return ops;
  }
};

fs::path golden_model(const std::string& name) { return golden_folder() / "models" / name; }

/// Operators of the standard domain that opset 17 has in the form in which they are used.
const std::set<std::string> kOperators = {"Add",        "And",
                                          "ArgMax",     "Cast",
                                          "Clip",       "Concat",
                                          "Cos",        "CumSum",
                                          "Div",        "Equal",
                                          "Erf",        "Expand",
                                          "Gather",     "GatherND",
                                          "Greater",    "GreaterOrEqual",
                                          "Identity",   "LayerNormalization",
                                          "Less",       "LessOrEqual",
                                          "MatMul",     "Max",
                                          "Mul",        "Not",
                                          "Pow",        "Range",
                                          "Reciprocal", "ReduceL2",
                                          "ReduceMax",  "ReduceMean",
                                          "ReduceSum",  "Relu",
                                          "Reshape",    "ScatterElements",
                                          "Shape",      "Sigmoid",
                                          "Sin",        "Softmax",
                                          "Split",      "Sqrt",
                                          "Squeeze",    "Sub",
                                          "Tanh",       "TopK",
                                          "Transpose",  "Unsqueeze",
                                          "Where"};

void expect_sound(const OnnxFile& file) {
  EXPECT_EQ(file.model.number(1), 8);
  const Message opset(file.model.text(8));
  EXPECT_EQ(opset.text(1), "");
  EXPECT_EQ(opset.number(2), 17);
  std::set<std::string> known, used;
  for (const auto& [name, tensor] : file.tensors) {
    EXPECT_TRUE(known.insert(name).second) << name;
    const std::map<int64_t, size_t> sizes = {{1, 4}, {7, 8}, {11, 8}};
    ASSERT_TRUE(sizes.contains(tensor.type)) << name;
    EXPECT_EQ(tensor.bytes.size(), tensor.count() * sizes.at(tensor.type)) << name;
    EXPECT_GT(tensor.count(), 0) << name;
  }
  for (const std::string& name : file.port_names(11))
    EXPECT_TRUE(known.insert(name).second) << name;
  for (const std::string& bytes : file.graph.all(1)) {
    const Message node(bytes);
    EXPECT_TRUE(kOperators.contains(node.text(4))) << node.text(4);
    EXPECT_EQ(node.text(7), "") << "a domain";
    for (const std::string& input : node.all(1)) {
      EXPECT_TRUE(known.contains(input)) << node.text(3) << " reads " << input;
      used.insert(input);
    }
    for (const std::string& output : node.all(2)) {
      EXPECT_TRUE(known.insert(output).second) << output;
    }
  }
  for (const std::string& name : file.port_names(12)) EXPECT_TRUE(known.contains(name)) << name;
  for (const std::string& name : file.port_names(11)) EXPECT_TRUE(used.contains(name)) << name;
  for (const auto& [name, tensor] : file.tensors) EXPECT_TRUE(used.contains(name)) << name;
}

std::vector<float> floats_of(const TensorFiles& files, const TensorInfo& tensor) {
  std::vector<float> values(tensor.size());
  files.read(tensor, values);
  return values;
}

/// The names of the folder's tensors in a graph, each of which it must have bit by bit.
std::set<std::string> expect_weights(const OnnxFile& file, const fs::path& folder) {
  const TensorFiles files = TensorFiles::open(folder);
  std::set<std::string> found;
  for (const auto& [name, tensor] : file.tensors) {
    const std::string ending = ".transposed";
    const bool transposed = name.ends_with(ending);
    const std::string stored = transposed ? name.substr(0, name.size() - ending.size()) : name;
    const TensorInfo* const info = files.find(stored);
    if (info == nullptr) continue;
    found.insert(stored);
    std::vector<float> expected = floats_of(files, *info);
    std::vector<int64_t> dims = info->shape;
    if (transposed) {
      const std::vector<float> rows = expected;
      const int64_t R = dims[0], C = dims[1];
      for (int64_t r = 0; r < R; ++r) {
        for (int64_t c = 0; c < C; ++c) expected[c * R + r] = rows[r * C + c];
      }
      std::ranges::reverse(dims);
    }
    EXPECT_EQ(tensor.dims, dims) << name;
    EXPECT_EQ(tensor.type, 1) << name;
    if (tensor.bytes.size() != expected.size() * 4) continue;  // said above
    EXPECT_EQ(std::memcmp(tensor.bytes.data(), expected.data(), tensor.bytes.size()), 0) << name;
  }
  return found;
}

/// Whether a tensor of a folder has no place in its graph: nobody reads it, another one says the
/// same, or the attention that it is for has no heads.
bool is_of_no_use(const std::string& name, const TensorInfo& tensor, const TensorFiles& files,
                  const std::set<std::string>& found) {
  if (tensor.size() == 0) return true;
  for (const char* unused :
       {"pooler.dense", "seq_relationship", "position_ids", ".attn.bias", "masked_bias", "inv_freq",
        ".attention.bias", "EncDecAttention.relative_attention_bias"}) {
    if (name.find(unused) != std::string::npos) return true;
  }
  // An output that is not tied has its bias beside it.
  if (name == "cls.predictions.bias" && found.contains("cls.predictions.decoder.bias")) return true;
  return std::ranges::any_of(found, [&](const std::string& other) {
    const TensorInfo* const same = files.find(other);
    return same->size() == tensor.size() &&
           std::ranges::equal(files.bytes(*same).span(), files.bytes(tensor).span());
  });
}

class ExportedModels : public testing::TestWithParam<std::string> {};

TEST_P(ExportedModels, AreSoundGraphsOfAllTheirWeights) {
  const TemporaryFolder temporary;
  const fs::path folder = golden_model(GetParam());
  const OnnxExport made = export_onnx(folder, temporary.path() / "m.onnx");
  const ModelConfig config = load(folder).config();
  ASSERT_EQ(made.graphs.size(), config.encoder_decoder() ? 2 : 1);
  std::set<std::string> found;
  int64_t nodes = 0;
  for (const OnnxGraph& graph : made.graphs) {
    const OnnxFile file(graph.file);
    expect_sound(file);
    found.merge(expect_weights(file, folder));
    nodes += std::ssize(file.ops());
    EXPECT_EQ(file.port_names(11), graph.inputs);
    EXPECT_EQ(file.port_names(12), graph.outputs);
  }
  EXPECT_EQ(made.proof.nodes, nodes);
  EXPECT_GE(made.proof.weights, std::ssize(found));
  const TensorFiles files = TensorFiles::open(folder);
  const bool pruned = GetParam().ends_with("_pruned");
  for (const TensorInfo& tensor : files.tensors()) {
    if (found.contains(tensor.name) || is_of_no_use(tensor.name, tensor, files, found)) continue;
    // A norm in front of an attention without heads has nothing to do.
    if (pruned && tensor.name.find("norm") != std::string::npos) continue;
    if (pruned && tensor.name.find("ln_1") != std::string::npos) continue;
    ADD_FAILURE() << tensor.name << " is not in the graph";
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, ExportedModels, testing::ValuesIn(golden_model_names()),
                         [](const auto& name) { return name.param; });

OnnxFile exported(const std::string& model, const TemporaryFolder& temporary,
                  const std::string& ending = "") {
  export_onnx(golden_model(model), temporary.path() / (model + ".onnx"));
  return OnnxFile(temporary.path() / (model + ending + ".onnx"));
}

TEST(ExportOnnx, NamesInputsAndOutputsAsTransformersDoes) {
  const TemporaryFolder temporary;
  const OnnxFile bert = exported("bert", temporary);
  EXPECT_THAT(bert.port_names(11), ElementsAre("input_ids", "attention_mask", "token_type_ids"));
  EXPECT_THAT(bert.port_names(12), ElementsAre("logits"));
  EXPECT_THAT(bert.dims(11, "attention_mask"), ElementsAre("batch", "sequence"));
  const int64_t V = read_config(golden_model("bert")).vocabulary;
  EXPECT_THAT(bert.dims(12, "logits"), ElementsAre("batch", "sequence", std::to_string(V)));

  EXPECT_THAT(exported("roberta_plain", temporary).port_names(11),
              ElementsAre("input_ids", "attention_mask"));
  const OnnxFile plain = exported("bert_plain", temporary);
  EXPECT_THAT(plain.port_names(12), ElementsAre("last_hidden_state"));
  const OnnxFile labels = exported("gpt2_sequence", temporary);
  const size_t L = read_config(golden_model("gpt2_sequence")).labels.size();
  EXPECT_THAT(labels.dims(12, "logits"), ElementsAre("batch", std::to_string(L)));
  EXPECT_THAT(exported("bert_question", temporary).port_names(12),
              ElementsAre("start_logits", "end_logits"));
  EXPECT_THAT(exported("electra_discriminator", temporary).dims(12, "logits"),
              ElementsAre("batch", "sequence"));
  EXPECT_THAT(exported("sentence_dense", temporary).port_names(12),
              ElementsAre("sentence_embedding", "last_hidden_state"));
}

TEST(ExportOnnx, WritesEncoderAndDecoderApart) {
  const TemporaryFolder temporary;
  const OnnxFile encoder = exported("marian", temporary, "_encoder");
  EXPECT_THAT(temporary.names(), ElementsAre("marian_decoder.onnx", "marian_encoder.onnx"));
  EXPECT_THAT(encoder.port_names(11), ElementsAre("input_ids", "attention_mask"));
  EXPECT_THAT(encoder.port_names(12), ElementsAre("last_hidden_state"));
  const OnnxFile decoder(temporary.path() / "marian_decoder.onnx");
  EXPECT_THAT(decoder.port_names(11),
              ElementsAre("decoder_input_ids", "encoder_hidden_states", "encoder_attention_mask"));
  EXPECT_THAT(decoder.port_names(12), ElementsAre("logits"));
}

/// One Softmax per attention with learned heads, and matrices as wide as what is left.
TEST(ExportOnnx, AttentionsHaveTheHeadsThatAreLeft) {
  const TemporaryFolder temporary;
  const fs::path pruned = temporary.path() / "pruned";
  const Model whole = load(golden_model("bert"));
  prune(whole, std::vector<std::string>{"L0.H1", "L1"}, {.out = pruned});
  const Model left = load(pruned);
  const AttentionSite& site = left.attentions()[0];
  export_onnx(pruned, temporary.path() / "pruned.onnx");
  const OnnxFile file(temporary.path() / "pruned.onnx");
  expect_sound(file);
  EXPECT_EQ(std::ranges::count(file.ops(), "Softmax"), std::ssize(left.attentions()) - 1);
  const std::string layer = "bert.encoder.layer.0.attention.";
  const int64_t C = left.config().width, heads = std::ssize(site.heads);
  EXPECT_EQ(heads + 1, std::ssize(whole.attentions()[0].heads));
  EXPECT_THAT(file.tensors.at(layer + "self.query.weight.transposed").dims,
              ElementsAre(C, heads * site.head_dim));
  EXPECT_THAT(file.tensors.at(layer + "output.dense.weight.transposed").dims,
              ElementsAre(heads * site.value_dim, C));
  // Of the layer without heads only the output bias is left.
  EXPECT_FALSE(
      file.tensors.contains("bert.encoder.layer.1.attention.self.value.weight.transposed"));
  EXPECT_TRUE(file.tensors.contains("bert.encoder.layer.1.attention.output.dense.bias"));
}

TEST(ExportOnnx, HoldsHalfPrecisionAsFloat32AndTiedWeightsOnce) {
  const TemporaryFolder temporary;
  const OnnxFile file = exported("bert_half", temporary);
  int64_t vocabulary_wide = 0;
  const int64_t V = read_config(golden_model("bert_half")).vocabulary;
  for (const auto& [name, tensor] : file.tensors) {
    if (tensor.dims.size() == 2) vocabulary_wide += std::ranges::count(tensor.dims, V);
  }
  EXPECT_EQ(vocabulary_wide, 1);
}

TEST(ExportOnnx, PutsWeightsOfLargeModelsIntoAFileOfTheirOwn) {
  const TemporaryFolder temporary;
  const fs::path folder = golden_model("llama"), path = temporary.path() / "m.onnx";
  const OnnxExport made = export_onnx(folder, path, {.largest_file = 5000});
  EXPECT_THAT(temporary.names(), ElementsAre("m.onnx", "m.onnx.data"));
  const OnnxFile file(path);
  expect_sound(file);
  EXPECT_EQ(std::ssize(expect_weights(file, folder)), made.proof.weights);
  int64_t apart = 0;
  for (const auto& [name, tensor] : file.tensors) {
    if (tensor.elsewhere.empty()) continue;
    ++apart;
    EXPECT_EQ(tensor.elsewhere.at("location"), "m.onnx.data");
    EXPECT_EQ(std::stoll(tensor.elsewhere.at("offset")) % 4096, 0) << name;
  }
  EXPECT_GT(apart, 10);
  EXPECT_EQ(error_of([&] { export_onnx(folder, path, {.largest_file = 5000}); }).what,
            "the file is there already");
}

TEST(ExportOnnx, RefusesWhatIsThereAndLeavesNothingBehind) {
  const TemporaryFolder temporary;
  temporary.write("m.onnx", "mine");
  const ErrorDetail there =
      error_of([&] { export_onnx(golden_model("bert"), temporary.path() / "m.onnx"); });
  EXPECT_EQ(there.what, "the file is there already");
  EXPECT_THAT(there.where, HasSubstr("m.onnx"));
  EXPECT_EQ(contents_of(temporary.path() / "m.onnx"), "mine");
  // The second of two files.
  temporary.write("m_decoder.onnx", "mine");
  EXPECT_THAT(error_of([&] { export_onnx(golden_model("t5"), temporary.path() / "m.onnx"); }).where,
              HasSubstr("m_decoder.onnx"));
  EXPECT_THAT(temporary.names(), ElementsAre("m.onnx", "m_decoder.onnx"));
  EXPECT_EQ(error_of([&] {
              export_onnx(golden_model("bert"), temporary.path() / "m.onnx" / "m.onnx");
            }).what,
            "the folder cannot be made");
  EXPECT_THAT(temporary.names(), ElementsAre("m.onnx", "m_decoder.onnx"));
}

}  // namespace
}  // namespace headwise
