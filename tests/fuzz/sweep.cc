// Any settings of a sweep are understood or refused by name. There are as many trials as another
// parser counts, each in a folder of its own inside the sweep's, with settings that can be read
// again.
#include "headwise/train/sweep.h"

#include <nlohmann/json.hpp>
#include <set>

#include "files.h"
#include "fuzz.h"
#include "json_mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headwise;
  using fuzz::must;
  const auto text = fuzz::text(data, size);
  const fuzz::MemoryFile file(text);
  Sweep sweep;
  if (!fuzz::succeeds([&] { sweep = read_sweep(file.path()); })) return 0;
  const nlohmann::json settings = nlohmann::json::parse(text);
  size_t trials = 1;
  for (const auto& values : settings.at("grid")) trials *= values.size();
  must(sweep.trials.size() == trials, "other trials than another parser counts");
  std::set<std::string> names;
  for (const Trial& trial : sweep.trials) {
    must(names.insert(trial.name).second, "two trials have one folder");
    must(!trial.name.empty() && trial.name.find('/') == trial.name.npos &&
             !trial.name.starts_with('.'),
         "a trial outside the folder of the sweep");
    const TrainSettings again = parse_train_settings(trial.settings.text, "again.json", "/");
    must(again.identity == trial.settings.identity, "the settings of a trial change");
  }
  return 0;
}
