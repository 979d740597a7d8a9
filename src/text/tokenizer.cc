// Tokenizer: the pipeline's tokens, cut to size, with the template around them.
#include "headwise/text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "headwise/core/error.h"
#include "text/pipeline.h"

namespace headwise {

using text::PlacedToken;
using text::TemplateItem;
using text::Workspace;

class Tokenizer::Impl {
 public:
  explicit Impl(text::TokenizerParts parts) : parts_(std::move(parts)) {}

  Encoding encode(std::string_view first, const std::string_view* second,
                  const EncodeOptions& options) const {
    const Borrowed borrowed(*this);
    Workspace& workspace = borrowed.workspace();
    const std::string_view texts[2] = {first, second ? *second : std::string_view()};
    const auto& items = second ? parts_.post_processor.pair : parts_.post_processor.single;
    for (int i = 0; i < (second ? 2 : 1); ++i) {
      workspace.placed[i].clear();
      parts_.pipeline->tokenize(texts[i], options.target, workspace, workspace.placed[i]);
    }
    if (options.truncate) truncate(workspace, items, second != nullptr, options);
    for (const bool prefixed : parts_.post_processor.trims) {
      for (int i = 0; i < (second ? 2 : 1); ++i) trim(workspace.placed[i], texts[i], prefixed);
    }
    Encoding encoding = assemble(workspace, items, options.add_special);
    if (options.pad) pad(encoding, *options.pad);
    return encoding;
  }

  const text::TokenizerParts& parts() const { return parts_; }

 private:
  // A workspace nobody else uses, given back at the end.
  class Borrowed {
   public:
    explicit Borrowed(const Impl& impl) : impl_(impl) {
      const std::lock_guard lock(impl_.mutex_);
      if (impl_.idle_.empty()) {
        workspace_ = std::make_unique<Workspace>();
      } else {
        workspace_ = std::move(impl_.idle_.back());
        impl_.idle_.pop_back();
      }
    }
    ~Borrowed() {
      const std::lock_guard lock(impl_.mutex_);
      impl_.idle_.push_back(std::move(workspace_));
    }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    Workspace& workspace() const { return *workspace_; }

   private:
    const Impl& impl_;
    std::unique_ptr<Workspace> workspace_;
  };

  static size_t special_count(const std::vector<TemplateItem>& items) {
    return static_cast<size_t>(std::count_if(items.begin(), items.end(),
                                             [](const auto& item) { return item.sequence < 0; }));
  }

  // The longer text is cut first, then both to half each.
  void truncate(Workspace& workspace, const std::vector<TemplateItem>& items, bool pair,
                const EncodeOptions& options) const {
    const size_t added = options.add_special ? special_count(items) : 0;
    if (*options.truncate < static_cast<int64_t>(added)) {
      throw Error({.what = "tokenizer: truncate leaves no room for the special tokens",
                   .where = "truncate",
                   .got = std::to_string(*options.truncate),
                   .expected = "at least " + std::to_string(added)});
    }
    const size_t most = static_cast<size_t>(*options.truncate) - added;
    size_t sizes[2] = {workspace.placed[0].size(), pair ? workspace.placed[1].size() : 0};
    if (sizes[0] + sizes[1] <= most) return;
    if (!pair) {
      sizes[0] = most;
    } else {
      size_t& shorter = sizes[0] > sizes[1] ? sizes[1] : sizes[0];
      size_t& longer = sizes[0] > sizes[1] ? sizes[0] : sizes[1];
      longer = shorter > most ? shorter : std::max(shorter, most - shorter);
      if (shorter + longer > most) {
        shorter = most / 2;
        longer = shorter + most % 2;
      }
    }
    for (int i = 0; i < 2; ++i) {
      auto& tokens = workspace.placed[i];
      if (sizes[i] >= tokens.size()) continue;
      if (parts_.truncate_left) {
        tokens.erase(tokens.begin(), tokens.end() - static_cast<ptrdiff_t>(sizes[i]));
      } else {
        tokens.resize(sizes[i]);
      }
    }
  }

  // Space at the ends of a token is left out of its offsets, but not a first one that the tokenizer
  // put there.
  static void trim(std::vector<PlacedToken>& tokens, std::string_view text, bool prefixed) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      PlacedToken& token = tokens[i];
      if (token.space_before == 0 && token.space_behind == 0) continue;
      const bool is_first = i == 0 || token.code_points.begin == 0;
      const bool own = is_first && prefixed && token.space_before == 1;
      const int64_t before = own ? 0 : token.space_before;
      TokenSpan& span = token.code_points;
      const TokenSpan whole = span;
      span.begin = std::min(span.begin + before, span.end);
      if (span.end >= token.space_behind) {
        span.end = std::max(span.end - int64_t{token.space_behind}, span.begin);
      }
      token.bytes = {text::byte_after(text, token.bytes.begin, span.begin - whole.begin),
                     text::byte_before(text, token.bytes.end, whole.end - span.end)};
    }
  }

  Encoding assemble(const Workspace& workspace, const std::vector<TemplateItem>& items,
                    bool add_special) const {
    size_t size = special_count(items);
    for (const TemplateItem& item : items) {
      if (item.sequence >= 0) size += workspace.placed[item.sequence].size();
    }
    Encoding out;
    reserve(out, size);
    for (const TemplateItem& item : items) {
      if (item.sequence < 0) {
        if (add_special) put(out, {.id = item.id, .word = -1}, item.type, -1);
        continue;
      }
      for (const PlacedToken& token : workspace.placed[item.sequence]) {
        put(out, token, item.type, item.sequence);
      }
    }
    return out;
  }

  static void reserve(Encoding& out, size_t size) {
    out.ids.reserve(size);
    out.type_ids.reserve(size);
    out.words.reserve(size);
    out.special.reserve(size);
    out.bytes.reserve(size);
    out.code_points.reserve(size);
    out.sequence.reserve(size);
  }

  static void put(Encoding& out, const PlacedToken& token, int32_t type, int8_t sequence) {
    out.ids.push_back(token.id);
    out.type_ids.push_back(type);
    out.words.push_back(token.word);
    out.special.push_back(sequence < 0 ? 1 : 0);
    out.bytes.push_back(token.bytes);
    out.code_points.push_back(token.code_points);
    out.sequence.push_back(sequence);
  }

  void pad(Encoding& out, int64_t size) const {
    const auto id = parts_.pad_id ? parts_.pad_id : parts_.special_tokens.pad;
    const int64_t missing = size - static_cast<int64_t>(out.ids.size());
    if (missing <= 0) return;
    if (!id) {
      throw Error({.what = "tokenizer: there is no token to pad with",
                   .where = "pad",
                   .got = fmt::format("{} tokens to {}", out.ids.size(), size),
                   .expected = "a tokenizer with a pad token"});
    }
    const auto fill = [&](auto& values, auto value) {
      values.insert(parts_.pad_left ? values.begin() : values.end(), static_cast<size_t>(missing),
                    value);
    };
    fill(out.ids, *id);
    fill(out.type_ids, parts_.pad_type);
    fill(out.words, -1);
    fill(out.special, uint8_t{1});
    fill(out.bytes, TokenSpan{});
    fill(out.code_points, TokenSpan{});
    fill(out.sequence, int8_t{-1});
  }

  text::TokenizerParts parts_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Workspace>> idle_;
};

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

std::optional<Tokenizer> Tokenizer::find(const std::filesystem::path& folder) {
  auto parts = text::read_tokenizer_folder(folder);
  if (!parts) return std::nullopt;
  return Tokenizer(std::make_unique<const Impl>(std::move(*parts)));
}

Tokenizer Tokenizer::load(const std::filesystem::path& folder) {
  if (auto tokenizer = find(folder)) return std::move(*tokenizer);
  throw Error({.what = "tokenizer: there is none",
               .where = folder.string(),
               .expected =
                   "tokenizer.json, vocab.txt, vocab.json with merges.txt, tokenizer.model, "
                   "spiece.model, sentencepiece.bpe.model, or source.spm with target.spm "
                   "and vocab.json"});
}

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  return impl_->encode(text, nullptr, options);
}

Encoding Tokenizer::encode(std::string_view first, std::string_view second,
                           const EncodeOptions& options) const {
  return impl_->encode(first, &second, options);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  const text::TokenizerParts& parts = impl_->parts();
  std::string text = parts.pipeline->decode(ids, skip_special);
  return parts.clean_up_spaces ? text::without_tokenization_spaces(std::move(text)) : text;
}

int64_t Tokenizer::size() const { return impl_->parts().pipeline->size(); }
std::string Tokenizer::token(int32_t id) const { return impl_->parts().pipeline->token(id); }
std::optional<int32_t> Tokenizer::id(std::string_view token) const {
  return impl_->parts().pipeline->id(token);
}
bool Tokenizer::is_special(int32_t id) const { return impl_->parts().pipeline->is_special(id); }
std::vector<int64_t> Tokenizer::special_positions(std::span<const int32_t> ids) const {
  std::vector<int64_t> places;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (is_special(ids[i])) places.push_back(static_cast<int64_t>(i));
  }
  return places;
}
const Tokenizer::SpecialTokens& Tokenizer::special_tokens() const {
  return impl_->parts().special_tokens;
}
std::string Tokenizer::kind() const { return impl_->parts().kind; }

}  // namespace headwise
