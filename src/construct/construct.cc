// Writes the folder of a constructed model, and compares it with its program.
#include "headwise/construct/construct.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "construct/circuit.h"
#include "construct/circuit_weights.h"
#include "construct/program_values.h"
#include "headwise/core/error.h"
#include "headwise/core/random.h"
#include "headwise/io/json.h"
#include "headwise/io/tensor_file.h"
#include "io/file.h"
#include "io/folder_aside.h"

namespace headwise {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kBosToken = "[BOS]";
constexpr const char* kUnknownToken = "[UNK]";  // of words that are not in the alphabet

struct Compiled {
  explicit Compiled(const Program& program, const ConstructOptions& options)
      : graph(program.graph()),
        values(graph),
        circuit(make_circuit(graph, values, options.max_heads)),
        shape(shape_of(graph, values, circuit)) {}

  std::vector<std::string> labels() const {
    std::vector<std::string> all = {kBosToken};
    for (const ProgramValue& value : values.of(graph.output)) {
      all.push_back(to_string(value));
      if (std::ranges::count(all, all.back()) == 1) continue;
      throw Error({.what = "program: two answers look the same",
                   .where = graph.definition(graph.output),
                   .got = to_source(value)});
    }
    return all;
  }

  const ProgramGraph& graph;
  PossibleValues values;
  Circuit circuit;
  CircuitShape shape;
};

void add_definition(std::vector<std::string>& to, std::string text) {
  if (std::ranges::find(to, text) == to.end()) to.push_back(std::move(text));
}

Construction describe(const Compiled& compiled) {
  const Circuit& circuit = compiled.circuit;
  Construction result{.width = circuit.width,
                      .intermediate = compiled.shape.intermediate,
                      .labels = compiled.labels()};
  for (const CircuitLayer& layer : circuit.layers) {
    ConstructedLayer& to = result.layers.emplace_back();
    for (const HeadPart& head : layer.heads) {
      to.heads.push_back(compiled.graph.definition(head.node));
    }
    for (const FeedPart& part : layer.feed_forward) {
      add_definition(to.feed_forward, compiled.graph.definition(part.node));
    }
  }
  for (const NamedTensor& tensor : weights_of(compiled.graph, compiled.values, circuit)) {
    result.parameters += std::ssize(tensor.values);
  }
  return result;
}

Json config_json(const Compiled& compiled, const Construction& made) {
  const auto layers = std::ssize(made.layers);
  Json config = {{"model_type", "headwise_normless"},
                 {"architectures", {"NormlessForTokenClassification"}},
                 {"hidden_size", made.width},
                 {"vocab_size", compiled.graph.alphabet.size() + 2},
                 {"num_hidden_layers", layers},
                 {"num_attention_heads", 1},
                 {"head_dim", 1},
                 {"attention_scale", 1.0},
                 {"intermediate_size", made.intermediate},
                 {"hidden_act", "relu"},
                 {"max_position_embeddings", 1 + compiled.graph.length},
                 {"bos_token_id", 0},
                 {"tie_word_embeddings", false},
                 {"dtype", "float32"}};
  for (int64_t layer = 0; layer < layers; ++layer) {
    const auto heads = std::ssize(made.layers[layer].heads);
    config["headwise"]["attention"][fmt::format("L{}", layer)] = {
        {"heads", std::max<int64_t>(1, heads)},
        {"head_dim", compiled.shape.head_dim[layer]},
        {"value_dim", compiled.shape.value_dim[layer]}};
    if (heads == 0) config["pruned_heads"][std::to_string(layer)] = {0};
  }
  for (size_t i = 0; i < made.labels.size(); ++i) {
    config["id2label"][std::to_string(i)] = made.labels[i];
    config["label2id"][made.labels[i]] = i;
  }
  return config;
}

/// Tokens of one letter may stand without spaces between them.
Json tokenizer_json(const std::vector<std::string>& alphabet) {
  const bool letters = std::ranges::all_of(alphabet, [](const std::string& token) {
    return std::ranges::count_if(
               token, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }) == 1;
  });
  Json vocabulary = {{kBosToken, 0}};
  for (size_t i = 0; i < alphabet.size(); ++i) vocabulary[alphabet[i]] = 1 + i;
  vocabulary[kUnknownToken] = 1 + alphabet.size();
  Json model = {
      {"type", letters ? "BPE" : "WordLevel"}, {"vocab", vocabulary}, {"unk_token", kUnknownToken}};
  if (letters) {
    model.update({{"dropout", nullptr},
                  {"continuing_subword_prefix", nullptr},
                  {"end_of_word_suffix", nullptr},
                  {"fuse_unk", false},
                  {"byte_fallback", false},
                  {"merges", Json::array()}});
  }
  const Json bos = {{"SpecialToken", {{"id", kBosToken}, {"type_id", 0}}}};
  const auto special = [](size_t id, const char* token) {
    return Json{{"id", id},        {"content", token},    {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", true}};
  };
  const auto text = [](const char* id) { return Json{{"Sequence", {{"id", id}, {"type_id", 0}}}}; };
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", {special(0, kBosToken), special(1 + alphabet.size(), kUnknownToken)}},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", {bos, text("A")}},
            {"pair", {bos, text("A"), text("B")}},
            {"special_tokens",
             {{kBosToken, {{"id", kBosToken}, {"ids", {0}}, {"tokens", {kBosToken}}}}}}}},
          {"decoder", nullptr},
          {"model", model}};
}

Json program_json(const Program& program, const Compiled& compiled, const Construction& made) {
  constexpr const char* kForms[] = {"one-hot", "number", "1 / (1 + width)"};
  Json heads = Json::object(), feed_forward = Json::object(), columns = Json::array();
  for (size_t layer = 0; layer < made.layers.size(); ++layer) {
    const ConstructedLayer& of = made.layers[layer];
    for (size_t h = 0; h < of.heads.size(); ++h) {
      heads[fmt::format("L{}.H{}", layer, h)] = of.heads[h];
    }
    feed_forward[fmt::format("L{}", layer)] = of.feed_forward;
  }
  for (const Variable& variable : compiled.circuit.variables) {
    columns.push_back({{"sequence", compiled.graph.definition(variable.node)},
                       {"form", kForms[static_cast<int>(variable.form)]},
                       {"first", variable.column},
                       {"columns", variable.columns}});
  }
  return {{"name", program.name()},
          {"program", program.source()},
          {"alphabet", program.alphabet()},
          {"length", program.length()},
          {"heads", heads},
          {"feed_forward", feed_forward},
          {"residual_stream", columns}};
}

void write_json(const std::filesystem::path& file, const Json& json) {
  write_file_whole(file, json.dump(2) + "\n");
}

void write_weights(const std::filesystem::path& folder, std::span<const NamedTensor> tensors) {
  std::vector<TensorToWrite> all;
  for (const NamedTensor& tensor : tensors) {
    all.push_back({.name = tensor.name,
                   .dtype = Dtype::kF32,
                   .shape = tensor.shape,
                   .bytes = std::as_bytes(std::span(tensor.values))});
  }
  write_tensors(folder / "model.safetensors", all, {{"format", "pt"}});
}

/// How many texts there are of 1 to `length` tokens; `most` + 1 if more than that.
int64_t count_texts(int64_t alphabet, int64_t length, int64_t most) {
  int64_t of_length = 1, all = 0;
  for (int64_t n = 1; n <= length; ++n) {
    of_length *= alphabet;
    all += of_length;
    if (all > most) return most + 1;
  }
  return all;
}

/// Numbers of tokens of the alphabet.
using Text = std::vector<int32_t>;

/// The next text in the order of lengths, then of the alphabet.
void advance(Text& text, int64_t alphabet) {
  for (int32_t& token : text) {
    if (++token < alphabet) return;
    token = 0;
  }
  text.push_back(0);
}

void check_batch(const Model& model, const Program& program, std::span<const Text> texts,
                 ConstructionCheck& check) {
  TokenBatch batch;
  std::vector<std::vector<std::string>> expected;
  for (const Text& text : texts) {
    std::vector<int32_t> ids = {0};
    std::vector<std::string> tokens;
    for (const int32_t token : text) {
      ids.push_back(1 + token);
      tokens.push_back(program.alphabet()[token]);
    }
    try {
      expected.push_back(program.run(tokens));
      batch.add(ids);
    } catch (const Error&) {
      ++check.refused;
    }
  }
  const Activations scores = model.output(model.forward(batch).rows);
  for (size_t b = 0; b < expected.size(); ++b) {
    ++check.texts;
    for (size_t i = 0; i < expected[b].size(); ++i) {
      const float* const row = &scores.rows(batch.offsets[b] + 1 + static_cast<int64_t>(i), 0);
      const auto best = std::max_element(row, row + scores.rows.extent(1)) - row;
      ++check.tokens;
      if (model.config().labels[best] != expected[b][i]) ++check.different;
    }
  }
}

}  // namespace

int64_t Construction::heads() const {
  int64_t all = 0;
  for (const ConstructedLayer& layer : layers) all += std::ssize(layer.heads);
  return all;
}

int64_t Construction::most_heads() const {
  int64_t most = 0;
  for (const ConstructedLayer& layer : layers) most = std::max(most, std::ssize(layer.heads));
  return most;
}

Construction plan_construction(const Program& program, const ConstructOptions& options) {
  return describe(Compiled(program, options));
}

Construction construct(const Program& program, const ConstructOptions& options,
                       const std::filesystem::path& folder) {
  const Compiled compiled(program, options);
  Construction made = describe(compiled);
  FolderAside aside(folder);
  write_json(aside.path() / "config.json", config_json(compiled, made));
  write_weights(aside.path(), weights_of(compiled.graph, compiled.values, compiled.circuit));
  write_json(aside.path() / "tokenizer.json", tokenizer_json(program.alphabet()));
  write_json(aside.path() / "tokenizer_config.json",
             {{"tokenizer_class", "PreTrainedTokenizerFast"},
              {"bos_token", kBosToken},
              {"unk_token", kUnknownToken},
              {"clean_up_tokenization_spaces", false},
              {"model_max_length", 1 + program.length()}});
  write_json(aside.path() / "program.json", program_json(program, compiled, made));
  made.check = check_construction(load(aside.path()), program, options.check_texts, options.seed);
  if (made.check.different > 0) {
    throw Error({.what = "the constructed model gives something else than the program",
                 .where = program.name(),
                 .got = fmt::format("{} of {} tokens", made.check.different, made.check.tokens)});
  }
  aside.become_out();
  return made;
}

ConstructionCheck check_construction(const Model& model, const Program& program, int64_t texts,
                                     uint64_t seed) {
  constexpr size_t kTextsAtOnce = 64;
  const auto alphabet = std::ssize(program.alphabet());
  const int64_t there_are = count_texts(alphabet, program.length(), texts);
  const int64_t count = std::min(there_are, texts);
  ConstructionCheck check{.all = there_are <= texts};
  Random random(seed);
  const auto below = [&](int64_t most) { return random.below(static_cast<uint32_t>(most)); };
  Text next = {0};
  std::vector<Text> batch;
  for (int64_t n = 0; n < count; ++n) {
    if (check.all) {
      batch.push_back(next);
      advance(next, alphabet);
    } else {
      batch.emplace_back(1 + below(program.length()));
      for (int32_t& token : batch.back()) token = static_cast<int32_t>(below(alphabet));
    }
    if (batch.size() < kTextsAtOnce && n + 1 < count) continue;
    check_batch(model, program, batch, check);
    batch.clear();
  }
  return check;
}

}  // namespace headwise
