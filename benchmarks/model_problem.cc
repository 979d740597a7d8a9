// Random checkpoints and batches of benchmarks.
#include "model_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <span>

#include "headwise/core/buffer.h"
#include "headwise/core/random.h"
#include "headwise/io/tensor_file.h"

namespace headwise::bench {
namespace {

class CheckpointWriter {
 public:
  void matrix(const std::string& name, int64_t rows, int64_t columns, float deviation) {
    Buffer& values = buffers_.emplace_back(rows * columns);
    Random random(1, buffers_.size());
    // Uniform of the same deviation: quicker to draw, and as good here.
    for (float& x : values.span()) x = (2 * random.uniform() - 1) * deviation * std::sqrt(3.f);
    add(name, {rows, columns}, values);
  }
  void linear(const std::string& name, int64_t outputs, int64_t inputs) {
    matrix(name + ".weight", outputs, inputs, 1.5f / std::sqrt(static_cast<float>(inputs)));
    vector(name + ".bias", outputs, 0);
  }
  /// As GPT-2 stores them.
  void transposed(const std::string& name, int64_t inputs, int64_t outputs) {
    matrix(name + ".weight", inputs, outputs, 1.5f / std::sqrt(static_cast<float>(inputs)));
    vector(name + ".bias", outputs, 0);
  }
  void norm(const std::string& name, int64_t width) {
    vector(name + ".weight", width, 1);
    vector(name + ".bias", width, 0);
  }
  void write(const std::filesystem::path& file) const {
    write_tensors(file, tensors_, {{"format", "pt"}});
  }

 private:
  void vector(const std::string& name, int64_t size, float mean) {
    Buffer& values = buffers_.emplace_back(size);
    Random random(1, buffers_.size());
    for (float& x : values.span()) x = mean + 0.1f * random.uniform();
    add(name, {size}, values);
  }
  void add(const std::string& name, std::vector<int64_t> shape, const Buffer& values) {
    tensors_.push_back({.name = name,
                        .dtype = Dtype::kF32,
                        .shape = std::move(shape),
                        .bytes = std::as_bytes(values.span())});
  }

  std::vector<Buffer> buffers_;
  std::vector<TensorToWrite> tensors_;
};

void write_checkpoint(const ModelShape& shape, const std::filesystem::path& folder) {
  CheckpointWriter writer;
  const int64_t C = shape.width, F = shape.intermediate;
  writer.matrix("embeddings.word_embeddings.weight", kVocabulary, C, 1);
  writer.matrix("embeddings.position_embeddings.weight", shape.positions, C, 0.3f);
  writer.matrix("embeddings.token_type_embeddings.weight", 2, C, 0.1f);
  writer.norm("embeddings.LayerNorm", C);
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string prefix = fmt::format("encoder.layer.{}.", layer);
    for (const char* part : {"query", "key", "value"}) {
      writer.linear(prefix + "attention.self." + part, C, C);
    }
    writer.linear(prefix + "attention.output.dense", C, C);
    if (shape.active > 0) {
      writer.matrix(prefix + "headwise.router.weight", shape.heads - shape.shared, C, 0.1f);
    }
    writer.norm(prefix + "attention.output.LayerNorm", C);
    writer.linear(prefix + "intermediate.dense", F, C);
    writer.linear(prefix + "output.dense", C, F);
    writer.norm(prefix + "output.LayerNorm", C);
  }
  writer.linear("pooler.dense", C, C);
  writer.write(folder / "model.safetensors");
  const std::string routing =
      shape.active == 0
          ? ""
          : fmt::format(R"(, "headwise": {{"routing": {{"shared": {}, "active": {}}}}})",
                        shape.shared, shape.active);
  std::ofstream(folder / "config.json") << fmt::format(
      R"({{"architectures": ["BertModel"], "model_type": "{}bert", "hidden_size": {}, "num_hidden_layers": {},
"num_attention_heads": {}, "intermediate_size": {}, "vocab_size": {}, "max_position_embeddings": {},
"type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu", "position_embedding_type": "absolute", "pad_token_id": 0{}}}
)",
      shape.active == 0 ? "" : "headwise_", C, shape.layers, shape.heads, F, kVocabulary,
      shape.positions, routing);
  // CTranslate2's converter reads a vocabulary.
  std::ofstream vocabulary(folder / "vocab.txt");
  for (const char* word : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
    vocabulary << word << '\n';
  for (int64_t i = 5; i < kVocabulary; ++i) vocabulary << 'w' << i << '\n';
  std::ofstream(folder / "tokenizer_config.json") << R"({"tokenizer_class": "BertTokenizer"})";
}

void write_gpt2(const ModelShape& shape, const std::filesystem::path& folder) {
  CheckpointWriter writer;
  const int64_t C = shape.width, F = shape.intermediate;
  writer.matrix("transformer.wte.weight", kGpt2Vocabulary, C, 0.05f);
  writer.matrix("transformer.wpe.weight", shape.positions, C, 0.02f);
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string prefix = fmt::format("transformer.h.{}.", layer);
    writer.norm(prefix + "ln_1", C);
    writer.transposed(prefix + "attn.c_attn", C, 3 * C);
    writer.transposed(prefix + "attn.c_proj", C, C);
    writer.norm(prefix + "ln_2", C);
    writer.transposed(prefix + "mlp.c_fc", C, F);
    writer.transposed(prefix + "mlp.c_proj", F, C);
  }
  writer.norm("transformer.ln_f", C);
  writer.write(folder / "model.safetensors");
  std::ofstream(folder / "config.json") << fmt::format(
      R"({{"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": {}, "n_layer": {}, "n_head": {},
"n_inner": {}, "vocab_size": {}, "n_positions": {}, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"}}
)",
      C, shape.layers, shape.heads, F, kGpt2Vocabulary, shape.positions);
}

}  // namespace

std::filesystem::path ModelFolders::folder(const ModelShape& shape) {
  const std::filesystem::path folder = root_.path() / shape.name;
  if (std::filesystem::create_directory(folder)) {
    (shape.name == kGpt2.name ? write_gpt2 : write_checkpoint)(shape, folder);
  }
  return folder;
}

TokenBatch texts(const std::vector<int64_t>& lengths, int64_t vocabulary) {
  TokenBatch batch;
  for (size_t b = 0; b < lengths.size(); ++b) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < lengths[b]; ++i) {
      ids.push_back(
          static_cast<int32_t>(1 + (static_cast<int64_t>(b) * 977 + i * 131) % (vocabulary - 1)));
    }
    batch.add(ids);
  }
  return batch;
}

std::span<const int32_t> text_of(const TokenBatch& batch, int64_t text) {
  const int64_t begin = batch.offsets[text];
  return std::span(batch.ids).subspan(begin, batch.offsets[text + 1] - begin);
}

nlohmann::json ids_of(const TokenBatch& batch) {
  nlohmann::json ids = nlohmann::json::array();
  for (int64_t b = 0; b < batch.sequences(); ++b) {
    const std::span<const int32_t> text = text_of(batch, b);
    ids.push_back(std::vector(text.begin(), text.end()));
  }
  return ids;
}

double forward_flops(const ModelShape& shape, const std::vector<int64_t>& lengths) {
  const auto C = static_cast<double>(shape.width), F = static_cast<double>(shape.intermediate);
  double flops = 0;
  for (const int64_t length : lengths) {
    const auto N = static_cast<double>(length);
    flops += N * (2 * (4 * C * C + 2 * C * F) + 4 * N * C);
  }
  return flops * static_cast<double>(shape.layers);
}

double routed_flops(const ModelShape& shape, const std::vector<int64_t>& lengths) {
  const auto C = static_cast<double>(shape.width);
  const double unused =
      1 - static_cast<double>(shape.shared + shape.active) / static_cast<double>(shape.heads);
  double saved = 0;
  for (const int64_t length : lengths) {
    const auto N = static_cast<double>(length);
    saved += N * (2 * 2 * C * C + 4 * N * C) * unused;
  }
  return forward_flops(shape, lengths) - saved * static_cast<double>(shape.layers);
}

StatisticsObserver::StatisticsObserver(const Model& model, const TokenBatch& batch)
    : sets_(2 * batch.rows()) {
  int64_t most = 0;
  for (const AttentionSite& site : model.attentions()) {
    names_.push_back(site.name);
    most = std::max<int64_t>(most, std::ssize(site.heads));
  }
  observers_.resize(names_.size());
  largest_.resize(batch.rows() * most);
  given_weight_.resize(batch.rows() * most);
  for (int64_t b = 0; b < batch.sequences(); ++b) {
    const int64_t begin = batch.offsets[b], N = batch.offsets[b + 1] - begin;
    for (int64_t n = 0; n < N; ++n) {
      sets_[begin + n] = n == 0 || n == N - 1;        // special
      sets_[batch.rows() + begin + n] = n % 10 == 5;  // punctuation
      given_key_.push_back((n * 7 + 3) % N);
    }
  }
}

AttentionObserver* StatisticsObserver::attention_observer(const AttentionSite& site,
                                                          const Attention& attention) {
  AttentionObserver& observer = observers_[std::ranges::find(names_, site.name) - names_.begin()];
  const int64_t T = attention.q.extent(0), H = attention.q.extent(1);
  observer.key_sets = View<const uint8_t, 2>(sets_.data(), {2, T});
  observer.given_key = given_key_;
  observer.largest = View<int32_t, 2>(largest_.data(), {T, H});
  observer.given_weight = View<float, 2>(given_weight_.data(), {T, H});
  return &observer;
}

std::vector<float> StatisticsObserver::means() {
  std::vector<float> means;
  for (AttentionObserver& observer : observers_) {
    for (const HeadStatistics& head : observer.heads) {
      for (const RunningMean& running_mean :
           {head.entropy, head.entropy_ratio, head.confidence, head.distance, head.mass_previous,
            head.mass_self, head.mass_next, head.mass_first, head.mass_last, head.mass_key_set[0],
            head.mass_key_set[1], head.mass_window, head.mass_given}) {
        means.push_back(static_cast<float>(running_mean.mean()));
      }
      for (const RunningMean& share : head.offset_share) {
        means.push_back(static_cast<float>(share.mean()));
      }
    }
    observer.heads.clear();
  }
  return means;
}

}  // namespace headwise::bench
