// The step of AdamW against torch.optim.AdamW and its definition in double, on every SIMD target.
#include "headwise/kernels/adamw.h"

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/op_testing.h"

namespace headwise {
namespace {

class AdamWOp : public OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, AdamWOp, testing::ValuesIn(simd_targets()), target_name);

TEST_P(AdamWOp, FollowsPyTorch) {
  // torch 2.15: AdamW(lr=0.01, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.1)
  const std::vector<std::vector<float>> expected = {
      {0.4895000159740448f, -1.2387499809265137f, 1.9980000257492065f, -0.009990011341869831f,
       0.010999001562595367f, -2.986999988555908f},
      {0.4793863594532013f, -1.2275112867355347f, 1.9960020780563354f, -0.019598104059696198f,
       0.020336773246526718f, -2.98453950881958f},
      {0.46937912702560425f, -1.2162837982177734f, 1.9940061569213867f, -0.029101990163326263f,
       0.02910318598151207f, -2.9781970977783203f},
      {0.4593816101551056f, -1.20506751537323f, 1.9920121431350708f, -0.038597553968429565f,
       0.037369102239608765f, -2.975745439529419f}};
  std::vector<float> values = {0.5f, -1.25f, 2.0f, 0.0f, 1e-3f, -3.0f}, m(6), v(6);
  for (int step = 1; step <= 4; ++step) {
    const auto s = static_cast<float>(step);
    std::vector<float> gradient = {0.1f * s,  -0.2f,     0,
                                   1e-6f * s, -3.0f / s, step % 2 == 0 ? 0.5f : -0.5f};
    adamw(values, gradient, m, v,
          {.rate = 0.01, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-9, .decay = 0.1, .step = step});
    for (size_t i = 0; i < values.size(); ++i) {
      // A step moves by 0.01 at most, to a few ulp of it; then one rounding of the value a step.
      EXPECT_NEAR(values[i], expected[step - 1][i],
                  step * kUlp * (0.1 + std::abs(expected[step - 1][i])))
          << step << ' ' << i;
    }
  }
  EXPECT_FLOAT_EQ(m[4], -0.5052000284194946f);
  EXPECT_FLOAT_EQ(v[4], 0.2434825599193573f);
}

std::vector<float> numbers(int64_t size, uint64_t seed) {
  std::vector<float> result;
  Random random(seed);
  for (int64_t i = 0; i < size; ++i) result.push_back(2 * random.uniform() - 1);
  return result;
}

TEST_P(AdamWOp, MatchesTheDefinition) {
  const AdamW settings{.rate = 3e-4, .decay = 0.05, .step = 12, .gradient_scale = 0.25f};
  for (const int64_t size : {0, 1, 7, 16, 100001}) {
    const auto before = numbers(size, 1), gradient = numbers(size, 2), m_before = numbers(size, 3);
    auto values = before, left = gradient, m = m_before, v = numbers(size, 4);
    for (float& x : v) x = std::abs(x);
    const auto v_before = v;
    adamw(values, left, m, v, settings);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(left[i], 0);
      const double g = 0.25 * gradient[i];
      const double mean = settings.beta1 * m_before[i] + (1 - settings.beta1) * g;
      const double square = settings.beta2 * v_before[i] + (1 - settings.beta2) * g * g;
      const double spread = std::sqrt(square / (1 - std::pow(settings.beta2, 12)));
      const double move =
          settings.rate * mean / (1 - std::pow(settings.beta1, 12)) / (spread + settings.epsilon);
      const double expected = before[i] * (1 - settings.rate * settings.decay) - move;
      ASSERT_NEAR(m[i], mean, 2 * kUlp * (std::abs(m_before[i]) + std::abs(g)));
      ASSERT_NEAR(v[i], square, 2 * kUlp * square);
      // The factor of decay, its product and the sum round; the mean may cancel, and its move too.
      const double move_terms = std::abs(m_before[i]) + std::abs(g);
      ASSERT_NEAR(values[i], expected,
                  kUlp * (1.5 * std::abs(before[i]) + 8 * settings.rate * move_terms / spread));
    }
  }
}

TEST_P(AdamWOp, ThreadsChangeNoBit) {
  const auto before = numbers(200001, 1), gradient = numbers(200001, 2);
  const auto run = [&](int count) {
    set_threads(count);
    auto values = before;
    std::vector<float> m(before.size()), v(before.size());
    for (int step = 1; step <= 3; ++step) {
      auto left = gradient;
      adamw(values, left, m, v, {.step = step});
    }
    return values;
  };
  const auto one = run(1);
  for (const int count : {2, 3, 7}) EXPECT_EQ(one, run(count)) << count;
}

TEST(AdamWErrors, BadSizesAndStepsSayWhatWasExpected) {
  std::vector<float> values(4), m(4), v(4), wrong(3);
  std::vector<float> gradient(4);
  expect_error("adamw: the shape", [&] { adamw(values, wrong, m, v, {}); });
  expect_error("adamw: the shape", [&] { adamw(values, gradient, wrong, v, {}); });
  expect_error("adamw: the shape", [&] { adamw(values, gradient, m, wrong, {}); });
  expect_error("adamw: steps", [&] { adamw(values, gradient, m, v, {.step = 0}); });
}

}  // namespace
}  // namespace headwise
