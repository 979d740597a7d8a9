// Singular values of W_Q W_K' from the small factors of both.
#include "headwise/model/head_ranks.h"

#include <limits>

#include "core/linear_algebra.h"
#include "headwise/core/parallel.h"

namespace headwise {

std::vector<double> qk_ranks(const Model& model) {
  std::vector<double> ranks(static_cast<size_t>(model.heads()),
                            std::numeric_limits<double>::quiet_NaN());
  for (int64_t site = 0; site < std::ssize(model.attentions()); ++site) {
    const MultiHeadAttention& layer = model.layer(site);
    const MultiHeadAttentionShape& s = layer.shape();
    const auto weights = layer.weights();
    const View<const float, 2> query = weights->query(), key = weights->key();
    parallel_for(s.learned(), [&](int64_t head) {
      const int64_t kv = s.kv_of(head);
      const RowSpace q = row_space(DoubleMatrix(query.rows(head * s.D, (head + 1) * s.D)));
      const RowSpace k = row_space(DoubleMatrix(key.rows(kv * s.D, (kv + 1) * s.D)));
      ranks[model.attentions()[site].first + head] = rank_of_product(q, k);
    });
  }
  return ranks;
}

}  // namespace headwise
