// What any checkpoint says of its training is understood as another parser does, and written and
// read again as the same, or refused by name.
#include "train/checkpoint.h"

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>

#include "fuzz.h"
#include "json_mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headwise;
  const auto text = fuzz::text(data, size);
  TrainState state;
  TrainIdentity identity;
  const auto read = [&] {
    std::tie(state, identity) = train_state_from_json(text, "state.safetensors");
  };
  if (!fuzz::succeeds(read)) return 0;
  const nlohmann::json json = nlohmann::json::parse(text);
  fuzz::must(json.at("step") == state.step && json.at("recent") == nlohmann::json(state.recent) &&
                 std::stoull(json.at("seed").get<std::string>()) == identity.seed &&
                 json.at("files") == nlohmann::json(identity.files),
             "another state than another parser finds");
  const std::string written = to_json(state, identity);
  const auto [again, same] = train_state_from_json(written, "again.safetensors");
  fuzz::must(to_json(again, same) == written, "a state changes");
  require_same("again.safetensors", identity, same);
  return 0;
}
