// coreference: whether a pronoun looks more at the name that it stands for than at another.
#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "observe/accuracy.h"
#include "observe/head_metric.h"
#include "observe/maps_in_parts.h"
#include "text/unicode.h"

namespace headwise {
namespace {

/// Sets of items: those with the pronoun before the right name, and those with it after that name,
/// also split by whether the right name is the nearest one.
enum Part { kAll, kBefore, kAfter, kNear, kFar, kParts };
constexpr std::array<const char*, kParts> kPartNames = {"coreference", "coreference/before",
                                                        "coreference/after", "coreference/near",
                                                        "coreference/far"};

/// The tokens of the pronoun and of both names; none if one of them has no tokens.
struct ItemTokens {
  TokenSpan pronoun{}, right{}, wrong{};
  std::array<int32_t, kParts> half{};  // of each part; -1: the item is not in it
};

/// What a pronoun gives to both names. The sum over its tokens does for their mean.
struct NameWeights {
  double right = 0, wrong = 0;

  void add(const ItemTokens& item, std::span<const float> weights) {
    for (int64_t key = item.right.begin; key < item.right.end; ++key) right += weights[key];
    for (int64_t key = item.wrong.begin; key < item.wrong.end; ++key) wrong += weights[key];
  }
};

/// Code points between the starts of two spans.
int64_t distance(std::string_view text, TokenSpan a, TokenSpan b) {
  const int64_t begin = std::min(a.begin, b.begin), end = std::max(a.begin, b.begin);
  return std::ranges::count_if(text.substr(begin, end - begin),
                               [](char byte) { return !text::is_continuation(byte); });
}

/// Answers, and what choosing the nearest name gives.
class NamedItems {
 public:
  NamedItems(std::string name, int64_t heads)
      : answers{.name = std::move(name), .right = std::vector<Answers::Halves>(heads)} {}

  int32_t add(bool nearest_is_right) {
    const int half = static_cast<int>(answers.all() % 2);
    ++answers.items[half];
    nearest_[half] += nearest_is_right;
    return half;
  }

  void set_baseline() { answers.raise_baseline(nearest_); }

  Answers answers;

 private:
  Answers::Halves nearest_{};
};

class Coreference : public HeadMetric {
 public:
  explicit Coreference(const MetricContext& context)
      : context_(context),
        heads_(heads_within_text(context)),
        parts_(named_parts(context.model.heads())) {
    for (const ObservedText& text : context.corpus.texts) {
      items_.push_back(text.item == nullptr ? ItemTokens{} : add(*text.item, text.encoding));
    }
    for (NamedItems& part : parts_) part.set_baseline();
  }

  bool has_items() const { return parts_[kAll].answers.all() > 0; }

  void begin(const MetricBatch& batch) override { batch_ = &batch; }

  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention& layer,
            View<const float, 3>, View<const float, 2>) override {
    if (!has_any(site, heads_)) return;
    std::vector<const ItemTokens*> items;
    std::vector<int64_t> rows;  // of their pronouns
    for (size_t b = 0; b < batch_->texts.size(); ++b) {
      const ItemTokens& item = items_[batch_->texts[b]];
      for (int64_t t = item.pronoun.begin; t < item.pronoun.end; ++t) {
        items.push_back(&item);
        rows.push_back(batch_->source.offsets[b] + t);
      }
    }
    const int64_t heads = std::ssize(site.heads), last = std::ssize(rows) - 1;
    std::vector<NameWeights> sums(heads);  // of the item at hand
    const auto use = [&](int64_t begin, int64_t end, const AttentionMaps& maps) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t r = begin; r < end; ++r) {
          sums[h].add(*items[r], maps.row(r - begin, h));
          if (r < last && items[r + 1] == items[r]) continue;
          if (sums[h].right > sums[h].wrong) count_right(*items[r], site.first + h);
          sums[h] = {};
        }
      }
    };
    maps_in_parts(layer, attention, rows, use);
  }

  void finish(std::span<Measures> heads, Evidence& evidence) override {
    report(parts_[kAll].answers, context_, heads_, heads, evidence);
    for (int part = kBefore; part < kParts; ++part) parts_[part].answers.add_to(heads_, heads);
  }

 private:
  /// Each span on its own: names may share tokens.
  ItemTokens add(const CoreferenceItem& item, const Encoding& encoding) {
    ItemTokens tokens{.pronoun = tokens_of_spans(encoding, {item.pronoun}).front(),
                      .right = tokens_of_spans(encoding, {item.right}).front(),
                      .wrong = tokens_of_spans(encoding, {item.wrong}).front()};
    for (const TokenSpan& span : {tokens.pronoun, tokens.right, tokens.wrong}) {
      if (span.begin == span.end) return {};
    }
    const bool nearest = distance(item.text, item.pronoun, item.right) <
                         distance(item.text, item.pronoun, item.wrong);
    const bool before = item.pronoun.begin < item.right.begin;
    const std::array<bool, kParts> is_in = {true, before, !before, !before && nearest,
                                            !before && !nearest};
    for (int part = 0; part < kParts; ++part) {
      tokens.half[part] = is_in[part] ? parts_[part].add(nearest) : -1;
    }
    return tokens;
  }

  static std::vector<NamedItems> named_parts(int64_t heads) {
    std::vector<NamedItems> parts;
    for (const char* name : kPartNames) parts.emplace_back(name, heads);
    return parts;
  }

  void count_right(const ItemTokens& item, int64_t head) {
    for (int part = 0; part < kParts; ++part) {
      if (item.half[part] >= 0) ++parts_[part].answers.right[head][item.half[part]];
    }
  }

  const MetricContext& context_;
  std::vector<uint8_t> heads_;
  std::vector<NamedItems> parts_;  // [kParts]
  std::vector<ItemTokens> items_;  // of the corpus
  const MetricBatch* batch_ = nullptr;
};

}  // namespace

std::unique_ptr<HeadMetric> coreference_metric(const MetricContext& context) {
  auto metric = std::make_unique<Coreference>(context);
  if (!metric->has_items()) return nullptr;
  return metric;
}

}  // namespace headwise
