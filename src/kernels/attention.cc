// Attention: checks, cuts the work into items, runs them, and adds up what they observed.
#include "headwise/kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "headwise/core/parallel.h"
#include "kernels/attention_checks.h"
#include "kernels/attention_forward.h"
#include "kernels/attention_plan.h"

namespace headwise {
namespace {

/// Rows per item, a function of the shapes alone: enough to make packing cheap, few enough to share
/// the work.
std::vector<ForwardItem> cut_forward(const AttentionPlan& plan) {
  constexpr size_t kEnoughItems = 16;
  std::vector<ForwardItem> items;
  for (int64_t rows_per_item = 2048; rows_per_item >= 128; rows_per_item /= 2) {
    items.clear();
    int64_t sums = 0;
    for (int64_t b = 0; b < plan.B; ++b) {
      const int64_t rows = plan.sequences[b].q_rows;
      for (int64_t kv = 0; kv < plan.K; ++kv) {
        const int64_t group = static_cast<int64_t>(plan.query_heads[kv].size());
        if (group == 0 || rows == 0) continue;
        const int64_t parts = (rows * group + rows_per_item - 1) / rows_per_item;
        const int64_t part = (rows + parts - 1) / parts;
        for (int64_t begin = 0; begin < rows; begin += part) {
          items.push_back({b, kv, begin, std::min(rows, begin + part), sums});
          sums += group;
        }
      }
    }
    if (items.size() >= kEnoughItems) break;
  }
  return items;
}

/// Every row that is compared has a number for each of its keys.
void check_compared(const AttentionPlan& plan, const AttentionObserver& observer) {
  const View<const float, 2>& numbers = observer.compared_with;
  const int64_t R = numbers.extent(0), columns = numbers.extent(1);
  check_view("the observer's compared_with", numbers, {R, columns}, R == 0);
  check_view("the observer's correlation", observer.correlation, {R, plan.H}, R == 0);
  if (R > 0 && columns > 1 && numbers.stride(1) != 1) {
    throw Error({.what = "attention: the observer's compared_with has gaps between the keys",
                 .got = fmt::format("a stride of {}", numbers.stride(1)),
                 .expected = "1"});
  }
  std::vector<uint8_t> named(R);
  for (int64_t b = 0; b < plan.B && !observer.compared.empty(); ++b) {
    const SequenceRows& sequence = plan.sequences[b];
    for (int64_t t = sequence.q_begin; t < sequence.q_begin + sequence.q_rows; ++t) {
      const int64_t index = observer.compared[t];
      if (index == -1) continue;
      const bool has_all = index >= 0 && index < R && sequence.k_rows <= columns;
      if (has_all && std::exchange(named[index], 1) == 0) continue;
      throw Error({.what = "attention: the observer has no numbers for a compared row",
                   .where = fmt::format("row {}, with {} keys", t, sequence.k_rows),
                   .got = fmt::format("number {} of compared_with, [{}, {}]", index, R, columns),
                   .expected = "-1, or a row of it that has all keys and is no other row's"});
    }
  }
}

void check_observer(const AttentionPlan& plan, const AttentionObserver& observer) {
  const auto count = [](const char* name, size_t got, int64_t expected) {
    if (got == 0 || static_cast<int64_t>(got) == expected) return;
    throw Error({.what = fmt::format("attention: the observer's {} have the wrong number", name),
                 .got = fmt::format("{}", got),
                 .expected = fmt::format("{}", expected)});
  };
  count("heads", observer.heads.size(), plan.H);
  count("given keys", observer.given_key.size(), plan.T);
  count("left out keys", observer.left_out.size(), plan.S);
  count("compared rows", observer.compared.size(), plan.T);
  for (int64_t b = 0; b < plan.B && !observer.given_key.empty(); ++b) {
    const SequenceRows& sequence = plan.sequences[b];
    for (int64_t t = sequence.q_begin; t < sequence.q_begin + sequence.q_rows; ++t) {
      const int64_t key = observer.given_key[t];
      if (key >= -1 && key < sequence.k_rows) continue;
      throw Error({.what = "attention: the observer's given key is not one of its sequence",
                   .where = fmt::format("row {}", t),
                   .got = fmt::format("{}", key),
                   .expected = fmt::format("-1 to {}", sequence.k_rows - 1)});
    }
  }
  check_view("the observer's key sets", observer.key_sets, {observer.key_sets.extent(0), plan.S},
             true);
  check_view("the observer's largest", observer.largest, {plan.T, plan.H}, true);
  check_view("the observer's largest_kept", observer.largest_kept, {plan.T, plan.H}, true);
  check_view("the observer's given_weight", observer.given_weight, {plan.T, plan.H}, true);
  check_compared(plan, observer);
}

/// Counts the offsets d in [-8, 8] at which each row sees a key, from first and last ones.
class OffsetCounts {
 public:
  void add(int64_t position, Interval keys) {
    const int64_t first = std::max<int64_t>(keys.begin - position, -kMaxOffset);
    const int64_t last = std::min<int64_t>(keys.end - 1 - position, kMaxOffset);
    if (first > last) return;
    ++changes_[first + kMaxOffset];
    --changes_[last + 1 + kMaxOffset];
  }
  void store(HeadStatistics& counts) const {
    int64_t n = 0;
    for (size_t d = 0; d < counts.offset_share.size(); ++d) {
      counts.offset_share[d].n = n += changes_[d];
    }
  }

 private:
  std::array<int64_t, 2 * kMaxOffset + 2> changes_{};
};

/// The same for every head: which rows count for which statistic, which keys are in which set.
ObservedRows observe_rows(const AttentionPlan& plan, const AttentionObserver& observer) {
  ObservedRows seen;
  seen.inverse_log_visible.resize(plan.T);
  HeadStatistics& counts = seen.counts;
  OffsetCounts offsets;
  int64_t visible_before = 0;
  float inverse_log = 0;
  for (const SequenceRows& sequence : plan.sequences) {
    for (int64_t i = 0; i < sequence.q_real; ++i) {
      const int64_t t = sequence.q_begin + i, p = plan.position(sequence, i);
      const Interval keys = plan.visible(sequence, static_cast<int32_t>(p));
      const auto sees = [&](int64_t key) { return key >= keys.begin && key < keys.end; };
      if (keys.empty()) continue;
      const int64_t visible = keys.end - keys.begin;
      if (visible > 1) {
        if (visible != visible_before) {
          inverse_log = static_cast<float>(1 / std::log(static_cast<double>(visible)));
          visible_before = visible;
        }
        seen.inverse_log_visible[t] = inverse_log;
        ++counts.entropy_ratio.n;
      }
      ++counts.entropy.n;
      counts.mass_last.n += !plan.causal() || sees(sequence.k_real - 1);
      counts.mass_given.n += !observer.given_key.empty() && sees(observer.given_key[t]);
      if (!observer.cross) offsets.add(p, keys);
    }
    std::vector<std::vector<int32_t>>& sets = seen.members.emplace_back();
    for (int64_t g = 0; g < observer.key_sets.extent(0); ++g) {
      std::vector<int32_t>& members = sets.emplace_back();
      for (int64_t j = 0; j < sequence.k_real; ++j) {
        if (observer.key_sets(g, sequence.k_begin + j) != 0) {
          members.push_back(static_cast<int32_t>(j));
        }
      }
    }
  }
  const int64_t rows = counts.entropy.n;
  counts.confidence.n = counts.mass_first.n = rows;
  counts.mass_key_set.resize(observer.key_sets.extent(0), {.sum = 0, .n = rows});
  (observer.cross ? counts.mass_diagonal : counts.distance).n = rows;
  counts.mass_window.n = counts.distance.n;
  counts.mass_sink.n = plan.has_sinks() ? rows : 0;
  offsets.store(counts);
  counts.mass_previous.n = counts.offset_share[kMaxOffset - 1].n;
  counts.mass_self.n = counts.offset_share[kMaxOffset].n;
  counts.mass_next.n = counts.offset_share[kMaxOffset + 1].n;
  return seen;
}

HeadStatistics statistics(const HeadSums& sums, HeadStatistics counts) {
  counts.entropy.sum = sums.entropy;
  counts.entropy_ratio.sum = sums.entropy_ratio;
  counts.confidence.sum = sums.confidence;
  counts.distance.sum = sums.distance;
  counts.mass_sink.sum = sums.sink;
  counts.mass_previous.sum = sums.mass[HeadSums::kPrevious];
  counts.mass_self.sum = sums.mass[HeadSums::kSelf];
  counts.mass_next.sum = sums.mass[HeadSums::kNext];
  counts.mass_window.sum = sums.mass[HeadSums::kWindow];
  counts.mass_first.sum = sums.mass[HeadSums::kFirst];
  counts.mass_last.sum = sums.mass[HeadSums::kLast];
  counts.mass_given.sum = sums.mass[HeadSums::kGiven];
  counts.mass_diagonal.sum = sums.mass[HeadSums::kDiagonal];
  for (size_t d = 0; d < counts.offset_share.size(); ++d) {
    counts.offset_share[d].sum = static_cast<double>(sums.largest_at[d]);
  }
  for (size_t g = 0; g < counts.mass_key_set.size(); ++g) {
    counts.mass_key_set[g].sum = sums.key_set[g];
  }
  return counts;
}

/// Items in their order, so that the sums have the same bits whatever the threads.
void add_up(const AttentionPlan& plan, const std::vector<ForwardItem>& items,
            const Observation& observation, AttentionObserver& observer) {
  observer.heads.resize(plan.H);
  std::vector<HeadSums> totals(plan.H);
  for (HeadSums& total : totals) total.key_set.resize(observer.key_sets.extent(0));
  for (const ForwardItem& item : items) {
    const std::vector<int32_t>& heads = plan.query_heads[item.kv_head];
    for (size_t g = 0; g < heads.size(); ++g) {
      totals[heads[g]] += observation.sums[item.sums + g];
    }
  }
  for (int64_t h = 0; h < plan.H; ++h) {
    observer.heads[h] += statistics(totals[h], observation.rows.counts);
  }
}

}  // namespace

HeadSums& HeadSums::operator+=(const HeadSums& other) {
  entropy += other.entropy;
  entropy_ratio += other.entropy_ratio;
  confidence += other.confidence;
  distance += other.distance;
  sink += other.sink;
  for (size_t m = 0; m < mass.size(); ++m) mass[m] += other.mass[m];
  for (size_t d = 0; d < largest_at.size(); ++d) largest_at[d] += other.largest_at[d];
  for (size_t g = 0; g < key_set.size(); ++g) key_set[g] += other.key_set[g];
  return *this;
}

HeadStatistics& HeadStatistics::operator+=(const HeadStatistics& other) {
  entropy += other.entropy;
  entropy_ratio += other.entropy_ratio;
  confidence += other.confidence;
  mass_first += other.mass_first;
  mass_last += other.mass_last;
  mass_given += other.mass_given;
  mass_sink += other.mass_sink;
  distance += other.distance;
  mass_previous += other.mass_previous;
  mass_self += other.mass_self;
  mass_next += other.mass_next;
  mass_window += other.mass_window;
  mass_diagonal += other.mass_diagonal;
  for (size_t d = 0; d < offset_share.size(); ++d) offset_share[d] += other.offset_share[d];
  mass_key_set.resize(std::max(mass_key_set.size(), other.mass_key_set.size()));
  for (size_t g = 0; g < other.mass_key_set.size(); ++g) mass_key_set[g] += other.mass_key_set[g];
  return *this;
}

std::vector<int32_t> t5_buckets(int64_t buckets, int64_t max_distance, bool bidirectional) {
  const int64_t half = bidirectional ? buckets / 2 : buckets;
  const int64_t exact = half / 2;
  constexpr int64_t kMost = int64_t{1} << 24;
  if (exact < 1 || max_distance <= exact || max_distance > kMost || buckets > kMost) {
    throw Error({.what = "t5_buckets: these buckets cannot be laid out",
                 .got = fmt::format("{} buckets, distance {}", buckets, max_distance),
                 .expected = fmt::format(
                     "at least one exact bucket, a larger distance, and at most {}", kMost)});
  }
  // In float, as T5 has it: at powers of two the rounding decides.
  const float spread = std::log(static_cast<float>(max_distance) / static_cast<float>(exact));
  const auto bucket_of = [&](int64_t far) {
    if (far < exact) return far;
    const float log = std::log(static_cast<float>(far) / static_cast<float>(exact));
    return std::min(half - 1,
                    exact + static_cast<int64_t>(log / spread * static_cast<float>(half - exact)));
  };
  std::vector<int32_t> result;
  for (int64_t d = -max_distance; d <= max_distance; ++d) {
    const int64_t side = bidirectional && d > 0 ? half : 0;
    const int64_t far = bidirectional ? std::abs(d) : std::max<int64_t>(0, -d);
    result.push_back(static_cast<int32_t>(side + bucket_of(far)));
  }
  return result;
}

void attention_forward(const Attention& attention, View<float, 3> out, View<float, 2> lse,
                       AttentionObserver* observer) {
  AttentionPlan plan(attention);
  check_view("out", out, {plan.T, plan.H, plan.Dv}, false);
  check_view("lse", lse, {plan.T, plan.H}, true);
  const std::vector<ForwardItem> items = cut_forward(plan);
  const auto run = [&](Observation* observation) {
    const ForwardOutputs outputs{out, lse, observation};
    parallel_panels(
        std::ssize(items), items_at_once(std::ssize(items)), [&](int64_t begin, int64_t end) {
          attention_forward_items(plan, std::span(items).subspan(begin, end - begin), outputs);
        });
  };
  if (observer == nullptr) return run(nullptr);
  check_observer(plan, *observer);
  if (!observer->cross) plan.need_distances();
  const ObservedRows rows = observe_rows(plan, *observer);
  Observation observation{*observer, rows, {}};
  for (const ForwardItem& item : items) {
    observation.sums.resize(item.sums + plan.query_heads[item.kv_head].size());
  }
  for (HeadSums& sums : observation.sums) sums.key_set.resize(observer->key_sets.extent(0));
  run(&observation);
  add_up(plan, items, observation, *observer);
}

}  // namespace headwise
