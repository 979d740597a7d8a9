// Chooses the form of every sequence, then the layer of every part: as early as its inputs and the
// number of heads allow, those first that the most layers depend on.
#include "construct/circuit.h"

#include <algorithm>
#include <map>
#include <utility>

namespace headwise {
namespace {

/// A head or a part of a feed-forward layer.
struct Part {
  bool is_head = false;
  HeadPart head{};
  FeedPart feed{};

  int out() const { return is_head ? head.out : feed.out; }
  std::vector<int> inputs() const {
    if (!is_head) return feed.inputs;
    std::vector<int> all = head.keys;
    all.insert(all.end(), head.queries.begin(), head.queries.end());
    if (head.value >= 0) all.push_back(head.value);
    return all;
  }
};

// When a value is there: heads of layer l are step 2 l, its feed-forward layer 2 l + 1.
constexpr int kEmbedded = -1;

/// The first step behind another one for heads, or for a feed-forward layer.
int next_step(int behind, bool is_head) {
  const int next = behind + 1, parity = is_head ? 0 : 1;
  return next % 2 == parity ? next : next + 1;
}

class CircuitBuilder {
 public:
  CircuitBuilder(const ProgramGraph& graph, const PossibleValues& values)
      : graph_(graph), values_(values) {}

  Circuit build(int64_t max_heads) {
    circuit_.output = variable(graph_.output, Form::one_hot);
    schedule(max_heads);
    return std::move(circuit_);
  }

 private:
  int add_variable(int node, Form form, int step) {
    const bool literal = graph_[node].kind == NodeKind::literal && form == Form::one_hot;
    const int64_t columns = form == Form::one_hot ? std::ssize(values_.of(node)) : 1;
    circuit_.variables.push_back({node, form, literal ? Circuit::kToken : circuit_.width, columns});
    if (!literal) circuit_.width += columns;
    steps_.push_back(step);
    return static_cast<int>(circuit_.variables.size()) - 1;
  }

  /// The step at which all of some variables are there, with any number of heads.
  int step_of(std::span<const int> variables) const {
    int step = kEmbedded;
    for (const int at : variables) step = std::max(step, steps_[at]);
    return step;
  }

  int add_part(Part part, int node, Form form) {
    const int out = add_variable(node, form, next_step(step_of(part.inputs()), part.is_head));
    (part.is_head ? part.head.out : part.feed.out) = out;
    parts_.push_back(std::move(part));
    return out;
  }

  /// Whether embeddings can hold it: it depends on the token alone, or on the position alone.
  bool is_embedded(int node) const {
    const ProgramNode& of = graph_[node];
    if (of.selects()) return false;
    if (of.kind != NodeKind::map) return true;
    const std::span<const int> inputs = values_.inputs(node);
    return inputs.empty() || (inputs.size() == 1 && !graph_[inputs[0]].selects() &&
                              graph_[inputs[0]].kind != NodeKind::map);
  }

  int variable(int node, Form form) {
    const auto key = std::pair(node, form);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    const int made = make(node, form);
    known_.emplace(key, made);
    return made;
  }

  int make(int node, Form form) {
    if (is_embedded(node)) {
      const int made = add_variable(node, form, kEmbedded);
      circuit_.embedded.push_back(made);
      return made;
    }
    if (graph_[node].selects() && form == form_of_head(node)) return make_head(node);
    if (graph_[node].selects()) return make_feed(node, {node}, form);
    const std::span<const int> inputs = values_.inputs(node);
    return make_feed(node, {inputs.begin(), inputs.end()}, form);
  }

  Form form_of_head(int node) const {
    switch (graph_[node].kind) {
      case NodeKind::width:
        return Form::share;
      case NodeKind::mean:
        return Form::number;
      default:
        return Form::one_hot;
    }
  }

  int make_head(int node) {
    const ProgramNode& of = graph_[node];
    HeadPart head{.node = node};
    for (const Match& match : of.selector) {
      head.keys.push_back(variable(match.key, Form::one_hot));
      head.queries.push_back(variable(match.query, Form::one_hot));
    }
    if (of.kind != NodeKind::width) head.value = variable(of.operands[0], form_of_head(node));
    return add_part({.is_head = true, .head = std::move(head)}, node, form_of_head(node));
  }

  /// One of the inputs, the last one to be there, may be a number or a share. The others become
  /// one-hot vectors first.
  int make_feed(int node, const std::vector<int>& inputs, Form form) {
    FeedPart feed{.node = node};
    int latest = -1;
    for (const int input : inputs) {
      const Form natural = graph_[input].selects() ? form_of_head(input) : Form::one_hot;
      const int at = variable(input, natural);
      if (natural == Form::one_hot) {
        feed.inputs.push_back(at);
      } else if (latest < 0 || steps_[at] > steps_[latest]) {
        if (latest >= 0) feed.inputs.push_back(one_hot(latest));
        latest = at;
      } else {
        feed.inputs.push_back(one_hot(at));
      }
    }
    if (latest >= 0) feed.inputs.push_back(latest);
    return add_part({.feed = std::move(feed)}, node, form);
  }

  int one_hot(int at) { return variable(circuit_.variables[at].node, Form::one_hot); }

  /// How many steps a part and those behind it take at least.
  std::vector<int> urgencies() const {
    std::vector<int> of_variable(circuit_.variables.size()), of_part(parts_.size());
    for (size_t p = parts_.size(); p-- > 0;) {
      of_part[p] = of_variable[parts_[p].out()] + 1;
      for (const int input : parts_[p].inputs()) {
        of_variable[input] = std::max(of_variable[input], of_part[p]);
      }
    }
    return of_part;
  }

  void schedule(int64_t max_heads) {
    const std::vector<int> urgency = urgencies();
    std::vector<size_t> left(parts_.size());
    for (size_t p = 0; p < left.size(); ++p) left[p] = p;
    std::ranges::stable_sort(left, std::ranges::greater(), [&](size_t p) { return urgency[p]; });
    constexpr int kNotYet = 1 << 30;
    std::vector<int> there(circuit_.variables.size(), kNotYet);
    for (const int at : circuit_.embedded) there[at] = kEmbedded;
    for (int step = 0; !left.empty(); ++step) {
      const bool heads = step % 2 == 0;
      if (heads) circuit_.layers.emplace_back();
      CircuitLayer& layer = circuit_.layers.back();
      std::erase_if(left, [&](size_t p) {
        Part& part = parts_[p];
        const bool full = heads && max_heads > 0 && std::ssize(layer.heads) >= max_heads;
        if (part.is_head != heads || full) return false;
        const std::vector<int> inputs = part.inputs();
        if (std::ranges::any_of(inputs, [&](int at) { return there[at] >= step; })) return false;
        there[part.out()] = step;
        if (heads) {
          layer.heads.push_back(std::move(part.head));
        } else {
          layer.feed_forward.push_back(std::move(part.feed));
        }
        return true;
      });
    }
    if (circuit_.layers.empty()) circuit_.layers.emplace_back();  // a model has one
  }

  const ProgramGraph& graph_;
  const PossibleValues& values_;
  Circuit circuit_;
  std::vector<int> steps_;  // of variables, with any number of heads
  std::vector<Part> parts_;
  std::map<std::pair<int, Form>, int> known_;
};

}  // namespace

Circuit make_circuit(const ProgramGraph& graph, const PossibleValues& values, int64_t max_heads) {
  return CircuitBuilder(graph, values).build(max_heads);
}

}  // namespace headwise
