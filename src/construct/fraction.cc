// Products of 64 bits in 128, then reduced.
#include "construct/fraction.h"

#include <fmt/format.h>

#include <numeric>

#include "headwise/core/error.h"

namespace headwise {
namespace {

__extension__ using Wide = __int128;

Fraction reduced(Wide top, Wide bottom) {
  if (bottom == 0) {
    throw Error({.what = "program: a division by 0",
                 .hint = "maps are compiled for all values that their parts can have, also for "
                         "those that never meet: divide by max(x, 1)"});
  }
  Wide a = top < 0 ? -top : top, b = bottom < 0 ? -bottom : bottom;
  while (b != 0) {
    const Wide rest = a % b;
    a = b;
    b = rest;
  }
  const Wide divisor = bottom < 0 ? -a : a;
  top /= divisor;
  bottom /= divisor;
  constexpr Wide kMost = INT64_MAX;
  if (top > kMost || top < -kMost || bottom > kMost) {
    throw Error(
        {.what = "program: a number has too many digits",
         .got = fmt::format("about {:.6g}", static_cast<double>(top) / static_cast<double>(bottom)),
         .expected = "a fraction of two numbers below 2^63"});
  }
  return Fraction(static_cast<int64_t>(top), static_cast<int64_t>(bottom));
}

}  // namespace

Fraction::Fraction(int64_t top, int64_t bottom) : top_(top), bottom_(bottom) {
  if (bottom > 0 && std::gcd(top, bottom) == 1) return;
  *this = reduced(top, bottom);
}

Fraction operator+(const Fraction& a, const Fraction& b) {
  return reduced(Wide{a.top_} * b.bottom_ + Wide{b.top_} * a.bottom_, Wide{a.bottom_} * b.bottom_);
}

Fraction operator-(const Fraction& a, const Fraction& b) {
  return reduced(Wide{a.top_} * b.bottom_ - Wide{b.top_} * a.bottom_, Wide{a.bottom_} * b.bottom_);
}

Fraction operator*(const Fraction& a, const Fraction& b) {
  return reduced(Wide{a.top_} * b.top_, Wide{a.bottom_} * b.bottom_);
}

Fraction operator/(const Fraction& a, const Fraction& b) {
  return reduced(Wide{a.top_} * b.bottom_, Wide{a.bottom_} * b.top_);
}

std::strong_ordering Fraction::operator<=>(const Fraction& other) const {
  const Wide a = Wide{top_} * other.bottom_, b = Wide{other.top_} * bottom_;
  return a < b   ? std::strong_ordering::less
         : a > b ? std::strong_ordering::greater
                 : std::strong_ordering::equal;
}

}  // namespace headwise
