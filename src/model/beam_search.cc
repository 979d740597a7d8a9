// Beam search over a batch; every text has its own hypotheses and ends by itself.
#include "model/beam_search.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "headwise/core/shape.h"
#include "headwise/kernels/softmax.h"
#include "model/next_token.h"

namespace headwise {
namespace {

struct Hypothesis {
  std::vector<int32_t> ids{};
  double score = 0;  // sum of log probabilities; over the length penalty once it is finished
};

/// The hypotheses of one text.
class Beams {
 public:
  Beams(const GenerateOptions& options) : options_(options), running_(1) {}

  bool done() const { return done_; }
  const std::vector<Hypothesis>& running() const { return running_; }
  std::vector<double> scores() const {
    std::vector<double> scores;
    for (const Hypothesis& hypothesis : running_) scores.push_back(hypothesis.score);
    return scores;
  }

  /// Goes on from the best continuations; returns which running hypothesis each new one continues.
  std::vector<int64_t> extend(const std::vector<Candidate>& candidates) {
    const size_t length = running_.front().ids.size() + 1;
    const bool full_length = static_cast<int64_t>(length) == options_.max_new_tokens;
    std::vector<Hypothesis> next;
    std::vector<int64_t> parents;
    for (size_t rank = 0; rank < candidates.size(); ++rank) {
      const Candidate& candidate = candidates[rank];
      Hypothesis hypothesis = running_[candidate.beam];
      hypothesis.ids.push_back(candidate.token);
      hypothesis.score = candidate.score;
      if (full_length || ends(candidate.token, options_)) {
        // Those beyond the first `beams` are only there to continue.
        if (static_cast<int64_t>(rank) < options_.beams) finish(std::move(hypothesis));
      } else if (std::ssize(next) < options_.beams) {
        next.push_back(std::move(hypothesis));
        parents.push_back(candidate.beam);
      }
    }
    const bool full = std::ssize(finished_) == options_.beams;
    const bool hopeless =
        !next.empty() && full && next.front().score / penalty(length) <= finished_.back().score;
    done_ = next.empty() || full_length || hopeless || (full && options_.early_stopping);
    running_ = std::move(next);
    return parents;
  }

  Generated best() && {
    if (finished_.empty()) return {};
    return {.ids = std::move(finished_.front().ids), .score = finished_.front().score};
  }

 private:
  double penalty(size_t length) const {
    return std::pow(static_cast<double>(length), double{options_.length_penalty});
  }

  void finish(Hypothesis hypothesis) {
    hypothesis.score /= penalty(hypothesis.ids.size());
    const auto worse = [&](const Hypothesis& other) { return other.score < hypothesis.score; };
    finished_.insert(std::ranges::find_if(finished_, worse), std::move(hypothesis));
    if (std::ssize(finished_) > options_.beams) finished_.pop_back();
  }

  const GenerateOptions& options_;
  std::vector<Hypothesis> running_;
  std::vector<Hypothesis> finished_;  // the best, best first
  bool done_ = false;
};

}  // namespace

std::vector<Generated> beam_search(const Model& model, const TokenBatch& prompts,
                                   const TokenBatch& sources, const GenerateOptions& options) {
  const int64_t B = prompts.sequences(), beams = options.beams;
  std::vector<Beams> texts(B, Beams(options));
  if (options.max_new_tokens == 0) return std::vector<Generated>(B);
  DecoderState state =
      model.start(checked_mul(B, beams), checked_add(longest(prompts), options.max_new_tokens),
                  sources, options.forward);
  // The prompt goes into the first beam of its text; the others become copies of it.
  TokenBatch next;
  for (int64_t b = 0; b < B; ++b) {
    next.add(std::span(prompts.ids)
                 .subspan(prompts.offsets[b], prompts.offsets[b + 1] - prompts.offsets[b]));
    for (int64_t beam = 1; beam < beams; ++beam) next.add({});
  }
  const auto kept = std::max<int64_t>(2, 1 + std::ssize(options.eos)) * beams;
  for (int64_t length = 1; next.rows() > 0; ++length) {
    const Activations hidden = model.step(next, state, options.forward);
    const Activations logits = model.output(gather(hidden.rows, last_rows(next)).rows);
    std::vector<float> lse(logits.rows.extent(0));
    if (!options.renormalize) log_sum_exp(logits.rows, lse);
    for (int64_t row = 0; row < logits.rows.extent(0); ++row) {
      const bool last = length == options.max_new_tokens;
      if (last && options.forced_eos) lse[row] = 0;
      forbid({&logits.rows(row, 0), static_cast<size_t>(logits.rows.extent(1))}, options, last);
    }
    if (options.renormalize) log_sum_exp(logits.rows, lse);
    TokenBatch after;
    std::vector<int64_t> from;
    int64_t row = 0;
    for (int64_t b = 0; b < B; ++b) {
      std::vector<int64_t> parents;
      if (!texts[b].done()) {
        const int64_t rows = std::ssize(texts[b].running());
        parents = texts[b].extend(best_continuations(logits.rows.rows(row, row + rows),
                                                     std::span(lse).subspan(row, rows),
                                                     texts[b].scores(), kept));
        row += rows;
      }
      for (int64_t beam = 0; beam < beams; ++beam) {
        const bool goes_on = !texts[b].done() && beam < std::ssize(parents);
        from.push_back(b * beams + (goes_on ? parents[beam] : beam));
        after.add(goes_on ? std::span(&texts[b].running()[beam].ids.back(), 1)
                          : std::span<const int32_t>());
      }
    }
    state.reorder(from);
    next = std::move(after);
  }
  std::vector<Generated> results;
  for (Beams& text : texts) results.push_back(std::move(text).best());
  return results;
}

}  // namespace headwise
