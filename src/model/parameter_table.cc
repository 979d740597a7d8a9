// Goes through the layers of a model in the order in which they are built.
#include "model/parameter_table.h"

#include <algorithm>
#include <utility>

#include "headwise/model/multi_head_attention.h"
#include "model/families/family.h"
#include "model/stack_layout.h"
#include "model/task_head.h"

namespace headwise {
namespace {

/// The heads of one attention, part by part.
struct Parts {
  std::vector<HeadRows> query, key, value, output;
};

Parts parts_of(const ModelConfig& config, const AttentionConfig& attention, bool cross) {
  const MultiHeadAttentionShape s = resolve(layer_config(config, attention, cross));
  Parts parts;
  const auto add = [](std::vector<HeadRows>& to, HeadPart part, const std::vector<int32_t>& names,
                      int64_t count, int64_t width) {
    for (int64_t i = 0; i < count; ++i) to.push_back({part, names[i], width});
  };
  add(parts.query, HeadPart::query, attention.heads, s.learned(), s.D);
  add(parts.key, HeadPart::key, attention.kv_heads, s.key_heads, s.D);
  add(parts.value, HeadPart::value, attention.kv_heads, s.K, s.Dv);
  add(parts.output, HeadPart::output, attention.heads, s.H, s.Dv);
  return parts;
}

std::vector<HeadRows> fused(const Parts& parts, ProjectionStorage storage) {
  std::vector<HeadRows> rows;
  if (storage == ProjectionStorage::fused) {
    for (const auto* part : {&parts.query, &parts.key, &parts.value}) {
      rows.insert(rows.end(), part->begin(), part->end());
    }
    return rows;
  }
  for (size_t h = 0; h < parts.query.size(); ++h) {
    rows.insert(rows.end(), {parts.query[h], parts.key[h], parts.value[h]});
  }
  return rows;
}

bool ends_with(std::string_view name, const std::vector<std::string_view>& endings) {
  return std::ranges::any_of(endings, [&](std::string_view end) { return name.ends_with(end); });
}

}  // namespace

class TableBuilder {
 public:
  TableBuilder(const ModelConfig& config, ParameterTable::Options options, ParameterTable& table)
      : config_(config),
        options_(std::move(options)),
        std_(options_.init_std),
        sites_(attention_sites(config)),
        tensors_(table.tensors_),
        repeated_(table.repeated_) {}

  void build() {
    std::string word;
    for (const Side side : {Side::encoder, Side::decoder}) {
      if (stack_config(config_, side).layers() > 0) word = add_stack(side);
    }
    add_output(word);
  }

 private:
  bool has(const std::string& name) const { return options_.has(name); }

  ParameterTensor& add(std::string name, std::vector<int64_t> shape,
                       const Init& init = Init::zeros()) {
    return tensors_.emplace_back(ParameterTensor{
        .name = std::move(name), .shape = std::move(shape), .init = init, .of_output = in_output_});
  }

  void add_linear(const std::string& name, int64_t outputs, int64_t inputs, double std, bool bias,
                  bool transposed) {
    add(name + ".weight", transposed ? std::vector{inputs, outputs} : std::vector{outputs, inputs},
        Init::normal(std));
    if (bias) add(name + ".bias", {outputs});
  }

  void add_norm(const std::string& name, int64_t width) {
    if (config_.norm == NormKind::none) return;
    add(name + ".weight", {width}, Init::ones());
    if (config_.norm == NormKind::layer) add(name + ".bias", {width});
  }

  /// The name of the embedding of tokens.
  std::string add_word(Side side, const StackNaming& naming) {
    const WordTensor word = word_tensor(config_, naming, options_.has);
    if (word.shared()) repeated_.push_back({word.copy, word.name});
    if (std::ranges::find(tensors_, word.name, &ParameterTensor::name) == tensors_.end()) {
      add(word.name, {stack_vocabulary(config_, side), config_.embedding_width},
          Init::normal(std_.word, padding_row(config_)));
    }
    return word.name;
  }

  void add_positions(const StackNaming& naming) {
    const std::string name = naming.full(naming.stack().position) + ".weight";
    if (config_.positions == PositionKind::learned) {
      add(name, {config_.max_positions + config_.position_offset, config_.embedding_width},
          Init::normal(std_.position, position_padding_row(config_)));
    } else if (config_.positions == PositionKind::sinusoidal && has(name)) {
      add(name, {config_.max_positions, config_.width});
    }
  }

  std::string add_stack(Side side) {
    const StackNaming naming(config_, side, options_.prefix);
    const StackConfig& stack = stack_config(config_, side);
    const WeightNames& names = naming.model();
    const int64_t C = config_.width, E = config_.embedding_width;
    std::string word = add_word(side, naming);
    add_positions(naming);
    if (config_.token_types > 0) {
      add(naming.full(names.token_type) + ".weight", {config_.token_types, E},
          Init::normal(std_.position));
    }
    if (config_.embedding_norm) add_norm(naming.full(names.embedding_norm), E);
    if (E != C)
      add_linear(naming.full(names.embedding_projection), C, E, std_.output, true,
                 names.transposed);
    if (config_.relative.buckets > 0) add_relative_bias(side, naming);
    for (int64_t layer = 0; layer < stack.layers(); ++layer) {
      add_attention(side, AttentionKind::self, layer, naming);
      if (!stack.cross.empty()) add_attention(side, AttentionKind::cross, layer, naming);
      add_feed_forward(layer, naming, stack.intermediate);
    }
    if (!naming.stack().final_norm.empty()) add_norm(naming.full(naming.stack().final_norm), C);
    return word;
  }

  int64_t site(Side side, AttentionKind kind, int64_t layer) const {
    return &site_of(sites_, side, kind, layer) - sites_.data();
  }

  /// Its heads are those of the config, also when a layer has lost some of them.
  void add_relative_bias(Side side, const StackNaming& naming) {
    const int64_t heads = stack_config(config_, side).heads;
    HeadTensor table{.site = site(side, AttentionKind::self, 0), .axis = 1};
    for (int32_t h = 0; h < heads; ++h) table.rows.push_back({HeadPart::bias, h, 1});
    add(naming.full(naming.stack().relative_bias) + ".weight", {config_.relative.buckets, heads},
        Init::normal(std_.relative))
        .heads = std::move(table);
  }

  void add_attention(Side side, AttentionKind kind, int64_t layer, const StackNaming& naming) {
    const bool cross = kind == AttentionKind::cross;
    const AttentionNames& names = cross ? naming.stack().cross : naming.stack().self;
    const int64_t at = site(side, kind, layer);
    const AttentionConfig& attention = attention_at(config_, sites_[at]);
    const Parts parts = parts_of(config_, attention, cross);
    const auto name = [&](std::string_view which) { return naming.in_layer(layer, which); };
    if (naming.model().storage == ProjectionStorage::separate) {
      add_projections(at, {{name(names.query), parts.query, std_.query, true},
                           {name(names.key), parts.key, std_.key_value, config_.key_bias},
                           {name(names.value), parts.value, std_.key_value, config_.value_bias}});
    } else {
      add_projections(
          at, {{name(names.query), fused(parts, naming.model().storage), std_.query, true}});
    }
    add_head_matrix(name(names.output), {.site = at, .axis = 1, .rows = parts.output},
                    std_.attention_output);
    if (config_.output_bias) {
      add(name(names.output) + ".bias", {config_.width}).output_bias_of = at;
    }
    if (config_.qk_norm && !cross) {
      add_norm(name(names.query_norm), attention.head_dim);
      add_norm(name(names.key_norm), attention.head_dim);
    }
    if (attention.routing) {
      add(name(router_name(cross)) + ".weight",
          {std::ssize(attention.routing->heads), config_.width}, Init::normal(std_.output));
    }
    add_norm(name(names.norm), config_.width);
  }

  struct Projection {
    std::string name;
    std::vector<HeadRows> rows;
    double std;
    bool bias;
  };

  /// All weights, then all biases.
  void add_projections(int64_t at, const std::vector<Projection>& projections) {
    for (const Projection& projection : projections) {
      add_head_matrix(projection.name, {.site = at, .axis = 0, .rows = projection.rows},
                      projection.std);
    }
    for (const Projection& projection : projections) {
      if (!config_.projection_bias || !projection.bias) continue;
      HeadTensor heads{.site = at, .axis = 0, .rows = projection.rows};
      add(projection.name + ".bias", {extent(heads)}).heads = std::move(heads);
    }
  }

  /// A matrix whose other axis has the model's width; `heads` as nn.Linear has it.
  void add_head_matrix(const std::string& name, HeadTensor heads, double std) {
    if (family_of(config_).names.transposed) heads.axis = 1 - heads.axis;
    std::vector<int64_t> shape(2, config_.width);
    shape[heads.axis] = extent(heads);
    add(name + ".weight", std::move(shape), Init::normal(std)).heads = std::move(heads);
  }

  static int64_t extent(const HeadTensor& heads) {
    int64_t sum = 0;
    for (const HeadRows& rows : heads.rows) sum += rows.width;
    return sum;
  }

  void add_feed_forward(int64_t layer, const StackNaming& naming, int64_t inside) {
    const StackNames& names = naming.stack();
    const auto linear = [&](std::string_view name, int64_t outputs, int64_t inputs, double std) {
      add_linear(naming.in_layer(layer, name), outputs, inputs, std, config_.feed_forward_bias,
                 naming.model().transposed);
    };
    linear(config_.glu ? names.glu_up : names.up, inside, config_.width, std_.up);
    if (config_.glu) linear(names.gate, inside, config_.width, std_.up);
    linear(names.down, config_.width, inside, std_.down);
    add_norm(naming.in_layer(layer, names.feed_forward_norm), config_.width);
  }

  void add_output(const std::string& word) {
    const TaskNames names = task_names(config_, options_.prefix);
    if (names.output.empty()) return;
    in_output_ = true;
    int64_t width = config_.width;
    for (const TaskStep& step : names.steps) {
      // The last step before a tied output leads to the width of the embedding.
      const int64_t next = names.tied ? config_.embedding_width : width;
      add_linear(step.dense, next, width, std_.output, true, false);
      if (!step.norm.empty()) add_norm(step.norm, next);
      width = next;
    }
    const int64_t outputs = outputs_of(config_);
    const OutputTensors last = output_tensors(config_, names, options_.has, options_.fresh_output);
    if (last.tied) {
      repeated_.push_back({last.weight, word});
    } else {
      add(last.weight, {outputs, width}, Init::normal(std_.output));
    }
    if (!last.bias.empty()) {
      add(last.bias,
          last.bias_is_buffer ? std::vector<int64_t>{1, outputs} : std::vector<int64_t>{outputs});
    }
    if (!last.beside_bias.empty()) {
      repeated_.push_back({last.beside_bias, last.same_as_bias ? last.bias : ""});
    }
  }

  const ModelConfig& config_;
  ParameterTable::Options options_;
  const InitStd& std_;
  std::vector<AttentionSite> sites_;
  std::vector<ParameterTensor>& tensors_;
  std::vector<RepeatedTensor>& repeated_;
  bool in_output_ = false;
};

ParameterTable::ParameterTable(const ModelConfig& config, Options options)
    : buffers_(family_of(config).buffers), unused_(family_of(config).unused) {
  TableBuilder(config, std::move(options), *this).build();
  for (size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
}

bool ParameterTable::is_buffer(std::string_view name) const { return ends_with(name, buffers_); }

bool ParameterTable::is_unused(std::string_view name) const { return ends_with(name, unused_); }

const ParameterTensor* ParameterTable::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace headwise
