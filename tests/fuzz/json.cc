// Strict JSON accepts only what nlohmann-json accepts, and gives the same value.
#include "headwise/io/json.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using headwise::fuzz::must;
  const auto text = headwise::fuzz::text(data, size);
  headwise::fuzz::succeeds([&] {
    const nlohmann::json value = headwise::parse_json(text, "fuzz.json");
    must(value == nlohmann::json::parse(text), "another value than nlohmann's");
    must(headwise::parse_json(value.dump(), "again.json") == value,
         "another value when read again");
  });
  return 0;
}
