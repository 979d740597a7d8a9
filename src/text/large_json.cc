// The large values of a tokenizer.json: a small strict reader for the three forms they have.
#include "text/large_json.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "headwise/core/error.h"
#include "headwise/io/json.h"
#include "text/unicode.h"

namespace headwise::text {
namespace {

bool is_json_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// 10 to a power from 0 to 308, the nearest double.
double power_of_ten(int64_t exponent) {
  char text[8] = "1e";
  const auto end = std::to_chars(text + 2, text + sizeof(text), exponent);
  double value = 0;
  std::from_chars(text, end.ptr, value);
  return value;
}

class Reader {
 public:
  Reader(std::string_view json, const std::string& where) : json_(json), where_(where) {}

  [[noreturn]] void refuse(const std::string& expected) const {
    throw Error({.what = "tokenizer: the JSON is not of its form",
                 .where = fmt::format("{}, byte {} of it", where_, at_),
                 .got = at_ < json_.size() ? quote(json_.substr(at_, 20)) : "the end",
                 .expected = expected});
  }

  /// Takes the character, if it is next.
  bool take(char c) {
    skip_space();
    if (at_ >= json_.size() || json_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) refuse(std::string(1, c));
  }
  void expect_end() {
    skip_space();
    if (at_ < json_.size()) refuse("nothing more");
  }
  bool next_is(char c) {
    skip_space();
    return at_ < json_.size() && json_[at_] == c;
  }

  /// Looks into the JSON or into `buffer`; valid until either changes.
  std::string_view string(std::string& buffer) {
    expect('"');
    const size_t begin = at_;
    while (at_ < json_.size() && json_[at_] != '"' && json_[at_] != '\\') step();
    if (at_ < json_.size() && json_[at_] == '"') return json_.substr(begin, at_++ - begin);
    buffer.assign(json_, begin, at_ - begin);
    for (;;) {
      if (at_ >= json_.size()) refuse("a \" at the end of the text");
      if (json_[at_] == '"') break;
      if (json_[at_] == '\\') {
        append_char(buffer, escaped());
      } else {
        const size_t from = at_;
        step();
        buffer.append(json_, from, at_ - from);
      }
    }
    ++at_;
    return buffer;
  }

  int32_t id() {
    skip_space();
    int32_t value = 0;
    const char* end = json_.data() + json_.size();
    const auto result = std::from_chars(json_.data() + at_, end, value);
    if (result.ec != std::errc() || value < 0 || value == INT32_MAX || is_fraction(result.ptr)) {
      refuse("a whole number from 0 to 2147483646");
    }
    at_ = static_cast<size_t>(result.ptr - json_.data());
    return value;
  }

  /// Rounded as serde_json does it, not always to the nearest: sums of scores depend on it.
  double number() {
    skip_space();
    const bool negative = at_ < json_.size() && json_[at_] == '-';
    if (negative) ++at_;
    uint64_t digits = 0;
    int64_t exponent = 0;
    full_ = false;
    const size_t begin = at_;
    for (; is_digit(); ++at_) {
      if (!append_digit(digits)) ++exponent;
    }
    const bool leading_zero = at_ > begin + 1 && json_[begin] == '0';
    if (at_ == begin || leading_zero) refuse("a number");
    if (at_ < json_.size() && json_[at_] == '.') {
      const size_t point = at_++;
      for (; is_digit(); ++at_) {
        if (append_digit(digits)) --exponent;
      }
      if (at_ == point + 1) refuse("a digit");
    }
    if (at_ < json_.size() && (json_[at_] == 'e' || json_[at_] == 'E')) exponent += read_exponent();
    const double value = scaled(static_cast<double>(digits), exponent);
    return negative ? -value : value;
  }

  /// Calls `item` for each of the items up to `end`, the first character being taken already.
  template <class Item>
  void items(char end, Item item) {
    if (take(end)) return;
    do {
      item();
    } while (take(','));
    expect(end);
  }

 private:
  void skip_space() {
    while (at_ < json_.size() && is_json_space(json_[at_])) ++at_;
  }

  bool is_digit() const { return at_ < json_.size() && json_[at_] >= '0' && json_[at_] <= '9'; }

  // False once no further digit fits; from then on they only count, or not even that.
  bool append_digit(uint64_t& digits) {
    const auto digit = static_cast<uint64_t>(json_[at_] - '0');
    full_ = full_ || digits > (UINT64_MAX - digit) / 10;
    if (!full_) digits = digits * 10 + digit;
    return !full_;
  }

  int64_t read_exponent() {
    ++at_;
    const bool negative = at_ < json_.size() && json_[at_] == '-';
    if (negative || (at_ < json_.size() && json_[at_] == '+')) ++at_;
    const size_t begin = at_;
    int64_t value = 0;
    for (; is_digit(); ++at_) value = std::min<int64_t>(value * 10 + (json_[at_] - '0'), 100000);
    if (at_ == begin) refuse("a digit");
    return negative ? -value : value;
  }

  double scaled(double value, int64_t exponent) const {
    if (value == 0) return value;
    for (; exponent < -308 && value != 0; exponent += 308) value /= 1e308;
    if (exponent > 308) refuse("a number that is not too large");
    const double power = power_of_ten(std::abs(exponent));
    const double result = exponent < 0 ? value / power : value * power;
    if (std::isinf(result)) refuse("a number that is not too large");
    return result;
  }

  bool is_fraction(const char* at) const {
    return at < json_.data() + json_.size() && (*at == '.' || *at == 'e' || *at == 'E');
  }

  // Over one character of a string.
  void step() {
    const auto byte = static_cast<uint8_t>(json_[at_]);
    if (byte < 0x20) refuse("no control character in a text");
    if (byte < 0x80) {
      ++at_;
      return;
    }
    const size_t size = valid_char_size(json_, at_);
    if (size == 0) refuse("UTF-8");
    at_ += size;
  }

  char32_t escaped() {
    const char c = at_ + 1 < json_.size() ? json_[at_ + 1] : '\0';
    if (c == 'u') {
      const char32_t high = code_unit();
      if (high < 0xD800 || high > 0xDFFF) return high;
      const bool pair = high < 0xDC00 && json_.substr(at_, 2) == "\\u";
      const char32_t low = pair ? code_unit() : 0;
      if (low < 0xDC00 || low > 0xDFFF) refuse("two halves of a surrogate pair");
      return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    }
    static constexpr std::string_view kNames = "\"\\/bfnrt";
    static constexpr std::string_view kValues = "\"\\/\b\f\n\r\t";
    const size_t index = kNames.find(c);
    if (c == '\0' || index == kNames.npos) refuse("an escape of JSON");
    at_ += 2;
    return static_cast<char32_t>(kValues[index]);
  }

  char32_t code_unit() {
    uint32_t value = 0;
    const std::string_view digits = json_.substr(std::min(at_ + 2, json_.size()), 4);
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() != 4 || result.ptr != digits.data() + 4) refuse("four hexadecimal digits");
    at_ += 6;
    return value;
  }

  std::string_view json_;
  const std::string& where_;
  size_t at_ = 0;
  bool full_ = false;
};

// Over JSON without a look at its details; a place is SIZE_MAX once it makes no sense.
class Skimmer {
 public:
  explicit Skimmer(std::string_view json) : json_(json) {}

  size_t space(size_t at) const {
    while (at < json_.size() && is_json_space(json_[at])) ++at;
    return at;
  }

  size_t string(size_t at) const {
    if (at >= json_.size() || json_[at] != '"') return SIZE_MAX;
    for (++at; at < json_.size(); ++at) {
      if (json_[at] == '"') return at + 1;
      if (json_[at] == '\\') ++at;
    }
    return SIZE_MAX;
  }

  size_t value(size_t at) const {
    size_t depth = 0;
    while (at < json_.size()) {
      const char c = json_[at];
      if (c == '"') {
        at = string(at);
        if (at == SIZE_MAX || depth == 0) return at;
        continue;
      }
      if (depth == 0 && (c == ',' || c == '}' || c == ']' || is_json_space(c))) return at;
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') {
        if (--depth == 0) return at + 1;
      }
      ++at;
    }
    return SIZE_MAX;
  }

  /// Where the value of a field of the object at `at` starts; SIZE_MAX if there is none.
  size_t field(size_t at, std::string_view name) const {
    at = space(at);
    if (at >= json_.size() || json_[at] != '{') return SIZE_MAX;
    for (++at;; ++at) {
      at = space(at);
      const size_t end = string(at);
      if (end == SIZE_MAX) return SIZE_MAX;
      const std::string_view key = json_.substr(at + 1, end - at - 2);
      at = space(end);
      if (at >= json_.size() || json_[at] != ':') return SIZE_MAX;
      at = space(at + 1);
      if (key == name) return at;
      at = value(at);
      if (at == SIZE_MAX) return SIZE_MAX;
      at = space(at);
      if (at >= json_.size() || json_[at] != ',') return SIZE_MAX;
    }
  }

 private:
  std::string_view json_;
};

}  // namespace

LargeValues take_large_values(std::string_view file) {
  LargeValues values;
  const Skimmer skimmer(file);
  const size_t model = skimmer.field(0, "model");
  struct Cut {
    size_t begin, end;
  };
  const auto take = [&](const char* name, std::string_view& out) -> std::optional<Cut> {
    if (model == SIZE_MAX) return std::nullopt;
    const size_t begin = skimmer.field(model, name);
    if (begin >= file.size() || (file[begin] != '{' && file[begin] != '[')) return std::nullopt;
    const size_t end = skimmer.value(begin);
    if (end == SIZE_MAX) return std::nullopt;
    out = file.substr(begin, end - begin);
    return Cut{begin, end};
  };
  auto first = take("vocab", values.vocabulary);
  auto second = take("merges", values.merges);
  if (first && second && second->begin < first->begin) std::swap(first, second);
  size_t from = 0;
  for (const auto& cut : {first, second}) {
    if (!cut) continue;
    values.rest.append(file, from, cut->begin - from);
    values.rest += file[cut->begin] == '{' ? "{}" : "[]";
    from = cut->end;
  }
  values.rest.append(file, from);
  return values;
}

Vocabulary read_vocabulary(std::string_view json, const std::string& where) {
  Vocabulary vocabulary;
  vocabulary.reserve(json.size() / 16, json.size() / 2);
  Reader reader(json, where);
  std::string buffer;
  reader.expect('{');
  reader.items('}', [&] {
    const std::string_view token = reader.string(buffer);
    reader.expect(':');
    if (vocabulary.add(token, reader.id())) return;
    throw Error({.what = "tokenizer: a token is there twice",
                 .where = where,
                 .got = quote(token),
                 .expected = "every token once"});
  });
  reader.expect_end();
  vocabulary.index_ids(where);
  return vocabulary;
}

void for_each_score(std::string_view json, const std::string& where,
                    const std::function<void(std::string_view token, double score)>& found) {
  Reader reader(json, where);
  std::string buffer;
  reader.expect('[');
  reader.items(']', [&] {
    reader.expect('[');
    const std::string_view token = reader.string(buffer);
    reader.expect(',');
    found(token, reader.number());
    reader.expect(']');
  });
  reader.expect_end();
}

void for_each_merge(
    std::string_view json, const std::string& where,
    const std::function<void(std::string_view left, std::string_view right)>& found) {
  Reader reader(json, where);
  std::string buffer, buffer2;
  reader.expect('[');
  reader.items(']', [&] {
    if (reader.take('[')) {
      const std::string_view left = reader.string(buffer);
      reader.expect(',');
      const std::string_view right = reader.string(buffer2);
      reader.expect(']');
      found(left, right);
      return;
    }
    if (!reader.next_is('"')) reader.refuse("\"left right\" or [\"left\", \"right\"]");
    const std::string_view merge = reader.string(buffer);
    if (merge.starts_with("#version")) return;
    const size_t space = merge.find(' ');
    if (space == merge.npos || merge.find(' ', space + 1) != merge.npos) {
      reader.refuse("one space in the merge before");
    }
    found(merge.substr(0, space), merge.substr(space + 1));
  });
  reader.expect_end();
}

}  // namespace headwise::text
