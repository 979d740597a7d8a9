// Pairs of heads, and clusters of them.
#include "judge/redundancy.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

namespace headwise {
namespace {

using Members = std::vector<int64_t>;  // rows of a matrix

/// The heads of one attention: how far they are from each other, if they are redundant.
class Neighbours {
 public:
  Neighbours(const PairMatrix& js, const PairMatrix& cka, const RedundancyLimits& limits)
      : js_(js), cka_(cka), limits_(limits) {}

  bool alike(int64_t a, int64_t b) const {
    return js_.at(a, b) <= limits_.js && cka_.at(a, b) >= limits_.cka;
  }

  std::vector<std::string> redundant(int64_t head) const {
    std::vector<std::pair<double, std::string>> found;
    for (int64_t other = 0; other < std::ssize(js_.heads); ++other) {
      if (other != head && alike(head, other)) {
        found.emplace_back(js_.at(head, other), js_.heads[other]);
      }
    }
    std::ranges::stable_sort(found, {}, &std::pair<double, std::string>::first);
    std::vector<std::string> names;
    for (auto& [distance, name] : found) names.push_back(std::move(name));
    return names;
  }

  std::vector<Members> clusters() const {
    std::vector<Members> clusters(js_.heads.size());
    for (size_t i = 0; i < clusters.size(); ++i) clusters[i] = {static_cast<int64_t>(i)};
    while (join_nearest(clusters)) {
    }
    std::erase_if(clusters, [](const Members& members) { return members.size() < 2; });
    return clusters;
  }

  double mean_distance(int64_t head, const Members& members) const {
    double sum = 0;
    for (const int64_t other : members) sum += other == head ? 0 : js_.at(head, other);
    return sum / static_cast<double>(members.size());
  }

 private:
  /// The largest distance between two clusters; none if not all of their heads are redundant.
  std::optional<double> distance(const Members& a, const Members& b) const {
    double largest = 0;
    for (const int64_t i : a) {
      for (const int64_t j : b) {
        if (!alike(i, j)) return {};
        largest = std::max(largest, js_.at(i, j));
      }
    }
    return largest;
  }

  bool join_nearest(std::vector<Members>& clusters) const {
    double nearest = std::numeric_limits<double>::infinity();
    size_t one = 0, other = 0;
    for (size_t a = 0; a < clusters.size(); ++a) {
      for (size_t b = a + 1; b < clusters.size(); ++b) {
        const auto far = distance(clusters[a], clusters[b]);
        if (!far || *far >= nearest) continue;
        nearest = *far;
        one = a;
        other = b;
      }
    }
    if (one == other) return false;
    clusters[one].insert(clusters[one].end(), clusters[other].begin(), clusters[other].end());
    std::ranges::sort(clusters[one]);
    clusters.erase(clusters.begin() + static_cast<std::ptrdiff_t>(other));
    return true;
  }

  const PairMatrix& js_;
  const PairMatrix& cka_;
  const RedundancyLimits& limits_;
};

/// A number of each head, if all have it.
std::optional<std::vector<double>> numbers(const Evidence& evidence, const Cluster& heads,
                                           const char* measure) {
  std::vector<double> values;
  for (const std::string& head : heads) {
    const Measure* const found = evidence.head(head).measures.find(measure);
    if (found == nullptr) return {};
    values.push_back(found->value);
  }
  return values;
}

Cluster representative_first(const Evidence& evidence, const Neighbours& neighbours,
                             const Members& members, const std::vector<std::string>& names) {
  Cluster cluster;
  for (const int64_t member : members) cluster.push_back(names[member]);
  auto scores = numbers(evidence, cluster, "ablation_zero");
  if (!scores) scores = numbers(evidence, cluster, "gradient");
  if (!scores) {
    scores.emplace();
    for (const int64_t member : members) {
      scores->push_back(-neighbours.mean_distance(member, members));
    }
  }
  const auto first = std::ranges::max_element(*scores) - scores->begin();
  std::rotate(cluster.begin(), cluster.begin() + first, cluster.begin() + first + 1);
  return cluster;
}

/// Matrices of one name; none if it was not measured.
const std::map<std::string, PairMatrix>& matrices(const Evidence& evidence, const char* name) {
  static const std::map<std::string, PairMatrix> none;
  const auto at = evidence.pairs.find(name);
  return at == evidence.pairs.end() ? none : at->second;
}

void find_backups(const Evidence& evidence, double least, Redundancy& redundant) {
  std::map<std::string, std::map<std::string, double>> found;  // of a pair
  for (const auto& [group, matrix] : matrices(evidence, "synergy")) {
    for (int64_t a = 0; a < std::ssize(matrix.heads); ++a) {
      for (int64_t b = 0; b < std::ssize(matrix.heads); ++b) {
        if (a != b && matrix.at(a, b) > least) {
          found[matrix.heads[a]][matrix.heads[b]] = matrix.at(a, b);
        }
      }
    }
  }
  for (const auto& [head, others] : found) {
    std::vector<std::pair<std::string, double>> sorted(others.begin(), others.end());
    std::ranges::stable_sort(sorted, std::ranges::greater(),
                             &std::pair<std::string, double>::second);
    for (auto& [name, synergy] : sorted) redundant.backups[head].push_back(std::move(name));
  }
}

}  // namespace

Redundancy find_redundancy(const Evidence& evidence, const RedundancyLimits& limits) {
  Redundancy result;
  const auto& cka = matrices(evidence, "output_cka");
  for (const auto& [group, js] : matrices(evidence, "js")) {
    const auto at = cka.find(group);
    if (at == cka.end() || at->second.heads != js.heads) continue;
    const Neighbours neighbours(js, at->second, limits);
    for (int64_t head = 0; head < std::ssize(js.heads); ++head) {
      if (auto redundant = neighbours.redundant(head); !redundant.empty()) {
        result.redundant[js.heads[head]] = std::move(redundant);
      }
    }
    for (const Members& members : neighbours.clusters()) {
      result.clusters.push_back(representative_first(evidence, neighbours, members, js.heads));
    }
  }
  find_backups(evidence, limits.synergy, result);
  return result;
}

}  // namespace headwise
