// The backward pass: checks, the cut into items that never write to the same place at once, gate
// gradients.
#include "kernels/attention_backward.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_backward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention_backward-inl.h"

#if HWY_ONCE

#include <algorithm>
#include <cmath>
#include <vector>

#include "headwise/core/parallel.h"
#include "kernels/attention_checks.h"

namespace headwise {
namespace {

HWY_EXPORT(backward_items);

constexpr int64_t kEnoughItems = 8;
constexpr int64_t kKeyUnit = 256;  // partitions of keys are whole blocks of the kernel

/// Into how many parts keys and rows of every sequence are cut: a function of the shapes alone.
int64_t parts_of(const AttentionPlan& plan) {
  int64_t longest = 0;
  for (const SequenceRows& sequence : plan.sequences) longest = std::max(longest, sequence.k_real);
  const int64_t items = std::max<int64_t>(1, plan.B * plan.K);
  const int64_t wanted = (kEnoughItems + items - 1) / items;
  return std::clamp<int64_t>((longest + kKeyUnit - 1) / kKeyUnit, 1, wanted);
}

/// In phase f, part p of the keys meets part (p + f) mod parts of the rows: at any time every row
/// and every key is in one item, and both gather their sums in a fixed order, with no copies. The
/// first phase has all rows, also those of padding and those that meet no keys in it.
std::vector<BackwardItem> cut_phase(const AttentionPlan& plan, int64_t phase, int64_t parts) {
  std::vector<BackwardItem> items;
  for (int64_t b = 0; b < plan.B; ++b) {
    const SequenceRows& sequence = plan.sequences[b];
    const int64_t units = (sequence.k_real + kKeyUnit - 1) / kKeyUnit;
    const auto key_at = [&](int64_t part) {
      return std::min(units * part / parts * kKeyUnit, sequence.k_real);
    };
    const auto row_at = [&](int64_t part) {
      return part < parts ? sequence.q_real * part / parts : sequence.q_rows;
    };
    for (int64_t kv = 0; kv < plan.K; ++kv) {
      for (int64_t p = 0; p < parts; ++p) {
        const int64_t r = (p + phase) % parts;
        if (phase > 0 && key_at(p) == key_at(p + 1)) continue;
        items.push_back({b, kv, key_at(p), key_at(p + 1), row_at(r), row_at(r + 1), phase == 0});
      }
    }
  }
  return items;
}

void clear_padding(const BackwardData& data) {
  const AttentionPlan& plan = data.plan;
  const auto clear = [&](const View<float, 3>& view) {
    if (view.data() == nullptr) return;
    for (const SequenceRows& sequence : plan.sequences) {
      for (int64_t j = sequence.k_real; j < sequence.k_rows; ++j) {
        for (int64_t h = 0; h < view.extent(1); ++h) {
          for (int64_t c = 0; c < view.extent(2); ++c) view(sequence.k_begin + j, h, c) = 0;
        }
      }
    }
  };
  clear(data.gradients.dk);
  clear(data.gradients.dv);
}

/// Items write the gradient of the bias only where a row sees a key.
void clear_bias_gradient(const View<float, 4>& dbias) {
  if (dbias.data() == nullptr) return;
  parallel_for(dbias.extent(0) * dbias.extent(1), [&](int64_t at) {
    const int64_t b = at / dbias.extent(1), h = at % dbias.extent(1);
    for (int64_t i = 0; i < dbias.extent(2); ++i) {
      for (int64_t j = 0; j < dbias.extent(3); ++j) dbias(b, h, i, j) = 0;
    }
  });
}

/// A sink is a score whose value is 0: its gradient is -p delta, p = exp(sink - lse), over rows.
void sink_gradients(const BackwardData& data) {
  const AttentionPlan& plan = data.plan;
  parallel_for(plan.H, [&](int64_t h) {
    double sum = 0;
    for (int64_t t = 0; t < plan.T; ++t) {
      const float delta = data.delta[t * plan.H + h];
      if (delta == 0) continue;  // without a gradient; lse may be -infinity
      sum -= std::exp(double{plan.problem.sinks[h]} - double{data.lse(t, h)}) * delta;
    }
    data.gradients.dsinks[h] = static_cast<float>(sum);
  });
}

/// Per query head, in the order of phases and items.
void add_tables(const AttentionPlan& plan, const std::vector<BackwardItem>& items,
                const std::vector<std::vector<double>>& parts, std::vector<double>& table) {
  const int64_t buckets = plan.problem.relative_bias.table.extent(1);
  for (size_t i = 0; i < items.size(); ++i) {
    const std::vector<int32_t>& heads = plan.query_heads[items[i].kv_head];
    for (size_t g = 0; g < heads.size(); ++g) {
      for (int64_t r = 0; r < buckets; ++r) {
        table[heads[g] * buckets + r] += parts[i][g * buckets + r];
      }
    }
  }
}

void differentiate(BackwardData& data) {
  const AttentionPlan& plan = data.plan;
  const bool want_table = data.gradients.dtable.data() != nullptr;
  const int64_t buckets = want_table ? plan.problem.relative_bias.table.extent(1) : 0;
  std::vector<double> table(plan.H * buckets);
  const int64_t phases = parts_of(plan);
  for (int64_t phase = 0; phase < phases; ++phase) {
    const std::vector<BackwardItem> items = cut_phase(plan, phase, phases);
    std::vector<std::vector<double>> parts(want_table ? items.size() : 0);
    for (size_t i = 0; i < parts.size(); ++i) {
      parts[i].resize(plan.query_heads[items[i].kv_head].size() * buckets);
    }
    const auto count = std::ssize(items);
    parallel_panels(count, items_at_once(count), [&](int64_t begin, int64_t end) {
      const auto part = [&](auto& of_items) {
        return std::span(of_items).subspan(of_items.empty() ? 0 : begin,
                                           of_items.empty() ? 0 : end - begin);
      };
      HWY_DYNAMIC_DISPATCH(backward_items)(data, part(items), part(parts));
    });
    if (want_table) add_tables(plan, items, parts, table);
  }
  for (int64_t h = 0; h < (want_table ? plan.H : 0); ++h) {
    for (int64_t r = 0; r < buckets; ++r) {
      data.gradients.dtable(h, r) = static_cast<float>(table[h * buckets + r]);
    }
  }
}

/// What the heads gated off would have given: forward with gates of 1 where they are 0, and 0
/// elsewhere.
Buffer outputs_at_zero_gates(const AttentionPlan& plan) {
  const View<const float, 2>& gates = plan.problem.gates;
  const int64_t rows = gates.extent(0);
  Buffer flipped(rows * plan.H);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t h = 0; h < plan.H; ++h) flipped[i * plan.H + h] = gates(i, h) == 0 ? 1.0f : 0.0f;
  }
  Attention problem = plan.problem;
  problem.gates = flipped.view({rows, plan.H});
  Buffer out(plan.T * plan.H * plan.Dv);
  attention_forward(problem, out.view({plan.T, plan.H, plan.Dv}));
  return out;
}

/// dgate = sum over its rows of dout . (out / gate); out / gate is computed anew where the gate is
/// 0.
void gate_gradients(const BackwardData& data) {
  const AttentionPlan& plan = data.plan;
  const View<float, 2>& dgates = data.gradients.dgates;
  const bool at_zero = data.gradients.at_zero_gates;
  const Buffer hidden = at_zero ? outputs_at_zero_gates(plan) : Buffer();
  const View<const float, 3> z = hidden.view({at_zero ? plan.T : 0, plan.H, plan.Dv});
  const auto of_row = [&](int64_t b, int64_t t, int64_t h) -> double {
    const float gate = plan.problem_gate(b, t, h);
    if (gate != 0) return double{data.delta[t * plan.H + h]} / gate;
    double sum = 0;
    const bool real = t - plan.sequences[b].q_begin < plan.sequences[b].q_real;
    for (int64_t c = 0; at_zero && real && c < plan.Dv; ++c) {
      if (z(t, h, c) != 0) sum += double{z(t, h, c)} * data.dout(t, h, c);
    }
    return sum;
  };
  parallel_for(plan.H, [&](int64_t h) {
    double of_head = 0;
    for (int64_t b = 0; b < plan.B; ++b) {
      const SequenceRows& sequence = plan.sequences[b];
      double of_sequence = 0;
      for (int64_t t = sequence.q_begin; t < sequence.q_begin + sequence.q_rows; ++t) {
        const double value = of_row(b, t, h);
        of_sequence += value;
        if (plan.problem.gate_scope == GateScope::kRow) dgates(t, h) = static_cast<float>(value);
      }
      of_head += of_sequence;
      if (plan.problem.gate_scope == GateScope::kSequence) {
        dgates(b, h) = static_cast<float>(of_sequence);
      }
    }
    if (plan.problem.gate_scope == GateScope::kHead) dgates(0, h) = static_cast<float>(of_head);
  });
}

/// Gradients of a shared bias are written apart: no two elements in one place.
void check_places(const char* name, const View<float, 4>& view) {
  if (view.data() == nullptr) return;
  for (int r = 0; r < 4; ++r) {
    if (view.extent(r) < 2 || (r < 3 ? view.stride(r) != 0 : view.stride(r) == 1)) continue;
    throw Error({.what = fmt::format("attention: the strides of {} do not fit", name),
                 .got = fmt::format("a stride of {} in dimension {}", view.stride(r), r),
                 .expected = r < 3 ? "a place for every element" : "1"});
  }
}

void check(const BackwardData& data) {
  const AttentionPlan& plan = data.plan;
  const AttentionGradients& g = data.gradients;
  check_view("out", data.out, {plan.T, plan.H, plan.Dv}, false);
  check_view("dout", data.dout, {plan.T, plan.H, plan.Dv}, false);
  check_view("lse", data.lse, {plan.T, plan.H}, false);
  check_view("dq", g.dq, {plan.T, plan.H, plan.D}, true);
  check_view("dk", g.dk, {plan.S, plan.K, plan.D}, true);
  check_view("dv", g.dv, {plan.S, plan.K, plan.Dv}, true);
  check_view("dgates", g.dgates, plan.problem.gates.shape(), true);
  check_view("dtable", g.dtable, plan.problem.relative_bias.table.shape(), true);
  check_view("dbias", g.dbias, plan.problem.bias.shape(), true);
  check_places("dbias", g.dbias);
  check_view("dsinks", View<const float, 1>(g.dsinks.data(), {std::ssize(g.dsinks)}),
             {std::ssize(plan.problem.sinks)}, true);
}

}  // namespace

void attention_backward(const Attention& attention, View<const float, 3> out,
                        View<const float, 2> lse, View<const float, 3> dout,
                        const AttentionGradients& gradients) {
  const AttentionPlan plan(attention);
  BackwardData data{plan, out, dout, lse, gradients, Buffer(checked_mul(plan.T, plan.H))};
  check(data);
  clear_padding(data);
  clear_bias_gradient(gradients.dbias);
  differentiate(data);
  if (gradients.dgates.data() != nullptr) gate_gradients(data);
  if (!gradients.dsinks.empty()) sink_gradients(data);
}

}  // namespace headwise
#endif
