// Any config.json is understood or refused by name, in little memory.
#include "headwise/model/config.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  headwise::fuzz::succeeds(
      [&] { headwise::parse_config(headwise::fuzz::text(data, size), "config.json"); });
  return 0;
}
