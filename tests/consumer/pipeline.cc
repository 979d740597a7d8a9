// Somebody else's program: from a model to a smaller one, in a few lines.
// usage: pipeline FOLDER
#include <headwise/headwise.h>

#include <cstdio>

#include "small_model.h"

int main(int, char** arguments) try {
  make_small_model(arguments[1]);
  std::filesystem::current_path(arguments[1]);

  headwise::Model model = headwise::load("./bert");

  headwise::TokenBatch batch;
  batch.add(model.tokenizer()->encode(headwise::read_lines("reviews.txt").front()).ids);
  headwise::HeadGates gates(model);
  gates.set("L0.H1", 0);
  auto before = model.forward(batch), after = model.forward(batch, gates.options());
  if (!(headwise::change_of(before.rows, after.rows).relative_norm() > 0)) return 1;

  auto evidence = headwise::observe(model, headwise::read_lines("reviews.txt"));
  auto verdict = headwise::judge(evidence);
  auto plan = headwise::plan(model, verdict, {.keep = 0.6});
  auto pruned = headwise::prune(model, plan);
  pruned.save("./bert-60");
  headwise::export_onnx(pruned, "./bert-60.onnx");

  const headwise::Model saved = headwise::load("./bert-60");
  std::printf("%d of %d heads are left\n", static_cast<int>(saved.heads()),
              static_cast<int>(model.heads()));
  auto again = headwise::observe(pruned, headwise::read_lines("reviews.txt"));
  const bool same_names = evidence.model.name == "bert" && evidence.model.sha256 == model.hash();
  return saved.heads() == 4 && again.heads.size() == 4 && same_names &&
                 saved.hash() == pruned.hash() && std::filesystem::exists("bert-60.onnx")
             ? 0
             : 1;
} catch (const headwise::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
