// Gates by name, against gates by number and against mean ablation.
#include "headwise/observe/head_gates.h"

#include <gmock/gmock.h>

#include <vector>

#include "golden/folder.h"
#include "headwise/core/error.h"

namespace headwise {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TokenBatch text() {
  TokenBatch batch;
  batch.add(std::vector<int32_t>{5, 9, 3, 7});
  return batch;
}

std::vector<float> hidden(const Model& model, const ForwardOptions& options) {
  const Activations rows = model.forward(text(), options);
  const float* const first = &rows.rows(0, 0);
  return {first, first + rows.rows.extent(0) * rows.rows.extent(1)};
}

TEST(HeadGates, AreSetByName) {
  const Model model = load(golden_model("bert").string());
  HeadGates gates(model);
  EXPECT_THAT(gates.values(), IsEmpty());
  EXPECT_EQ(hidden(model, gates.options()), hidden(model, {}));
  gates.set("L0", 0.5);
  gates.set("L0.H1", 0);
  std::vector<float> by_number(model.heads(), 1);
  for (int64_t head = 0; head < std::ssize(model.attentions()[0].heads); ++head)
    by_number[head] = 0.5f;
  by_number[1] = 0;
  EXPECT_EQ(gates.values(), by_number);
  EXPECT_EQ(hidden(model, gates.options()),
            hidden(model, {.gates = {by_number.data(), {1, model.heads()}}}));
}

TEST(HeadGates, RefuseWhatIsNoGate) {
  const Model model = load(golden_model("bert").string());
  HeadGates gates(model);
  for (const double wrong : {-0.1, 1.1, 0. / 0.}) EXPECT_THROW(gates.set("L0.H1", wrong), Error);
  EXPECT_THROW(gates.set("L9.H1", 0), Error);
  EXPECT_THAT(gates.values(), IsEmpty());
}

TEST(HeadGates, MeansReplaceOutputsOnceTheyAreMeasured) {
  const Model model = load(golden_model("bert").string());
  HeadGates gates(model);
  gates.set("L0.H0", 0);
  gates.set_to_mean("L0.H0");
  EXPECT_THAT(gates.mean_heads(), ElementsAre(0));
  EXPECT_EQ(hidden(model, gates.options()), hidden(model, {}));
  ObservedCorpus corpus;
  corpus.texts.push_back({.ids = {4, 4, 8}});
  gates.measure_means(corpus);
  const std::vector<HeadOutput> outputs = mean_outputs(model, corpus, std::vector<int64_t>{0});
  ASSERT_EQ(gates.replaced().size(), 1);
  EXPECT_EQ(gates.replaced()[0].output, outputs[0].output);
  ReplacedHeads replaced(outputs);
  EXPECT_EQ(hidden(model, gates.options()), hidden(model, {.observer = &replaced}));
  EXPECT_NE(hidden(model, gates.options()), hidden(model, {}));
  // A number takes a head back from its mean.
  gates.set("L0.H0", 1);
  EXPECT_THAT(gates.mean_heads(), IsEmpty());
}

}  // namespace
}  // namespace headwise
