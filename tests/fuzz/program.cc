// Any text is a program or refused by line, in little memory.
#include "headwise/construct/program.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  headwise::fuzz::succeeds(
      [&] { headwise::Program::parse(headwise::fuzz::text(data, size), "program"); });
  return 0;
}
