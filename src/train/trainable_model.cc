// Loading, making and saving a model that is trained.
#include "headwise/train/trainable_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/core/shape.h"
#include "io/file.h"
#include "io/from_float.h"
#include "model/compact_config.h"
#include "model/families/family.h"
#include "model/parameter_table.h"
#include "model/stack_layout.h"
#include "model/stored_tensors.h"
#include "model/task_head.h"
#include "model/weight_reader.h"
#include "train/adapt.h"
#include "train/hard_concrete.h"
#include "train/initialise.h"
#include "train/network.h"
#include "train/parameter_list.h"
#include "train/projections.h"

namespace headwise {
namespace {

/// What transformers puts before the names of the base model's tensors.
std::string usual_prefix(const ModelConfig& config) {
  const auto& prefixes = family_of(config).names.prefixes;
  return config.task == Task::hidden || prefixes.empty() ? "" : std::string(prefixes.front());
}

}  // namespace

struct TrainableModel::Parts {
  std::string json;
  ConfigOptions config_options;
  std::string prefix;  // of the base model's tensors
  std::vector<Parameter> parameters;
  std::vector<SharedParameterState> states;  // what layers know of theirs in a pass
  std::vector<StoredTensor> tensors;
  std::unique_ptr<Transformer> layers;
  std::unique_ptr<Network> network;

  // Tensors of the loaded folder that go into the saved one as they are.
  std::optional<TensorFiles> files;
  std::vector<const TensorInfo*> carried;

  void finish(ParameterList& declared) {
    parameters = std::move(declared.parameters);
    states = std::move(declared.states);
    tensors = std::move(declared.tensors);
  }

  void set_states() {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const bool grad_is_zero = std::exchange(parameters[i].grad_is_zero, false);
      if (i < states.size())
        *states[i] = {.requires_grad = parameters[i].requires_grad, .grad_is_zero = grad_is_zero};
    }
  }

  LearnedGates gate_options;
  std::optional<HardConcrete> gates;

  static void refuse_gates(const PassOptions& options);
  PassOptions with_drawn_gates(PassOptions options);
  Loss run(const TrainingBatch& batch, PassOptions options, bool backward);
  std::vector<float> multiplied(const StoredTensor& tensor, const HeadTensor& heads,
                                std::span<const float> values) const;
  CutTensor gated(const StoredTensor& tensor, const HeadTensor& before, const HeadTensor& after,
                  std::span<const float> values) const;
  void save(const std::filesystem::path& folder) const;
};

namespace {

/// Takes the weights of a model out of a folder.
class Loader {
 public:
  Loader(WeightReader& reader, std::string stored_prefix, std::string prefix)
      : reader_(reader), stored_prefix_(std::move(stored_prefix)), prefix_(std::move(prefix)) {}

  /// The name that a tensor of the model has in the folder.
  std::string stored(const std::string& name) const {
    if (!name.starts_with(prefix_)) return name;
    return stored_prefix_ + name.substr(prefix_.size());
  }

  /// `table` has the names of the folder.
  void fill(ParameterList& declared, const ParameterTable& table, bool fresh_output,
            uint64_t seed) {
    Dtype dtype = Dtype::kF32;
    for (StoredTensor& tensor : declared.tensors) {
      const ParameterTensor& known = *table.find(stored(tensor.name));
      if (fresh_output && known.of_output && !fits(known.name, tensor.shape)) {
        initialise(tensor, known.init, seed);
      } else {
        const TensorInfo& info = reader_.take(known.name, tensor.shape);
        scatter(reader_.floats(info).span(), tensor.parts);
        dtype = info.dtype;
      }
      tensor.dtype = dtype;
    }
    for (const auto& [name, of] : declared.copies) {
      reader_.copy(stored(name), of.empty() ? "" : stored(of));
    }
  }

 private:
  bool fits(const std::string& name, const std::vector<int64_t>& shape) const {
    const TensorInfo* const info = reader_.files().find(name);
    return info != nullptr && info->shape == shape;
  }

  WeightReader& reader_;
  std::string stored_prefix_, prefix_;
};

}  // namespace

TrainableModel::TrainableModel(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
TrainableModel::TrainableModel(TrainableModel&&) noexcept = default;
TrainableModel& TrainableModel::operator=(TrainableModel&&) noexcept = default;
TrainableModel::~TrainableModel() = default;

TrainableModel TrainableModel::load(const std::filesystem::path& folder, const TrainFor& what,
                                    const LoadOptions& options) {
  const std::filesystem::path file = folder / "config.json";
  const std::string text = read_file(file, kLargestConfig);
  ModelConfig saved = parse_config(text, file.string(), options.config);
  WeightReader reader(TensorFiles::open(folder), {.allow_nonfinite = options.allow_nonfinite,
                                                  .allow_unexpected = options.allow_unexpected});
  const std::string stored_prefix = find_prefix(saved, reader);
  if (!TaskHead::was_saved(saved, stored_prefix, reader)) saved.task = Task::hidden;

  auto parts = std::make_unique<Parts>();
  Adapted adapted = adapt_config(text, file.string(), saved, what, options.config);
  parts->json = std::move(adapted.json);
  parts->config_options = options.config;
  const ModelConfig& config = adapted.config;
  check_trainable(config);
  const std::string prefix = adapted.fresh ? usual_prefix(config) : stored_prefix;
  parts->prefix = prefix;
  const ParameterTable table =
      table_of(config, stored_prefix, reader, adapted.fresh, read_init_std(config, parts->json));
  const ParameterTable saved_table = table_of(saved, stored_prefix, reader, false);
  reader.expect(table, adapted.fresh ? &saved_table : nullptr);
  Loader loader(reader, stored_prefix, prefix);
  ParameterList declared([&](const std::string& name) { return reader.has(loader.stored(name)); });
  const bool pools = config.task == Task::hidden;
  Similarity similarity = pools ? Similarity(folder) : Similarity();
  parts->layers = std::make_unique<Transformer>(config, declared, prefix, adapted.fresh);
  parts->network = std::make_unique<Network>(*parts->layers, std::move(similarity));
  loader.fill(declared, table, adapted.fresh, what.seed);
  if (!adapted.fresh) parts->carried.assign(reader.unused().begin(), reader.unused().end());
  reader.finish();
  parts->files = reader.files();
  parts->finish(declared);
  return TrainableModel(std::move(parts));
}

TrainableModel TrainableModel::create(const std::string& config_json,
                                      const Initialisation& options) {
  auto parts = std::make_unique<Parts>();
  parts->json = config_json;
  const ModelConfig config = parse_config(config_json, "config.json");
  check_trainable(config);
  parts->prefix = usual_prefix(config);
  const ParameterTable table(
      config, {.prefix = parts->prefix, .init_std = read_init_std(config, config_json)});
  ParameterList declared([](const std::string&) { return false; });
  parts->layers = std::make_unique<Transformer>(config, declared, parts->prefix, true);
  parts->network = std::make_unique<Network>(*parts->layers);
  for (const StoredTensor& tensor : declared.tensors) {
    initialise(tensor, table.find(tensor.name)->init, options.seed);
  }
  if (options.same_heads) {
    for (const AttentionSite& site : parts->layers->sites) {
      make_heads_equal(*parts->layers->layer(site).attention().weights());
    }
  }
  parts->finish(declared);
  return TrainableModel(std::move(parts));
}

void TrainableModel::Parts::refuse_gates(const PassOptions& options) {
  if (options.gates.data() == nullptr) return;
  throw Error({.what = "the model learns its gates, and cannot be given others",
               .where = "gates",
               .got = to_string(options.gates.shape()),
               .expected = "none"});
}

PassOptions TrainableModel::Parts::with_drawn_gates(PassOptions options) {
  refuse_gates(options);
  options.gates = gates->draw(options.seed);
  options.dgates = gates->dgates();
  return options;
}

Loss TrainableModel::Parts::run(const TrainingBatch& batch, PassOptions options, bool backward) {
  if (!gates) return network->run(batch, options, backward);
  const std::vector<float> still = gates->gates();
  if (backward) {
    options = with_drawn_gates(options);
  } else {
    refuse_gates(options);
    options.gates = {still.data(), {1, gates->size()}};
  }
  Loss loss = network->run(batch, options, backward);
  const double weight = gate_options.l0 * static_cast<double>(loss.scored);
  loss.loss += weight * gates->penalty();
  if (backward) gates->backward(weight * double{options.gradient_scale});
  return loss;
}

Loss TrainableModel::train(const TrainingBatch& batch, const PassOptions& options) {
  parts_->set_states();
  return parts_->run(batch, options, true);
}

void TrainableModel::train_hidden(const TrainingBatch& batch, const PassOptions& options,
                                  const NextGradient& next) {
  parts_->set_states();
  if (!parts_->gates) return parts_->network->run_hidden(batch, options, next);
  parts_->network->run_hidden(batch, parts_->with_drawn_gates(options), next);
  parts_->gates->backward(parts_->gate_options.l0);
}

Loss TrainableModel::evaluate(const TrainingBatch& batch, const PassOptions& options) {
  return parts_->run(batch, options, false);
}

void TrainableModel::learn_gates(const LearnedGates& options) {
  if (parts_->gates) {
    throw Error({.what = "the model learns its gates already", .where = "learn_gates"});
  }
  parts_->gate_options = options;
  parts_->gates.emplace(heads());
  for (Parameter& parameter : parts_->parameters) {
    parameter.requires_grad = parameter.requires_grad && options.train_weights;
  }
  parts_->parameters.push_back(parts_->gates->parameter());
  parts_->parameters.back().rate = options.rate;
}

std::vector<float> TrainableModel::learned_gates() const {
  return parts_->gates ? parts_->gates->gates() : std::vector<float>();
}

double TrainableModel::open_gates() const { return parts_->gates ? parts_->gates->penalty() : 0; }

void TrainableModel::set_l0(double l0) { parts_->gate_options.l0 = l0; }

void TrainableModel::fold_gates() {
  if (!parts_->gates) {
    throw Error({.what = "the model learns no gates", .where = "fold_gates"});
  }
  const std::vector<float> gates = learned_gates();
  const ParameterTable table(config(), {.prefix = parts_->prefix});
  for (const StoredTensor& tensor : parts_->tensors) {
    const ParameterTensor* const found = table.find(tensor.name);
    if (found == nullptr || !found->heads) continue;
    scatter(parts_->multiplied(tensor, *found->heads, gates), tensor.parts);
  }
  parts_->parameters.pop_back();
  parts_->gates.reset();
}

void TrainableModel::clear_gradients() {
  for (Parameter& parameter : parts_->parameters) {
    std::ranges::fill(parameter.gradient, 0.f);
    parameter.grad_is_zero = true;
  }
}

std::span<Parameter> TrainableModel::parameters() { return parts_->parameters; }
std::span<const StoredTensor> TrainableModel::tensors() const { return parts_->tensors; }

std::vector<double> TrainableModel::head_gradient_norms() const {
  std::vector<double> norms(heads());
  for (const AttentionSite& site : attentions()) {
    headwise::head_gradient_norms(*parts_->layers->layer(site).gradients(),
                                  std::span(norms).subspan(site.first, site.heads.size()));
  }
  return norms;
}

const ModelConfig& TrainableModel::config() const { return parts_->layers->config; }
const std::string& TrainableModel::config_json() const { return parts_->json; }
std::span<const AttentionSite> TrainableModel::attentions() const { return parts_->layers->sites; }

int64_t TrainableModel::heads() const {
  int64_t heads = 0;
  for (const AttentionSite& site : attentions()) heads += std::ssize(site.heads);
  return heads;
}

void TrainableModel::save(const std::filesystem::path& folder) const { parts_->save(folder); }

/// The numbers of a tensor; of an output projection, those of each head multiplied by its gate.
std::vector<float> TrainableModel::Parts::multiplied(const StoredTensor& tensor,
                                                     const HeadTensor& heads,
                                                     std::span<const float> values) const {
  const AttentionSite& site = layers->sites[heads.site];
  std::vector<float> numbers = gather(tensor, Which::values);
  for_each_piece(heads, tensor.shape, [&](const HeadRows& rows, int64_t first, int64_t count) {
    if (rows.part != HeadPart::output) return;
    const auto head = std::ranges::find(site.heads, rows.name) - site.heads.begin();
    for (float& number : std::span(numbers).subspan(first, count)) {
      number *= values[site.first + head];
    }
  });
  return numbers;
}

/// With gates multiplied into the output projection, and without what is closed.
CutTensor TrainableModel::Parts::gated(const StoredTensor& tensor, const HeadTensor& before,
                                       const HeadTensor& after,
                                       std::span<const float> values) const {
  const std::vector<float> numbers = multiplied(tensor, before, values);
  std::vector<std::byte> bytes(numbers.size() * byte_size(tensor.dtype));
  from_float(tensor.dtype, numbers, bytes);
  return cut(before, after, tensor.shape, bytes, byte_size(tensor.dtype));
}

void TrainableModel::Parts::save(const std::filesystem::path& folder) const {
  make_folder(folder);
  const std::vector<float> values = gates ? gates->gates() : std::vector<float>();
  const std::string text =
      gates ? compact_config(json, layers->config, layers->sites, values) : json;
  ParameterTable before, after;
  if (gates) {
    before = ParameterTable(layers->config, {.prefix = prefix});
    after = ParameterTable(parse_config(text, "config.json", config_options), {.prefix = prefix});
  }
  std::vector<CutTensor> contents;
  std::vector<TensorToWrite> to_write;
  for (const StoredTensor& tensor : tensors) {
    const ParameterTensor* const whole = before.find(tensor.name);
    contents.push_back(whole == nullptr || !whole->heads
                           ? CutTensor{.shape = tensor.shape, .bytes = bytes_of(tensor)}
                           : gated(tensor, *whole->heads, *after.find(tensor.name)->heads, values));
    to_write.push_back({.name = tensor.name,
                        .dtype = tensor.dtype,
                        .shape = contents.back().shape,
                        .bytes = contents.back().bytes});
  }
  for (const TensorInfo* tensor : carried) to_write.push_back(files->copy_of(*tensor));
  write_tensors(folder / "model.safetensors", to_write,
                files ? files->metadata() : std::map<std::string, std::string>{{"format", "pt"}});
  write_config(text, folder);
}

}  // namespace headwise
