// Lines into statements, statements into nodes: a parser by recursive descent.
#include "construct/parse_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/core/nearest_name.h"
#include "headwise/io/json.h"
#include "headwise/text/utf8.h"

namespace headwise {
namespace {

constexpr int64_t kLongestProgram = 1000;   // tokens of a text
constexpr int64_t kLargestAlphabet = 1000;  // tokens
constexpr size_t kDeepestExpression = 100;  // brackets and operators inside each other
constexpr size_t kMostNodes = 1000;         // sequences, named or not
constexpr size_t kMostConditions = 100;     // of a selector
constexpr size_t kLargestSource = 100'000;  // bytes

const std::vector<std::string>& reserved_words() {
  static const std::vector<std::string> words = {
      "tokens", "indices", "select", "selector_width", "aggregate", "mean",  "min", "max", "and",
      "or",     "not",     "if",     "else",           "true",      "return"};
  return words;
}

struct Word {
  enum class Kind { name, number, text, sign, end };
  Kind kind = Kind::end;
  std::string text{};
};

/// A statement, which may go over several lines while brackets are open.
struct Statement {
  int64_t line = 0;
  std::vector<Word> words{};
};

[[noreturn]] void refuse(const std::string& where, std::string what, std::string got = "",
                         std::string expected = "", std::string hint = "") {
  throw Error({.what = "program: " + what,
               .where = where,
               .got = std::move(got),
               .expected = std::move(expected),
               .hint = std::move(hint)});
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Appends the words of a line.
void split_words(std::string_view line, const std::string& where, std::vector<Word>& words) {
  using Kind = Word::Kind;
  for (size_t at = 0; at < line.size();) {
    const char c = line[at];
    size_t end = at + 1;
    if (c == '#') return;
    if (c == ' ' || c == '\t' || c == '\r' || c == ';') {
      at = end;
      continue;
    }
    if (is_letter(c)) {
      while (end < line.size() && (is_letter(line[end]) || is_digit(line[end]))) ++end;
      words.push_back({Kind::name, std::string(line.substr(at, end - at))});
    } else if (is_digit(c)) {
      while (end < line.size() && (is_digit(line[end]) || line[end] == '.')) ++end;
      words.push_back({Kind::number, std::string(line.substr(at, end - at))});
    } else if (c == '"') {
      end = line.find('"', at + 1);
      if (end == std::string_view::npos) refuse(where, "a quotation mark is not closed");
      words.push_back({Kind::text, std::string(line.substr(at + 1, end - at - 1))});
      ++end;
    } else {
      const std::string_view two = line.substr(at, 2);
      if (two == "==" || two == "!=" || two == "<=" || two == ">=") ++end;
      const std::string sign(line.substr(at, end - at));
      constexpr std::string_view kSigns = "()+-*/<>=,";
      if (sign.size() == 1 && kSigns.find(c) == std::string_view::npos) {
        refuse(where, "a character is not understood", quote(sign));
      }
      words.push_back({Kind::sign, sign});
    }
    at = end;
  }
}

int64_t open_brackets(const std::vector<Word>& words) {
  int64_t open = 0;
  for (const Word& word : words) {
    if (word.kind != Word::Kind::sign) continue;
    open += word.text == "(" ? 1 : word.text == ")" ? -1 : 0;
  }
  return open;
}

/// What stands behind "NAME:" in a line that begins so.
std::optional<std::string> behind(std::string_view line, std::string_view name) {
  const size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string_view::npos || !line.substr(begin).starts_with(name)) return {};
  const size_t colon = line.find_first_not_of(" \t", begin + name.size());
  if (colon == std::string_view::npos || line[colon] != ':') return {};
  return std::string(line.substr(colon + 1));
}

/// A value of the language: a sequence, or a selector.
struct Parsed {
  int node = -1;
  std::optional<Selector> selector{};
};

class Parser {
 public:
  Parser(ProgramGraph& graph, const std::string& where) : graph_(graph), file_(where) {}

  void statement(const Statement& statement) {
    words_ = &statement.words;
    at_ = depth_ = 0;
    where_ = fmt::format("{}:{}", file_, statement.line);
    if (graph_.output >= 0) refuse(where_, "there is something behind return", peek().text);
    if (take("return")) {
      graph_.output = sequence(expression(), "return");
    } else {
      assign();
    }
    if (peek().kind != Word::Kind::end) unexpected("the end of the line");
    if (graph_.nodes().size() > kMostNodes) {
      refuse(where_, "there are too many sequences", "", fmt::format("at most {}", kMostNodes));
    }
  }

 private:
  const Word& peek() const {
    static const Word end;
    return at_ < words_->size() ? (*words_)[at_] : end;
  }
  bool next_is(std::string_view text) const {
    return peek().kind != Word::Kind::text && peek().kind != Word::Kind::end && peek().text == text;
  }
  bool take(std::string_view text) {
    if (!next_is(text)) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view text) {
    if (!take(text)) unexpected(quote(text));
  }
  [[noreturn]] void unexpected(std::string expected) const {
    refuse(where_, "this was not expected here",
           peek().kind == Word::Kind::end ? "the end of the line" : quote(peek().text),
           std::move(expected));
  }

  void assign() {
    const Word name = peek();
    if (name.kind != Word::Kind::name) unexpected("NAME = …, or return …");
    ++at_;
    const auto& reserved = reserved_words();
    if (std::ranges::find(reserved, name.text) != reserved.end()) {
      refuse(where_, "a name has a meaning already", quote(name.text), "another name");
    }
    expect("=");
    Parsed value = expression();
    if (!value.selector) graph_.set_name(value.node, name.text);
    if (!names_.emplace(name.text, std::move(value)).second) {
      refuse(where_, "a name is given twice", quote(name.text), "another name");
    }
  }

  int sequence(const Parsed& value, std::string_view of) const {
    if (!value.selector) return value.node;
    refuse(where_, fmt::format("{} takes a sequence", of), "a selector", "a sequence",
           "selector_width, aggregate and mean make sequences of selectors");
  }
  const Selector& selector(const Parsed& value, std::string_view of) const {
    if (value.selector) return *value.selector;
    refuse(where_, fmt::format("{} takes a selector first", of), graph_.to_text(value.node),
           "select(KEYS, QUERIES, ==)");
  }

  Parsed map(MapOp op, std::vector<int> operands) {
    return {.node = graph_.add({.kind = NodeKind::map, .op = op, .operands = std::move(operands)})};
  }

  /// One more level of brackets or operators.
  struct Level {
    explicit Level(Parser& of) : parser(of) {
      if (++parser.depth_ > kDeepestExpression) {
        refuse(parser.where_, "an expression is too deep", "",
               fmt::format("at most {} levels", kDeepestExpression), "give parts of it names");
      }
    }
    ~Level() { --parser.depth_; }
    Parser& parser;
  };

  Parsed expression() {
    const Level level(*this);
    Parsed value = either();
    if (!take("if")) return value;
    const int chosen = sequence(value, "if"), condition = sequence(either(), "if");
    expect("else");
    return map(MapOp::choose, {chosen, sequence(expression(), "else"), condition});
  }

  Parsed either() {
    Parsed left = both();
    while (take("or")) {
      if (left.selector) {
        refuse(where_, "selectors cannot be joined by or", "", "and, not",
               "add the widths of two selectors that never select the same position");
      }
      left = map(MapOp::either, {sequence(left, "or"), sequence(both(), "or")});
    }
    return left;
  }

  Parsed both() {
    Parsed left = inverted();
    while (take("and")) {
      const Parsed right = inverted();
      if (left.selector) {
        Selector all = *left.selector;
        const Selector& more = selector(right, "and behind a selector");
        all.insert(all.end(), more.begin(), more.end());
        if (all.size() > kMostConditions) {
          refuse(where_, "a selector has too many conditions", graph_text(all),
                 fmt::format("at most {}", kMostConditions));
        }
        left = {.selector = std::move(all)};
      } else {
        left = map(MapOp::both, {left.node, sequence(right, "and")});
      }
    }
    return left;
  }

  Parsed inverted() {
    if (!take("not")) return comparison();
    const Level level(*this);
    Parsed value = inverted();
    if (!value.selector) return map(MapOp::invert, {value.node});
    if (value.selector->size() != 1) {
      refuse(where_, "only one select can be negated", graph_text(*value.selector),
             "not select(…)");
    }
    value.selector->front().negated = !value.selector->front().negated;
    return value;
  }

  std::string graph_text(const Selector& selector) const {
    return fmt::format("a selector of {} conditions", selector.size());
  }

  std::optional<MapOp> take_comparison() {
    for (const MapOp op : {MapOp::equal, MapOp::not_equal, MapOp::less_equal, MapOp::less,
                           MapOp::greater_equal, MapOp::greater}) {
      if (take(to_string(op))) return op;
    }
    return {};
  }

  Parsed comparison() {
    const Parsed left = sum();
    const auto op = take_comparison();
    if (!op) return left;
    const int a = sequence(left, to_string(*op)), b = sequence(sum(), to_string(*op));
    return map(*op, {a, b});
  }

  Parsed chain(Parsed (Parser::*part)(), MapOp first, MapOp second) {
    Parsed left = (this->*part)();
    while (true) {
      const MapOp op = next_is(to_string(first)) ? first : second;
      if (!take(to_string(op))) return left;
      const int a = sequence(left, to_string(op));
      left = map(op, {a, sequence((this->*part)(), to_string(op))});
    }
  }
  Parsed sum() { return chain(&Parser::product, MapOp::add, MapOp::subtract); }
  Parsed product() { return chain(&Parser::negated, MapOp::multiply, MapOp::divide); }

  Parsed negated() {
    if (!take("-")) return atom();
    const Level level(*this);
    return map(MapOp::negate, {sequence(negated(), "-")});
  }

  Parsed literal(ProgramValue value) {
    return {.node = graph_.add({.kind = NodeKind::literal, .value = std::move(value)})};
  }

  Fraction number(const std::string& text) const {
    constexpr size_t kMostDigits = 15;
    const size_t point = text.find('.');
    const std::string after = point == std::string::npos ? "" : text.substr(point + 1);
    const std::string digits = text.substr(0, point) + after;
    if (digits.size() > kMostDigits || after.find('.') != std::string::npos) {
      refuse(where_, "a number is not understood", quote(text),
             fmt::format("at most {} digits", kMostDigits));
    }
    int64_t top = 0, bottom = 1;
    for (const char digit : digits) top = 10 * top + (digit - '0');
    for (size_t i = 0; i < after.size(); ++i) bottom *= 10;
    return {top, bottom};
  }

  Parsed atom() {
    const Word word = peek();
    if (take("(")) {
      Parsed value = expression();
      expect(")");
      return value;
    }
    if (word.kind == Word::Kind::number || word.kind == Word::Kind::text) {
      ++at_;
      return literal(word.kind == Word::Kind::text ? ProgramValue(word.text)
                                                   : ProgramValue(number(word.text)));
    }
    if (word.kind != Word::Kind::name) unexpected("a sequence");
    ++at_;
    return next_is("(") ? call(word.text) : named(word.text);
  }

  Parsed named(const std::string& name) {
    if (name == "tokens") return {.node = graph_.add({.kind = NodeKind::tokens})};
    if (name == "indices") return {.node = graph_.add({.kind = NodeKind::indices})};
    if (const auto known = names_.find(name); known != names_.end()) return known->second;
    std::vector<std::string> all = reserved_words();
    for (const auto& [other, value] : names_) all.push_back(other);
    refuse(where_, "there is no such name", quote(name),
           "tokens, indices, or a name that was given above", did_you_mean(name, all));
  }

  Parsed call(const std::string& name) {
    expect("(");
    Parsed result;
    if (name == "select") {
      result = select();
    } else if (name == "selector_width") {
      result.node = graph_.add({.kind = NodeKind::width, .selector = selector(expression(), name)});
    } else if (name == "mean" || name == "aggregate") {
      result = collect(name);
    } else if (name == "min" || name == "max") {
      const int a = sequence(expression(), name);
      expect(",");
      result =
          map(name == "min" ? MapOp::minimum : MapOp::maximum, {a, sequence(expression(), name)});
    } else {
      const std::vector<std::string> all = {"select", "selector_width", "aggregate", "mean", "min",
                                            "max"};
      refuse(where_, "there is no such function", quote(name),
             fmt::format("{}", fmt::join(all, ", ")), did_you_mean(name, all));
    }
    expect(")");
    return result;
  }

  Parsed select() {
    if (take("true")) return {.selector = Selector()};
    Match match{.key = sequence(expression(), "select")};
    expect(",");
    match.query = sequence(expression(), "select");
    expect(",");
    const auto op = take_comparison();
    if (!op) unexpected("==, !=, <, <=, > or >=");
    match.op = *op;
    return {.selector = Selector{match}};
  }

  Parsed collect(const std::string& name) {
    ProgramNode node{.kind = name == "mean" ? NodeKind::mean : NodeKind::aggregate,
                     .value = Fraction(0),
                     .selector = selector(expression(), name)};
    expect(",");
    node.operands = {sequence(expression(), name)};
    if (name == "aggregate" && take(",")) {
      const int otherwise = sequence(expression(), name);
      if (graph_[otherwise].kind != NodeKind::literal) {
        refuse(where_, "what aggregate gives where nothing is selected is not a constant",
               graph_.to_text(otherwise), "a number or a word");
      }
      node.value = graph_[otherwise].value;
    }
    return {.node = graph_.add(std::move(node))};
  }

  ProgramGraph& graph_;
  std::string file_, where_;
  const std::vector<Word>* words_ = nullptr;
  size_t at_ = 0, depth_ = 0;
  std::map<std::string, Parsed> names_;
};

std::vector<std::string> split_tokens(const std::string& text) {
  std::istringstream words(text);
  std::vector<std::string> tokens;
  for (std::string word; words >> word;) tokens.push_back(word);
  return tokens;
}

void check_alphabet(const std::vector<std::string>& alphabet, const std::string& where) {
  if (alphabet.empty() || std::ssize(alphabet) > kLargestAlphabet) {
    refuse(where, "the alphabet has not this many tokens", fmt::format("{}", alphabet.size()),
           fmt::format("1 to {}", kLargestAlphabet), "a line such as alphabet: a b c");
  }
  std::set<std::string> seen;
  for (const std::string& token : alphabet) {
    if (split_tokens(token) != std::vector{token} || find_invalid_utf8(token)) {
      refuse(where, "a token is empty, has a space in it or is not UTF-8", quote(token));
    }
    if (token.starts_with('[') && token.ends_with(']') && token.size() > 2) {
      refuse(where, "a token looks like a special one", quote(token), "one without [ ]");
    }
    if (!seen.insert(token).second) refuse(where, "a token is named twice", quote(token));
  }
}

int64_t parse_length(const std::string& text, const std::string& where) {
  const std::vector<std::string> words = split_tokens(text);
  int64_t length = 0;
  if (words.size() == 1) {
    const char* const end = words[0].data() + words[0].size();
    if (std::from_chars(words[0].data(), end, length).ptr != end) length = 0;
  }
  if (length >= 1 && length <= kLongestProgram) return length;
  refuse(where, "the length of the longest text is not understood", quote(text),
         fmt::format("a number from 1 to {}", kLongestProgram));
}

}  // namespace

ProgramGraph parse_program(std::string_view source, const std::string& where,
                           const ProgramOptions& options) {
  if (source.size() > kLargestSource) {
    refuse(where, "the text is too long", fmt::format("{} bytes", source.size()),
           fmt::format("at most {}", kLargestSource));
  }
  if (const auto byte = find_invalid_utf8(source)) {
    refuse(where, "the text is not UTF-8", fmt::format("byte {}", *byte));
  }
  ProgramGraph graph;
  Parser parser(graph, where);
  std::istringstream lines{std::string(source)};
  Statement open;
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::string here = fmt::format("{}:{}", where, number);
    if (open.words.empty()) {
      if (const auto alphabet = behind(line, "alphabet")) {
        graph.alphabet = split_tokens(*alphabet);
        check_alphabet(graph.alphabet, here);
        continue;
      }
      if (const auto length = behind(line, "length")) {
        graph.length = parse_length(*length, here);
        continue;
      }
      open.line = number;
    }
    split_words(line, here, open.words);
    if (open.words.empty() || open_brackets(open.words) > 0) continue;
    parser.statement(open);
    open.words.clear();
  }
  if (!open.words.empty()) {
    refuse(fmt::format("{}:{}", where, open.line), "a bracket is not closed");
  }
  if (!options.alphabet.empty()) graph.alphabet = options.alphabet;
  if (options.length) graph.length = parse_length(std::to_string(*options.length), where);
  check_alphabet(graph.alphabet, where);
  if (graph.length == 0) {
    refuse(where, "the length of the longest text is missing", "", "a line such as length: 10");
  }
  if (graph.output < 0) refuse(where, "nothing is returned", "", "return SEQUENCE");
  return graph;
}

}  // namespace headwise
