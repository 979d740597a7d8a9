// Exact numbers: means of a program that are equal must be equal in every order of summation.
#pragma once

#include <compare>
#include <cstdint>

namespace headwise {

class Fraction {
 public:
  Fraction(int64_t whole = 0) : top_(whole) {}
  /// Throws Error if the bottom is 0, or if the number in lowest terms does not fit.
  Fraction(int64_t top, int64_t bottom);

  int64_t top() const { return top_; }
  int64_t bottom() const { return bottom_; }  // above 0
  double number() const { return static_cast<double>(top_) / static_cast<double>(bottom_); }

  friend Fraction operator+(const Fraction& a, const Fraction& b);
  friend Fraction operator-(const Fraction& a, const Fraction& b);
  friend Fraction operator*(const Fraction& a, const Fraction& b);
  friend Fraction operator/(const Fraction& a, const Fraction& b);
  std::strong_ordering operator<=>(const Fraction& other) const;
  bool operator==(const Fraction&) const = default;

 private:
  int64_t top_ = 0, bottom_ = 1;  // in lowest terms
};

}  // namespace headwise
