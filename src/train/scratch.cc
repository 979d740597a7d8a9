// Reads the sizes of a new model, and writes its config.json.
#include "train/scratch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "headwise/core/error.h"
#include "headwise/io/json_text.h"
#include "model/config_fields.h"
#include "model/config_heads.h"
#include "model/families/family.h"
#include "model/families/stack_fields.h"

namespace headwise {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int64_t kMostLayers = 4096, kWidest = 1 << 20, kMostPositions = 1 << 16;

struct Architecture {
  std::vector<TrainTask> tasks;
  const char* activation;
};

const std::map<std::string, Architecture>& architectures() {
  using enum TrainTask;
  static const std::map<std::string, Architecture> known = {
      {"bert", {{masked_lm, classification, similarity}, "gelu"}},
      {"gpt2", {{causal_lm, classification}, "gelu_new"}},
      {"llama", {{causal_lm, classification}, "silu"}},
      {"marian", {{translation}, "relu"}},
  };
  return known;
}

const Architecture& check_architecture(const JsonObject& model, TrainTask task) {
  const std::string& name = model.text("architecture");
  const auto found = architectures().find(name);
  std::vector<std::string> fit;
  for (const auto& [other, architecture] : architectures()) {
    if (std::ranges::find(architecture.tasks, task) != architecture.tasks.end()) {
      fit.push_back(other);
    }
  }
  if (found == architectures().end() || std::ranges::find(fit, name) == fit.end()) {
    model.refuse("architecture",
                 found == architectures().end()
                     ? "the architecture of a new model is not known"
                     : fmt::format("the architecture does not do {}", to_string(task)),
                 fmt::format("{}, for {}", fmt::join(fit, " or "), to_string(task)));
  }
  return found->second;
}

/// A field that is one number, one per layer, or either of them for each kind of attention.
class PerLayer {
 public:
  PerLayer(const JsonObject& model, const char* name, int64_t most)
      : model_(model), name_(name), most_(most) {}

  bool given() const { return model_.has(name_); }

  /// For the attentions of one kind ("encoder", "decoder", "cross"), or of the only one (nullptr).
  std::optional<std::vector<int64_t>> read(const char* kind, int64_t layers) const {
    if (!given()) return {};
    if (!model_.value(name_).is_object()) return numbers(model_, name_, layers);
    if (kind == nullptr) {
      model_.refuse(name_, "the architecture has only one kind of attention",
                    "a number, or a list with one per layer");
    }
    const JsonObject kinds = model_.object(name_);
    kinds.only({"encoder", "decoder", "cross"});
    return numbers(kinds, kind, layers);
  }

 private:
  std::vector<int64_t> numbers(const JsonObject& object, const char* name, int64_t layers) const {
    if (!object.value(name).is_array()) {
      return std::vector<int64_t>(layers, object.integer(name, 1, most_));
    }
    std::vector<int64_t> all = object.integers(name, 1, most_);
    if (std::ssize(all) != layers) {
      object.refuse(name, "not one number per layer", fmt::format("{} numbers", layers));
    }
    return all;
  }

  const JsonObject& model_;
  const char* name_;
  int64_t most_;
};

std::vector<HeadSettings> read_heads(const JsonObject& model, int64_t width, int64_t layers,
                                     const char* kind) {
  const auto heads = PerLayer(model, "heads", kMostHeads).read(kind, layers);
  if (!heads) model.refuse("heads", "a field is missing", "how many heads a layer has");
  const auto kv_heads = PerLayer(model, "kv_heads", kMostHeads).read(kind, layers);
  const auto head_dim = PerLayer(model, "head_dim", kWidestHead).read(kind, layers);
  const auto value_dim = PerLayer(model, "value_dim", kWidestHead).read(kind, layers);
  std::vector<HeadSettings> all;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const int64_t H = (*heads)[layer];
    if (!head_dim && width % H != 0) {
      model.refuse("heads", fmt::format("the width {} does not divide among {} heads", width, H),
                   fmt::format("a number that divides {}", width),
                   "or give the width of a head with \"head_dim\"");
    }
    HeadSettings own{.heads = H};
    own.kv_heads = kv_heads ? (*kv_heads)[layer] : H;
    own.head_dim = head_dim ? (*head_dim)[layer] : width / H;
    own.value_dim = value_dim ? (*value_dim)[layer] : own.head_dim;
    if (H % own.kv_heads != 0) {
      model.refuse("kv_heads", fmt::format("{} heads do not divide among the key/value heads", H),
                   fmt::format("a number that divides {}", H));
    }
    all.push_back(own);
  }
  return all;
}

/// With rotary positions there is one table of angles for all heads.
void check_rotary(const JsonObject& model, const std::vector<HeadSettings>& layers) {
  for (const HeadSettings& layer : layers) {
    if (layer.head_dim % 2 != 0) {
      model.refuse(
          "head_dim",
          fmt::format("rotary positions turn pairs of columns, and heads have {}", layer.head_dim),
          "an even width of heads");
    }
    if (layer.head_dim == layers.front().head_dim) continue;
    model.refuse("heads",
                 fmt::format("with rotary positions all heads are of one width, and here are {} "
                             "and {}",
                             layers.front().head_dim, layer.head_dim),
                 "the same head_dim in all layers",
                 "give one \"head_dim\", or take gpt2, which has no rotary positions");
  }
}

int64_t layers_of(const JsonObject& model, const char* kind) {
  if (!model.value("layers").is_object()) return model.integer("layers", 1, kMostLayers);
  if (kind == nullptr) {
    model.refuse("layers", "the architecture has one stack of layers", "a number");
  }
  const JsonObject both = model.object("layers");
  both.only({"encoder", "decoder"});
  return both.integer(kind, 1, kMostLayers);
}

bool is_plain(const std::vector<HeadSettings>& layers, int64_t width, bool own_width,
              bool grouped) {
  return std::ranges::all_of(layers, [&](const HeadSettings& layer) {
    return layer == layers.front() && layer.value_dim == layer.head_dim &&
           (own_width || layer.heads * layer.head_dim == width) &&
           (grouped || layer.kv_heads == layer.heads);
  });
}

/// What the architecture's own field says of heads that stand elsewhere: a number that it takes.
int64_t stated_heads(const std::vector<HeadSettings>& layers, int64_t width) {
  return width % layers.front().heads == 0 ? layers.front().heads : 1;
}

void set_optional(ordered_json& config, const char* name, const std::optional<int32_t>& id) {
  config[name] = id ? ordered_json(*id) : ordered_json();
}

/// Adds one kind of attention to "headwise".
void add_own(ordered_json& config, const char* prefix, const std::vector<HeadSettings>& layers) {
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const HeadSettings& own = layers[layer];
    config["headwise"]["attention"][fmt::format("{}L{}", prefix, layer)] = {
        {"heads", own.heads},
        {"kv_heads", own.kv_heads},
        {"head_dim", own.head_dim},
        {"value_dim", own.value_dim}};
  }
}

void write_bert(ordered_json& config, const ScratchSettings& s, const ScratchContext& context) {
  config["hidden_size"] = s.width;
  config["num_hidden_layers"] = s.encoder.size();
  config["num_attention_heads"] = stated_heads(s.encoder, s.width);
  config["intermediate_size"] = s.feed_forward;
  config["hidden_act"] = s.activation;
  config["max_position_embeddings"] = s.positions;
  config["type_vocab_size"] = 2;
  config["layer_norm_eps"] = 1e-12;
  set_optional(config, "pad_token_id", context.special.pad);
  if (!is_plain(s.encoder, s.width, false, false)) add_own(config, "", s.encoder);
}

void write_gpt2(ordered_json& config, const ScratchSettings& s, const ScratchContext& context) {
  config["n_embd"] = s.width;
  config["n_layer"] = s.decoder.size();
  config["n_head"] = stated_heads(s.decoder, s.width);
  config["n_inner"] = s.feed_forward;
  config["activation_function"] = s.activation;
  config["n_positions"] = s.positions;
  config["layer_norm_epsilon"] = 1e-5;
  set_optional(config, "bos_token_id", context.special.bos);
  set_optional(config, "eos_token_id", context.special.eos);
  set_optional(config, "pad_token_id", context.special.pad);
  if (!is_plain(s.decoder, s.width, false, false)) add_own(config, "", s.decoder);
}

void write_llama(ordered_json& config, const ScratchSettings& s, const ScratchContext& context) {
  const bool plain = is_plain(s.decoder, s.width, true, true);
  config["hidden_size"] = s.width;
  config["num_hidden_layers"] = s.decoder.size();
  config["num_attention_heads"] = s.decoder.front().heads;
  config["num_key_value_heads"] = s.decoder.front().kv_heads;
  config["head_dim"] = s.decoder.front().head_dim;
  config["intermediate_size"] = s.feed_forward;
  config["hidden_act"] = s.activation;
  config["max_position_embeddings"] = s.positions;
  config["rms_norm_eps"] = 1e-6;
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 10000.0}};
  config["attention_bias"] = false;
  config["mlp_bias"] = false;
  set_optional(config, "bos_token_id", context.special.bos);
  set_optional(config, "eos_token_id", context.special.eos);
  set_optional(config, "pad_token_id", context.special.pad);
  if (!plain) add_own(config, "", s.decoder);
}

void write_marian(ordered_json& config, const ScratchSettings& s, const ScratchContext& context) {
  config["is_encoder_decoder"] = true;
  config["d_model"] = s.width;
  config["encoder_layers"] = s.encoder.size();
  config["decoder_layers"] = s.decoder.size();
  config["encoder_attention_heads"] = stated_heads(s.encoder, s.width);
  config["decoder_attention_heads"] = stated_heads(s.decoder, s.width);
  config["encoder_ffn_dim"] = s.feed_forward;
  config["decoder_ffn_dim"] = s.feed_forward;
  config["activation_function"] = s.activation;
  config["max_position_embeddings"] = s.positions;
  config["decoder_vocab_size"] = context.vocabulary;
  config["scale_embedding"] = true;
  config["share_encoder_decoder_embeddings"] = true;
  config["static_position_embeddings"] = true;
  config["init_std"] =
      1 / std::sqrt(static_cast<double>(s.width));  // words are as long as positions
  set_optional(config, "pad_token_id", context.special.pad);
  set_optional(config, "decoder_start_token_id", context.special.pad);
  set_optional(config, "eos_token_id", context.special.eos);
  set_optional(config, "forced_eos_token_id", context.special.eos);
  config["bos_token_id"] = nullptr;
  if (!is_plain(s.encoder, s.width, false, false)) add_own(config, "enc.", s.encoder);
  if (!is_plain(s.decoder, s.width, false, false) || s.cross != s.decoder) {
    add_own(config, "dec.", s.decoder);
    add_own(config, "cross.", s.cross);
  }
}

struct Writer {
  const char* classes;  // how the names of its classes begin
  void (*write)(ordered_json&, const ScratchSettings&, const ScratchContext&);
};

const std::map<std::string, Writer>& writers() {
  static const std::map<std::string, Writer> all = {{"bert", {"Bert", write_bert}},
                                                    {"gpt2", {"GPT2", write_gpt2}},
                                                    {"llama", {"Llama", write_llama}},
                                                    {"marian", {"Marian", write_marian}}};
  return all;
}

std::string class_ending(const std::string& architecture, TrainTask task) {
  switch (task) {
    case TrainTask::causal_lm:
      return architecture == "gpt2" ? "LMHeadModel" : "ForCausalLM";
    case TrainTask::masked_lm:
      return "ForMaskedLM";
    case TrainTask::classification:
      return "ForSequenceClassification";
    case TrainTask::similarity:
      return "Model";
    case TrainTask::translation:
      return "MTModel";
  }
  return "";
}

/// Checks them against the heads that the other fields say.
void read_patterns_and_routing(const JsonObject& model, TrainTask task, ScratchSettings& s) {
  const HeadFields given{.fixed = model.optional_object("fixed"),
                         .routing = model.optional_object("routing")};
  if (!given.fixed && !given.routing) return;
  const json without = json::parse(scratch_config(s, {.task = task, .vocabulary = s.vocabulary}));
  ModelConfig config = parse_config(without.dump(), model.where(""));
  for (auto* attentions :
       {&config.encoder.attention, &config.decoder.attention, &config.decoder.cross}) {
    std::ranges::fill(*attentions, AttentionConfig{});
  }
  HeadFields fields = given;
  if (without.contains("headwise")) {
    fields.attention = JsonObject(without["headwise"], "").object("attention");
  }
  set_heads(fields, config);
  if (given.fixed) {
    for (const std::string& name : given.fixed->names()) {
      s.fixed.emplace_back(name, given.fixed->text(name));
    }
  }
  if (given.routing) {
    s.routing = {.shared = given.routing->integer("shared"),
                 .active = given.routing->integer("active")};
    s.routing->balance = given.routing->optional_number("balance").value_or(s.routing->balance);
  }
}

/// A part of a model, and the field of the settings that it grows with.
struct WeightCount {
  double weights = 0;
  const char* field = "";
};

/// Weights of a new model, without biases and norms, part by part.
std::vector<WeightCount> count_weights(const JsonObject& model, const ScratchSettings& s) {
  const auto width = static_cast<double>(s.width);
  double attention = 0;
  for (const auto* layers : {&s.encoder, &s.decoder, &s.cross}) {
    for (const HeadSettings& layer : *layers) {
      const auto queries = static_cast<double>(layer.heads),
                 keys = static_cast<double>(layer.kv_heads);
      const auto own = static_cast<double>(layer.head_dim),
                 value = static_cast<double>(layer.value_dim);
      attention += width * (queries * (own + value) + keys * (own + value));
    }
  }
  const auto blocks = static_cast<double>(s.encoder.size() + s.decoder.size());
  const double matrices = s.architecture == "llama" ? 3 : 2;
  const char* const inside = model.has("feed_forward") ? "feed_forward" : "hidden_size";
  return {{attention, model.has("head_dim") ? "head_dim" : "hidden_size"},
          {blocks * matrices * width * static_cast<double>(s.feed_forward), inside},
          {width * static_cast<double>(s.vocabulary), "vocab_size"},
          {width * static_cast<double>(s.positions), "max_position_embeddings"}};
}

/// Training holds a weight, its gradient and two moments of AdamW, in float32. Throws Error if that
/// is more than the memory of the machine.
void check_memory(const JsonObject& model, const ScratchSettings& s) {
  constexpr double kBytesPerWeight = 16;
  const std::vector<WeightCount> parts = count_weights(model, s);
  double weights = 0;
  for (const WeightCount& part : parts) weights += part.weights;
  const double memory =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  if (weights * kBytesPerWeight <= memory) return;
  const auto most = std::ranges::max_element(parts, {}, &WeightCount::weights);
  model.refuse(most->field, "the model does not fit into the memory of this machine",
               fmt::format("settings of at most {:.3g} parameters, for {:.3g} GB",
                           memory / kBytesPerWeight, memory / 1e9),
               fmt::format("these make {:.3g} parameters, and training them takes {:.3g} GB",
                           weights, weights * kBytesPerWeight / 1e9));
}

}  // namespace

ScratchSettings read_scratch(const JsonObject& model, TrainTask task) {
  model.only({"architecture", "hidden_size", "layers", "heads", "head_dim", "value_dim", "kv_heads",
              "feed_forward", "max_position_embeddings", "vocab_size", "activation", "fixed",
              "routing", "init"});
  const Architecture& architecture = check_architecture(model, task);
  ScratchSettings s{.architecture = model.text("architecture"),
                    .width = model.integer("hidden_size", 1, kWidest)};
  s.feed_forward = model.optional_integer("feed_forward", 1, kWidest).value_or(4 * s.width);
  s.positions = model.optional_integer("max_position_embeddings", 1, kMostPositions).value_or(512);
  s.vocabulary = model.optional_integer("vocab_size", 300, 1 << 20).value_or(8000);
  s.activation = model.optional_text("activation").value_or(architecture.activation);
  if (!find_activation(s.activation)) {
    model.refuse("activation", "the activation function is not known",
                 "relu, gelu, gelu_new, silu or tanh");
  }
  if (s.architecture == "marian") {
    if (s.width % 2 != 0) {
      model.refuse("hidden_size", "sinusoidal positions come in pairs of columns", "an even width");
    }
    const int64_t encoder = layers_of(model, "encoder"), decoder = layers_of(model, "decoder");
    s.encoder = read_heads(model, s.width, encoder, "encoder");
    s.decoder = read_heads(model, s.width, decoder, "decoder");
    s.cross = read_heads(model, s.width, decoder, "cross");
  } else {
    auto& layers = s.architecture == "bert" ? s.encoder : s.decoder;
    layers = read_heads(model, s.width, layers_of(model, nullptr), nullptr);
    if (s.architecture == "llama") check_rotary(model, layers);
  }
  if (const auto init = model.optional_object("init")) {
    init->only({"same"});
    s.same_heads = init->optional_boolean("same").value_or(false);
  }
  check_memory(model, s);
  read_patterns_and_routing(model, task, s);
  return s;
}

std::string scratch_config(const ScratchSettings& settings, const ScratchContext& context) {
  const Writer& writer = writers().at(settings.architecture);
  ordered_json config;
  config["architectures"] =
      ordered_json::array({writer.classes + class_ending(settings.architecture, context.task)});
  config["model_type"] = settings.architecture;
  config["vocab_size"] = context.vocabulary;
  writer.write(config, settings, context);
  config["tie_word_embeddings"] = true;
  config["dtype"] = "float32";
  for (size_t id = 0; id < context.labels.size(); ++id) {
    config["id2label"][std::to_string(id)] = context.labels[id];
    config["label2id"][context.labels[id]] = id;
  }
  for (const auto& [head, pattern] : settings.fixed) config["headwise"]["fixed"][head] = pattern;
  if (settings.routing) {
    config["headwise"]["routing"] = {{"shared", settings.routing->shared},
                                     {"active", settings.routing->active},
                                     {"balance", settings.routing->balance}};
  }
  if (config.contains("headwise")) {
    config["model_type"] = std::string(kHeadwisePrefix) + settings.architecture;
  }
  return json_text(config, 2);
}

}  // namespace headwise
