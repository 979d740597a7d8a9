// Somebody else's program: a study with progress that is cancelled, and goes on.
// usage: study FOLDER
#include <headwise/headwise.h>

#include <cstdio>
#include <set>

#include "small_model.h"

namespace {

struct Cancelled {};

}  // namespace

int main(int, char** arguments) try {
  make_small_model(arguments[1]);
  std::filesystem::current_path(arguments[1]);
  const headwise::Model model = headwise::load("./bert");
  const headwise::StudyInput input{.texts = headwise::read_lines("reviews.txt")};

  headwise::StudyOptions options{.keep = 0.75};
  options.progress = [](const headwise::StudyProgress& progress) {
    if (progress.stage == "ablation") throw Cancelled();
  };
  bool cancelled = false;
  try {
    (void)headwise::study(model, input, options, "study");
  } catch (const Cancelled&) {
    cancelled = true;
  }

  std::set<std::string> stages;
  options.resume = true;
  options.progress = [&](const headwise::StudyProgress& progress) {
    stages.emplace(progress.stage);
  };
  const headwise::Study study = headwise::study(model, input, options, "study");
  for (const std::string& stage : stages) std::printf("%s ", stage.c_str());
  std::printf("\n%d heads go\n", static_cast<int>(study.plan.drop.size()));
  const bool page = std::filesystem::exists("study/report.html");

  // The same in memory, without files.
  const headwise::Study other = headwise::study(model, {.texts = input.texts}, {.keep = 0.75});
  const bool same = other.plan == study.plan && other.pruned && other.pruned->heads() == 6 &&
                    headwise::report(other).find("</html>") != std::string::npos;
  return cancelled && page && same && stages.contains("ablation") && !stages.contains("attention")
             ? 0
             : 1;
} catch (const headwise::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
