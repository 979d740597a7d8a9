// The statistics that the attention kernel gathers: entropy, distance, masses, offsets.
#include <string>

#include "observe/head_metric.h"
#include "observe/token_kinds.h"

namespace headwise {
namespace {

/// The sets of keys whose mass is measured, one row of bytes each.
struct KeySets {
  std::vector<uint8_t> members{};
  View<const uint8_t, 2> view{};
};

class Statistics : public HeadMetric {
 public:
  explicit Statistics(const MetricContext& context) : kinds_(context, TokenKinds::Marks::known) {}

  bool wants_weights() const override { return true; }

  void begin(const MetricBatch& batch) override {
    batch_ = &batch;
    fill(batch.source, source_);
    fill(batch.target, target_);
  }

  void on_attention(const AttentionSite& site, const Attention&,
                    AttentionObserver& observer) override {
    observer.key_sets = (&batch_->keys(site) == &batch_->source ? source_ : target_).view;
    observers_[site.first] = &observer;
  }

  void finish(std::span<Measures> heads, Evidence&) override {
    for (const auto& [first, observer] : observers_) {
      for (size_t h = 0; h < observer->heads.size(); ++h) {
        add(observer->heads[h], observer->cross, heads[first + h]);
      }
    }
  }

 private:
  void fill(const TokenBatch& tokens, KeySets& sets) const {
    sets.members = kinds_.special(*batch_, tokens);
    if (kinds_.knows_punctuation()) {
      const std::vector<uint8_t> marks = kinds_.punctuation(tokens);
      sets.members.insert(sets.members.end(), marks.begin(), marks.end());
    }
    sets.view = {sets.members.data(), {kinds_.knows_punctuation() ? 2 : 1, tokens.rows()}};
  }

  void add(const HeadStatistics& s, bool cross, Measures& head) const {
    const auto mean = [&](const std::string& name, const RunningMean& running_mean) {
      head.add(name, {.value = running_mean.mean(), .n = running_mean.n});
    };
    mean("entropy", s.entropy);
    mean("entropy_ratio", s.entropy_ratio);
    mean("confidence", s.confidence);
    mean("mass_first", s.mass_first);
    mean("mass_last", s.mass_last);
    if (!s.mass_key_set.empty()) mean("mass_special", s.mass_key_set[0]);
    if (s.mass_key_set.size() > 1) mean("mass_punctuation", s.mass_key_set[1]);
    if (cross) {
      mean("diagonal", s.mass_diagonal);
      return;
    }
    mean("distance", s.distance);
    mean("mass_previous", s.mass_previous);
    mean("mass_self", s.mass_self);
    mean("mass_next", s.mass_next);
    mean("mass_window", s.mass_window);
    for (int offset = -kMaxOffset; offset <= kMaxOffset; ++offset) {
      mean("offset_share/" + std::to_string(offset), s.offset_share[offset + kMaxOffset]);
    }
  }

  TokenKinds kinds_;
  const MetricBatch* batch_ = nullptr;
  KeySets source_, target_;
  std::map<int64_t, const AttentionObserver*> observers_;  // by AttentionSite::first
};

}  // namespace

std::unique_ptr<HeadMetric> statistics_metric(const MetricContext& context) {
  return std::make_unique<Statistics>(context);
}

}  // namespace headwise
