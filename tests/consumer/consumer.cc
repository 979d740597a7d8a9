// Somebody else's program that uses the installed headwise: how spread is the attention of a random
// head?
#include <headwise/headwise.h>

#include <cstdio>

int main() {
  headwise::Random random(7);
  std::vector<float> q(6 * 4), out(6 * 4);  // six rows, one head, width four
  for (float& x : q) x = random.normal();
  const headwise::View<float, 3> view(q.data(), {6, 1, 4});
  const std::vector<int64_t> offsets = {0, 6};
  headwise::AttentionObserver seen;
  attention_forward(
      {.q = view, .k = view, .v = view, .q_offsets = offsets, .mask = {.causal = true}},
      {out.data(), {6, 1, 4}}, {}, &seen);
  std::printf("entropy %.3f nats\n", seen.heads[0].entropy.mean());
}
