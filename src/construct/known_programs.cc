// The programs that come with headwise: those of the paper on RASP (Weiss et al. 2021).
#include <array>

#include "headwise/construct/program.h"

namespace headwise {
namespace {

constexpr std::string_view kHistogram = R"(# How often each token occurs in the text.
alphabet: a b c d e f g h
length: 16
return selector_width(select(tokens, tokens, ==))
)";

constexpr std::string_view kReverse = R"(# The tokens, last one first.
alphabet: a b c d e f g h
length: 16
count = selector_width(select(true))
opposite = select(indices, count - indices - 1, ==)
return aggregate(opposite, tokens)
)";

constexpr std::string_view kSort = R"(# The tokens in alphabetical order.
alphabet: a b c d e f g h
length: 16
smaller = selector_width(select(tokens, tokens, <))
earlier = selector_width(select(tokens, tokens, ==) and select(indices, indices, <))
place = smaller + earlier
return aggregate(select(place, indices, ==), tokens)
)";

constexpr std::string_view kMostFrequent = R"(# Every token once, the most frequent one first.
alphabet: a b c d e f g h
length: 16
same = select(tokens, tokens, ==)
count = selector_width(same)
repeats = selector_width(same and select(indices, indices, <))
weight = count if repeats == 0 else 0
heavier = selector_width(select(weight, weight, >))
earlier = selector_width(select(weight, weight, ==) and select(indices, indices, <))
place = heavier + earlier
return aggregate(select(place, indices, ==), tokens if repeats == 0 else "-")
)";

constexpr std::string_view kDyck1 =
    R"(# T: the brackets up to here are balanced. P: they can become so. F: they cannot.
alphabet: ( )
length: 16
so_far = select(indices, indices, <=)
balance = mean(so_far, 1 if tokens == "(" else -1)
failed = mean(so_far, balance < 0)
return "F" if failed > 0 else ("T" if balance == 0 else "P")
)";

constexpr std::array<KnownProgram, 5> kPrograms = {{
    {"histogram", "how often each token occurs", kHistogram},
    {"reverse", "the tokens, last one first", kReverse},
    {"sort", "the tokens in alphabetical order", kSort},
    {"most-frequent", "every token once, the most frequent one first", kMostFrequent},
    {"dyck-1", "whether brackets are balanced up to each token", kDyck1},
}};

}  // namespace

std::span<const KnownProgram> known_programs() { return kPrograms; }

}  // namespace headwise
