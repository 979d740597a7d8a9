// Any settings of a training are understood or refused by name; a new model that is understood has
// a config that can be read.
#include "fuzz.h"
#include "headwise/model/config.h"
#include "headwise/train/settings.h"
#include "train/scratch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  headwise::TrainSettings settings;
  if (!headwise::fuzz::succeeds([&] {
        settings = headwise::parse_train_settings(headwise::fuzz::text(data, size), "settings.json",
                                                  "/folder");
      }) ||
      !settings.scratch) {
    return 0;
  }
  const auto config = headwise::scratch_config(
      *settings.scratch, {.task = settings.task, .vocabulary = settings.scratch->vocabulary});
  headwise::fuzz::must(
      headwise::fuzz::succeeds([&] { (void)headwise::parse_config(config, "config.json"); }),
      "a new model has no config");
  return 0;
}
