// A stack with a tape: forward and backward.
#include <algorithm>
#include <utility>

#include "headwise/kernels/dropout.h"
#include "model/gather_rows.h"
#include "model/stack.h"
#include "model/stack_layout.h"

namespace headwise {

View<float, 2> Stack::forward(const TokenBatch& batch, const BlockInput& input, Tape& tape,
                              BlockScratch& scratch) const {
  tape.positions.clear();
  for (int64_t b = 0; b < batch.sequences(); ++b) {
    for (int64_t i = 0; i < batch.offsets[b + 1] - batch.offsets[b]; ++i) {
      tape.positions.push_back(i);
    }
  }
  check_tokens(*config_, side_, batch, tape.positions, false);
  grow_rotary(scratch.attention, tape.positions);
  tape.batch = &batch;
  tape.end = input;
  tape.end.offsets = tape.end.cross_offsets = batch.offsets;
  tape.end.positions = tape.positions;
  tape.end.relative = relative();
  tape.input = tape.end;
  tape.input.wanted = {};
  tape.blocks.resize(blocks_.size());
  const WantedRows& wanted = tape.end.wanted;
  ForwardObserver* const observer = input.options->observer;
  const bool all_seen = observer != nullptr && observer->wants_hidden();
  tape.narrow = wanted && !all_seen && blocks_.back().narrows();
  View<float, 2> x = embed(tape);
  if (observer != nullptr) observer->on_resid_post(side_, -1, x);
  for (size_t layer = 0; layer < blocks_.size(); ++layer) {
    x = blocks_[layer].forward(x, input_of(layer, tape), tape.blocks[layer], scratch);
    const bool last =
        layer + 1 == blocks_.size() && (side_ == Side::decoder || !config_->encoder_decoder());
    if (observer != nullptr && (all_seen || !last)) {
      observer->on_resid_post(side_, static_cast<int64_t>(layer), x);
    }
  }
  if (wanted && !tape.narrow) {
    gather_rows(x, *wanted, tape.gathered.shaped(std::ssize(*wanted), x.extent(1)));
    x = tape.gathered.view();
  }
  tape.last = x;
  if (final_norm_.exists()) {
    final_norm_.forward(x, tape.final.like(x));
    x = tape.final.view();
  }
  if (drops_finally_) dropout(x, tape.end.dropout(final_stream_), x);
  return x;
}

View<float, 2> Stack::embed(Tape& tape) const {
  const TokenBatch& batch = *tape.batch;
  const View<float, 2> words = tape.summed.shaped(batch.rows(), config_->embedding_width);
  tape.position_rows = position_rows(*config_, batch, tape.positions);
  tape.types = types_of(batch);
  sum_embeddings(batch, tape.position_rows, tape.types, words);
  View<float, 2> x = words;
  if (embedding_norm_.exists()) {
    x = tape.embedded.like(words);
    embedding_norm_.forward(words, x);
  }
  dropout(x, tape.input.dropout(embedding_stream_), x);
  if (!embedding_projection_.exists()) return x;
  embedding_projection_.forward(x, tape.projected.shaped(x.extent(0), config_->width));
  return tape.projected.view();
}

double Stack::balance_loss(const Tape& tape) const {
  double sum = 0;
  for (size_t layer = 0; layer < blocks_.size(); ++layer) {
    sum += blocks_[layer].balance_loss(tape.blocks[layer]);
  }
  return sum;
}

int64_t Stack::depth_of_backward(bool all_blocks) const {
  const int64_t layers = std::ssize(blocks_);
  if (word_.requires_grad() || position_.requires_grad() || token_type_.requires_grad() ||
      embedding_norm_.requires_grad() || embedding_projection_.requires_grad()) {
    return layers + 1;
  }
  if (all_blocks || relative_.requires_grad()) return layers;
  const auto lowest = std::ranges::find_if(blocks_, &Block::requires_grad);
  return blocks_.end() - lowest;
}

void Stack::backward(View<float, 2> d, double balance_scale, Tape& tape,
                     BlockScratch& scratch) const {
  tape.input.balance_scale = tape.end.balance_scale = balance_scale;
  // All blocks have gates, and all of a decoder read the encoder's rows.
  const bool all_blocks =
      tape.input.dgates.data() != nullptr || tape.input.dsource.data() != nullptr;
  const int64_t depth = depth_of_backward(all_blocks), layers = std::ssize(blocks_);
  if (drops_finally_) dropout(d, tape.end.dropout(final_stream_), d);
  if (final_norm_.exists()) final_norm_.backward(tape.last, d, {.dx = d});
  if (tape.end.wanted && !tape.narrow) {
    const View<float, 2> all = tape.dscattered.shaped(tape.batch->rows(), d.extent(1));
    scatter_rows(d, *tape.end.wanted, all);
    d = all;
  }
  for (int64_t layer = layers - 1; layer >= std::max<int64_t>(0, layers - depth); --layer) {
    d = blocks_[layer].backward(d, input_of(layer, tape), tape.blocks[layer], scratch);
  }
  if (depth > layers) backward_embeddings(d, tape);
}

void Stack::backward_embeddings(View<float, 2> d, Tape& tape) const {
  if (embedding_projection_.exists()) {
    const View<float, 2> x = embedding_norm_.exists() ? tape.embedded.view() : tape.summed.view();
    const View<float, 2> dx = tape.dembedded.like(x);
    embedding_projection_.backward(x, d, {.dx = dx});
    d = dx;
  }
  dropout(d, tape.input.dropout(embedding_stream_), d);
  if (embedding_norm_.exists()) embedding_norm_.backward(tape.summed.view(), d, {.dx = d});
  word_.backward(d, tape.batch->ids, config_->embedding_scale);
  if (position_.exists()) position_.backward(d, tape.position_rows, 1);
  if (token_type_.exists()) token_type_.backward(d, tape.types, 1);
}

}  // namespace headwise
