// Attention on arrays of NumPy and torch: one problem, which runs forward, backward and gives maps.
#include "headwise/kernels/attention.h"

#include <nanobind/stl/string.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "core.h"
#include "headwise/core/error.h"

namespace nb = nanobind;
using namespace nanobind::literals;

namespace headwise::python {
namespace {

GateScope scope(const std::string& name) {
  if (name == "head") return GateScope::kHead;
  if (name == "sequence") return GateScope::kSequence;
  if (name == "row") return GateScope::kRow;
  throw Error({.what = "attention: unknown scope of gates",
               .got = name,
               .expected = "head, sequence or row"});
}

/// The arrays of a problem, kept alive, and the views on them.
struct Problem {
  Array<const float, 3> q, k, v;
  List<const int64_t> q_offsets;
  Maybe<List<const int64_t>> k_offsets, q_lengths, k_lengths, positions;
  Maybe<List<const int32_t>> kv_head;
  Maybe<List<const float>> alibi_slopes, sinks;
  Maybe<Array<const float, 4>> bias;
  Maybe<Array<const float, 2>> gates;
  Attention attention{};
};

void make_problem(Problem* self, Array<const float, 3> q, Array<const float, 3> k,
                  Array<const float, 3> v, List<const int64_t> q_offsets,
                  Maybe<List<const int64_t>> k_offsets, Maybe<List<const int64_t>> q_lengths,
                  Maybe<List<const int64_t>> k_lengths, Maybe<List<const int64_t>> positions,
                  Maybe<List<const int32_t>> kv_head, bool causal, int64_t left, int64_t right,
                  Maybe<float> scale, float softcap, Maybe<List<const float>> alibi_slopes,
                  Maybe<Array<const float, 4>> bias, Maybe<List<const float>> sinks, float dropout,
                  float head_dropout, uint64_t seed, Maybe<Array<const float, 2>> gates,
                  const std::string& gate_scope) {
  new (self) Problem{std::move(q),         std::move(k),
                     std::move(v),         std::move(q_offsets),
                     std::move(k_offsets), std::move(q_lengths),
                     std::move(k_lengths), std::move(positions),
                     std::move(kv_head),   std::move(alibi_slopes),
                     std::move(sinks),     std::move(bias),
                     std::move(gates)};
  self->attention = {.q = view<3>(self->q),
                     .k = view<3>(self->k),
                     .v = view<3>(self->v),
                     .q_offsets = span(self->q_offsets),
                     .k_offsets = span(self->k_offsets),
                     .q_lengths = span(self->q_lengths),
                     .k_lengths = span(self->k_lengths),
                     .kv_head = span(self->kv_head),
                     .positions = span(self->positions),
                     .mask = {.causal = causal, .left = left, .right = right},
                     .scale = scale,
                     .softcap = softcap,
                     .alibi_slopes = span(self->alibi_slopes),
                     .bias = view<4>(self->bias),
                     .sinks = span(self->sinks),
                     .dropout = dropout,
                     .head_dropout = head_dropout,
                     .seed = seed,
                     .gates = view<2>(self->gates),
                     .gate_scope = scope(gate_scope)};
}

using Field = std::pair<const char*, RunningMean HeadStatistics::*>;
constexpr Field kFields[] = {
    {"entropy", &HeadStatistics::entropy},
    {"entropy_ratio", &HeadStatistics::entropy_ratio},
    {"confidence", &HeadStatistics::confidence},
    {"mass_first", &HeadStatistics::mass_first},
    {"mass_last", &HeadStatistics::mass_last},
    {"mass_sink", &HeadStatistics::mass_sink},
    {"mass_previous", &HeadStatistics::mass_previous},
    {"mass_self", &HeadStatistics::mass_self},
    {"mass_next", &HeadStatistics::mass_next},
    {"mass_window", &HeadStatistics::mass_window},
    {"mass_diagonal", &HeadStatistics::mass_diagonal},
    {"distance", &HeadStatistics::distance},
};

/// For each statistic, the sums and the numbers of rows of all heads.
nb::dict to_dict(const std::vector<HeadStatistics>& heads) {
  nb::dict result;
  for (const auto& [name, field] : kFields) {
    std::vector<double> sums;
    std::vector<int64_t> rows;
    for (const HeadStatistics& head : heads) {
      sums.push_back((head.*field).sum);
      rows.push_back((head.*field).n);
    }
    result[name] = nb::make_tuple(to_numpy(std::move(sums), {heads.size()}),
                                  to_numpy(std::move(rows), {heads.size()}));
  }
  return result;
}

nb::object forward(const Problem& problem, const Array<float, 3>& out,
                   const Maybe<Array<float, 2>>& lse, bool observe, bool cross) {
  AttentionObserver observer;
  observer.cross = cross;
  {
    const nb::gil_scoped_release released;
    attention_forward(problem.attention, view<3>(out), view<2>(lse), observe ? &observer : nullptr);
  }
  return observe ? nb::object(to_dict(observer.heads)) : nb::none();
}

/// The weights of every row: for each row, for each head, those on the keys of its sequence.
nb::object maps(const Problem& problem) {
  std::vector<int64_t> rows(problem.attention.q.extent(0));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  AttentionMaps found;
  {
    const nb::gil_scoped_release released;
    found = attention_maps(problem.attention, rows);
  }
  const size_t count = found.weights.size();
  return to_numpy(std::move(found.weights), {count});
}

void backward(const Problem& problem, const Array<const float, 3>& out,
              const Array<const float, 2>& lse, const Array<const float, 3>& dout,
              const Maybe<Array<float, 3>>& dq, const Maybe<Array<float, 3>>& dk,
              const Maybe<Array<float, 3>>& dv, const Maybe<Array<float, 2>>& dgates,
              const Maybe<Array<float, 4>>& dbias, const Maybe<List<float>>& dsinks) {
  const AttentionGradients gradients{.dq = view<3>(dq),
                                     .dk = view<3>(dk),
                                     .dv = view<3>(dv),
                                     .dgates = view<2>(dgates),
                                     .dbias = view<4>(dbias),
                                     .dsinks = span(dsinks),
                                     .at_zero_gates = true};
  const nb::gil_scoped_release released;
  attention_backward(problem.attention, view<3>(out), view<2>(lse), view<3>(dout), gradients);
}

}  // namespace

void bind_attention(nb::module_& module) {
  nb::class_<Problem>(module, "Attention",
                      "One attention: its arrays and parameters. See headwise.attention.")
      .def("__init__", &make_problem, "q"_a, "k"_a, "v"_a, "q_offsets"_a, nb::kw_only(),
           "k_offsets"_a = nb::none(), "q_lengths"_a = nb::none(), "k_lengths"_a = nb::none(),
           "positions"_a = nb::none(), "kv_head"_a = nb::none(), "causal"_a = false,
           "left"_a = kUnlimited, "right"_a = kUnlimited, "scale"_a = nb::none(),
           "softcap"_a = 0.0f, "alibi_slopes"_a = nb::none(), "bias"_a = nb::none(),
           "sinks"_a = nb::none(), "dropout"_a = 0.0f, "head_dropout"_a = 0.0f, "seed"_a = 0,
           "gates"_a = nb::none(), "gate_scope"_a = "head")
      .def("forward", &forward, "out"_a, "lse"_a = nb::none(), "observe"_a = false,
           "cross"_a = false,
           "Writes the outputs and the log-sum-exp of the scores. Returns the statistics of every "
           "head, as pairs of sums and numbers of rows, if asked to observe.")
      .def("maps", &maps,
           "The weights of every row, for each head, on the keys of its sequence, in one list.")
      .def("backward", &backward, "out"_a, "lse"_a, "dout"_a, nb::kw_only(), "dq"_a = nb::none(),
           "dk"_a = nb::none(), "dv"_a = nb::none(), "dgates"_a = nb::none(),
           "dbias"_a = nb::none(), "dsinks"_a = nb::none(), "Writes the gradients.");
}

}  // namespace headwise::python
