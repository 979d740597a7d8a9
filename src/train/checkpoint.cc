// Writes and reads checkpoints, and compares trainings.
#include "train/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "headwise/core/error.h"
#include "headwise/io/tensor_file.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kKey = "headwise.train";  // in the metadata of the file

TensorToWrite tensor_of(const std::string& name, std::span<const float> values) {
  return {.name = name, .shape = {std::ssize(values)}, .bytes = std::as_bytes(values)};
}

[[noreturn]] void refuse(const fs::path& where, const std::string& field, std::string before,
                         std::string now) {
  throw Error({.what = fmt::format("the training that was begun here is another one: {}", field),
               .where = where.string(),
               .got = std::move(now),
               .expected = fmt::format("{}, as it was begun", before),
               .hint =
                   "go on with what it was begun with (settings.json in the folder says it), or "
                   "choose another folder"});
}

/// "optimizer.rate" of "/optimizer/rate".
std::string field_of(const std::string& pointer) {
  std::string field = pointer.empty() ? "" : pointer.substr(1);
  std::ranges::replace(field, '/', '.');
  return field;
}

void compare_settings(const fs::path& where, const std::string& before, const std::string& now) {
  if (before == now) return;
  const json old_fields = parse_json(before, where.string()).flatten();
  const json new_fields = parse_json(now, "the settings").flatten();
  const auto text = [](const json& fields, const std::string& name) {
    return fields.contains(name) ? fields[name].dump() : "nothing";
  };
  for (const json* fields : {&new_fields, &old_fields}) {
    for (const auto& [name, value] : fields->items()) {
      const std::string was = text(old_fields, name), is = text(new_fields, name);
      if (was != is) refuse(where, field_of(name), was, is);
    }
  }
}

void read_into(const TensorFiles& files, const std::string& name, std::span<float> values) {
  const TensorInfo* tensor = files.find(name);
  if (tensor == nullptr || tensor->size() != std::ssize(values)) {
    refuse(files.files().front(), fmt::format("the model's {}", name),
           tensor == nullptr ? "nothing" : fmt::format("{} numbers", tensor->size()),
           fmt::format("{} numbers", values.size()));
  }
  files.read(*tensor, values);
}

}  // namespace

std::map<std::string, std::string> read_file_identities(const JsonObject& object) {
  std::map<std::string, std::string> files;
  for (const std::string& name : object.names()) files[name] = object.text(name);
  return files;
}

std::string to_json(const TrainState& s, const TrainIdentity& identity) {
  const json object = {{"schema", 1},
                       {"step", s.step},
                       {"epoch", s.epoch},
                       {"batch", s.batch},
                       {"tokens", s.tokens},
                       {"seconds", s.seconds},
                       {"step_seconds", s.step_seconds},
                       {"log_bytes", s.log_bytes},
                       {"evaluated", s.evaluated},
                       {"best_step", s.best_step},
                       {"best", s.best},
                       {"stale", s.stale},
                       {"recent", s.recent},
                       {"settings", identity.settings},
                       {"seed", std::to_string(identity.seed)},
                       {"files", identity.files},
                       {"simd", identity.simd}};
  return object.dump();
}

std::pair<TrainState, TrainIdentity> train_state_from_json(std::string_view text,
                                                           const std::string& where) {
  const json parsed = parse_json(text, where);
  const JsonObject object(parsed, where);
  (void)object.integer("schema", 1, 1);
  TrainIdentity identity{.settings = object.text("settings"),
                         .files = read_file_identities(object.object("files")),
                         .simd = object.text("simd")};
  const std::string& seed = object.text("seed");
  const char* const end = seed.data() + seed.size();
  const auto [read, error] = std::from_chars(seed.data(), end, identity.seed);
  if (error != std::errc() || read != end) object.refuse("seed", "a seed is no number", "a number");
  TrainState state{.step = object.integer("step"),
                   .epoch = object.integer("epoch"),
                   .batch = object.integer("batch"),
                   .tokens = object.integer("tokens"),
                   .seconds = object.number("seconds"),
                   .step_seconds = object.number("step_seconds"),
                   .log_bytes = object.integer("log_bytes"),
                   .evaluated = object.integer("evaluated", -1),
                   .best_step = object.integer("best_step", -1),
                   .best = object.number("best"),
                   .stale = object.integer("stale"),
                   .recent = object.integers("recent")};
  return {std::move(state), std::move(identity)};
}

void require_same(const fs::path& where, const TrainIdentity& before, const TrainIdentity& now) {
  compare_settings(where, before.settings, now.settings);
  if (before.seed != now.seed) {
    refuse(where, "seed", std::to_string(before.seed), std::to_string(now.seed));
  }
  for (const auto& [name, identity] : now.files) {
    const auto found = before.files.find(name);
    const std::string was = found == before.files.end() ? "nothing" : found->second;
    if (was != identity) refuse(where, "the contents of " + name, was, identity);
  }
  for (const auto& [name, was] : before.files) {
    if (!now.files.contains(name)) refuse(where, name, was, "nothing");
  }
}

fs::path Checkpoints::snapshot_file(int64_t step) const {
  return folder_ / fmt::format("step-{}.safetensors", step);
}

bool Checkpoints::exist() const { return fs::exists(state_file()); }

void Checkpoints::write(const TrainState& state, const TrainIdentity& identity,
                        TrainableModel& model, const Optimizer& optimizer) const {
  std::vector<TensorToWrite> tensors;
  const auto parameters = model.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& [m, v] = optimizer.moments()[i];
    tensors.push_back(tensor_of(parameters[i].name, parameters[i].values));
    if (m.size() == 0) continue;
    tensors.push_back(tensor_of(parameters[i].name + " m", m.span()));
    tensors.push_back(tensor_of(parameters[i].name + " v", v.span()));
  }
  write_tensors(state_file(), tensors, {{kKey, to_json(state, identity)}});
}

TrainState Checkpoints::read(const TrainIdentity& identity, TrainableModel& model,
                             Optimizer& optimizer, std::optional<std::string>& other_simd) const {
  const TensorFiles files = TensorFiles::open(state_file());
  const auto text = files.metadata().find(kKey);
  if (text == files.metadata().end()) {
    throw Error({.what = "this is no checkpoint of a training", .where = state_file().string()});
  }
  auto [state, before] = train_state_from_json(text->second, state_file().string());
  require_same(state_file(), before, identity);
  if (before.simd != identity.simd) other_simd = before.simd;
  const auto parameters = model.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& [m, v] = optimizer.moments()[i];
    read_into(files, parameters[i].name, parameters[i].values);
    if (m.size() == 0) continue;
    read_into(files, parameters[i].name + " m", m.span());
    read_into(files, parameters[i].name + " v", v.span());
  }
  return state;
}

void Checkpoints::write_snapshot(int64_t step, TrainableModel& model) const {
  std::vector<TensorToWrite> tensors;
  for (const Parameter& parameter : model.parameters()) {
    tensors.push_back(tensor_of(parameter.name, parameter.values));
  }
  write_tensors(snapshot_file(step), tensors, {});
}

void Checkpoints::remove_snapshots_but(const std::vector<int64_t>& kept) const {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool keep = std::ranges::any_of(
        kept, [&](int64_t step) { return snapshot_file(step).filename() == name; });
    if (name.starts_with("step-") && !keep) fs::remove(entry.path(), ignored);
  }
}

void Checkpoints::load_mean(const std::vector<int64_t>& steps, TrainableModel& model) const {
  std::vector<TensorFiles> all;
  for (const int64_t step : steps) all.push_back(TensorFiles::open(snapshot_file(step)));
  for (const Parameter& parameter : model.parameters()) {
    std::vector<double> sum(parameter.values.size());
    std::vector<float> values(parameter.values.size());
    for (const TensorFiles& files : all) {
      read_into(files, parameter.name, values);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
    }
    const auto count = static_cast<double>(steps.size());
    std::ranges::transform(sum, parameter.values.begin(),
                           [&](double total) { return static_cast<float>(total / count); });
  }
}

}  // namespace headwise
