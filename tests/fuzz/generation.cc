// Any generation_config.json is understood as another parser does, or refused by name.
#include <nlohmann/json.hpp>

#include "files.h"
#include "fuzz.h"
#include "headwise/model/generate.h"
#include "json_mutator.h"

namespace headwise {
namespace {

using fuzz::must;

void compare(const GenerateOptions& options, const nlohmann::json& json) {
  const auto there = [&](const char* name) { return json.contains(name) && !json[name].is_null(); };
  must(options.beams == (there("num_beams") ? json["num_beams"].get<int64_t>() : 1), "other beams");
  must(options.sample == (there("do_sample") && json["do_sample"].get<bool>()),
       "another way to draw");
  if (there("temperature")) {
    must(options.temperature == static_cast<float>(json["temperature"].get<double>()),
         "another temperature");
  }
  if (there("top_k")) must(options.top_k == json["top_k"].get<int64_t>(), "another top_k");
  if (there("eos_token_id")) {
    const nlohmann::json& eos = json["eos_token_id"];
    const auto wanted =
        eos.is_array() ? eos.get<std::vector<int64_t>>() : std::vector<int64_t>{eos.get<int64_t>()};
    if (!wanted.empty()) {
      must(std::vector<int64_t>(options.eos.begin(), options.eos.end()) == wanted,
           "other tokens that end a text");
    }
  }
  for (const int32_t id : options.suppressed) must(id >= 0, "a token that is not there");
}

}  // namespace
}  // namespace headwise

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headwise;
  static const fuzz::Folder folder;
  const auto text = fuzz::text(data, size);
  folder.write("generation_config.json", text);
  fuzz::succeeds([&] {
    const GenerateOptions options = read_generation(folder.path(), ModelConfig());
    compare(options, nlohmann::json::parse(text));
  });
  return 0;
}
