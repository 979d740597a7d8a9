// Text for a terminal: columns, what cannot be printed, colours, numbers in words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headwise::program {

/// With escapes for control characters, which a terminal would obey: "\\n", "\\x1b".
std::string printable(std::string_view text);

/// Characters that a text takes on the screen.
size_t display_width(std::string_view text);

/// A text in a column of a table, with spaces behind it.
std::string padded(std::string_view text, size_t width);

/// "7 s", "3 min", "2 h 5 min"
std::string duration(double seconds);

/// Rows of cells in columns of these widths; one below 0 puts its cells to the left.
class Table {
 public:
  explicit Table(std::vector<int> widths) : widths_(std::move(widths)) {}
  /// A cell behind the last column is as wide as its text.
  void row(const std::vector<std::string>& cells);
  const std::string& text() const { return text_; }

 private:
  std::vector<int> widths_;
  std::string text_;
};

/// "27.1 MiB"
std::string bytes_to_text(int64_t bytes);

/// "4.2 %", "42 %"
std::string percent(double share);

enum class Color { none, palette, full };  // full: 24 bits

/// `when` is always, never or auto: in a terminal, unless NO_COLOR is set.
Color choose_color(const std::string& when);

struct Rgb {
  double red = 0, green = 0, blue = 0;  // 0 to 255
};

/// A text on this background, in black or white.
std::string painted(const std::string& text, const Rgb& background, bool black, Color color);

/// Columns that there are to draw in.
int64_t terminal_width();

}  // namespace headwise::program
