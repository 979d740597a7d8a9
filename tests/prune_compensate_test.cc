// What is done about what dropped heads said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "io/io_testing.h"
#include "prune_testing.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// The rows that one attention adds to the residual stream.
class Projected : public ForwardObserver {
 public:
  explicit Projected(std::string name) : name_(std::move(name)) {}
  bool wants_attn_out() const override { return true; }
  void on_attn_out(const AttentionSite& site, View<const float, 2> rows) override {
    if (site.name != name_) return;
    width = rows.extent(1);
    values.assign(rows.data(), rows.data() + rows.extent(0) * width);
  }
  std::vector<float> mean() const {
    std::vector<float> mean(width);
    const auto rows = static_cast<float>(std::ssize(values) / width);
    for (size_t i = 0; i < values.size(); ++i) mean[i % width] += values[i] / rows;
    return mean;
  }
  std::vector<float> values{};
  int64_t width = 0;

 private:
  std::string name_;
};

double squared_error(const Projected& a, const Projected& b) {
  double sum = 0;
  for (size_t i = 0; i < a.values.size(); ++i) {
    const double d = double{a.values[i]} - double{b.values[i]};
    sum += d * d;
  }
  return sum;
}

TEST(PruneCompensate, SaysInTheMeanWhatWasSaid) {
  for (const char* name : {"bert", "gpt2", "gpt_neox", "marian"}) {
    const TemporaryFolder temporary;
    const Model model = load(golden_model(name));
    const Texts texts(model.config());
    const std::string site = model.attentions()[0].name;
    double last = INFINITY;
    Projected whole(site);
    hidden(model, texts, {}, &whole);
    for (const Compensation compensation_kind :
         {Compensation::none, Compensation::mean, Compensation::least_squares}) {
      const fs::path out = temporary.path() / std::string(to_string(compensation_kind));
      prune_to(golden_model(name), {site + ".H0", site + ".H2"}, out,
               {.compensate = compensation_kind,
                .ridge = 1e-9,
                .source = texts.source,
                .target = texts.target});
      Projected left(site);
      hidden(load(out), texts, {}, &left);
      const double error = squared_error(whole, left);
      EXPECT_LT(error, last) << name << " " << to_string(compensation_kind);
      last = error;
      if (compensation_kind == Compensation::none) continue;
      for (size_t i = 0; i < left.mean().size(); ++i) {
        EXPECT_NEAR(left.mean()[i], whole.mean()[i], 1e-5) << to_string(compensation_kind);
      }
    }
  }
}

TEST(PruneCompensate, LeastSquaresChangesNothingForOneText) {
  const TemporaryFolder temporary;
  const Model model = load(golden_model("llama"));
  const Texts all(model.config());
  TokenBatch one;
  one.add(std::span(all.source.ids).first(all.source.offsets[1]));
  Activations outputs[2];
  for (const auto& [compensation_kind, output] :
       {std::pair{Compensation::none, &outputs[0]},
        std::pair{Compensation::least_squares, &outputs[1]}}) {
    const fs::path out = temporary.path() / std::string(to_string(compensation_kind));
    prune_to(golden_model("llama"), {"L0.H1"}, out,
             {.compensate = compensation_kind, .source = one});
    *output = hidden(load(out), all);
  }
  EXPECT_EQ(difference(outputs[0], outputs[1]), 0);  // no other text says whether it would help
}

TEST(PruneCompensate, LeastSquaresNeedsNoBias) {
  const TemporaryFolder temporary;
  const Model model = load(golden_model("llama"));
  const Texts texts(model.config());
  Projected whole("L0"), none("L0"), solved("L0");
  hidden(model, texts, {}, &whole);
  for (const auto& [compensation_kind, seen] :
       {std::pair{Compensation::none, &none}, std::pair{Compensation::least_squares, &solved}}) {
    const fs::path out = temporary.path() / std::string(to_string(compensation_kind));
    prune_to(golden_model("llama"), {"L0.H1"}, out,
             {.compensate = compensation_kind, .source = texts.source});
    hidden(load(out), texts, {}, seen);
  }
  EXPECT_LT(squared_error(whole, solved), squared_error(whole, none));
  const auto refused = [&](const PruneOptions& options) {
    return error_of(
        [&] { prune_to(golden_model("llama"), {"L0.H1"}, temporary.path() / "other", options); });
  };
  EXPECT_THAT(refused({.compensate = Compensation::mean, .source = texts.source}).hint,
              HasSubstr("least_squares"));
  EXPECT_THAT(refused({.compensate = Compensation::least_squares}).what, HasSubstr("texts"));
}

}  // namespace
}  // namespace headwise
