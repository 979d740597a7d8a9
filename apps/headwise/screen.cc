// What all tables and pictures for a terminal need.
#include "screen.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace headwise::program {

std::string printable(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const bool last = at + 1 == text.size();
    // U+0080 to U+009F are controls, too; in UTF-8 they are C2 80 to C2 9F.
    const bool wide = byte == 0xC2 && !last && static_cast<unsigned char>(text[at + 1]) < 0xA0;
    if (byte == '\n' || byte == '\t') {
      result += byte == '\n' ? "\\n" : "\\t";
    } else if (byte < ' ' || byte == 0x7F || wide) {
      result += fmt::format("\\x{:02x}", wide ? static_cast<unsigned char>(text[++at]) : byte);
    } else {
      result += text[at];
    }
  }
  return result;
}

size_t display_width(std::string_view text) {
  return std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

std::string padded(std::string_view text, size_t width) {
  std::string result = printable(text);
  for (size_t n = display_width(result); n < width; ++n) result += ' ';
  return result;
}

void Table::row(const std::vector<std::string>& cells) {
  for (size_t i = 0; i < cells.size(); ++i) {
    const int width = i < widths_.size() ? widths_[i] : 0;
    const auto least = static_cast<size_t>(std::abs(width)), own = display_width(cells[i]);
    const std::string space(least > own ? least - own : 0, ' ');
    text_ += width < 0 ? cells[i] + space : space + cells[i];
  }
  text_ += '\n';
}

std::string duration(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 120) return fmt::format("{} s", whole);
  const int64_t minutes = (whole + 30) / 60;
  return minutes < 120 ? fmt::format("{} min", minutes)
                       : fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

std::string bytes_to_text(int64_t bytes) {
  const char* const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

std::string percent(double share) {
  const double value = 100 * share;
  return fmt::format("{:.{}f} %", value, std::abs(value) < 9.95 ? 1 : 0);
}

Color choose_color(const std::string& when) {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  if (when == "never") return Color::none;
  if (when == "auto" &&
      (!variable("NO_COLOR").empty() || variable("TERM") == "dumb" || isatty(STDOUT_FILENO) == 0)) {
    return Color::none;
  }
  const std::string_view depth = variable("COLORTERM");
  return depth == "truecolor" || depth == "24bit" ? Color::full : Color::palette;
}

std::string painted(const std::string& text, const Rgb& background, bool black, Color color) {
  if (color == Color::none) return text;
  const auto& [r, g, b] = background;
  const int ink = black ? 16 : 231;
  if (color == Color::full) {
    return fmt::format("\x1b[48;2;{:.0f};{:.0f};{:.0f}m\x1b[38;5;{}m{}\x1b[0m", r, g, b, ink, text);
  }
  const auto level = [](double value) { return std::lround(value / 255 * 5); };
  return fmt::format("\x1b[48;5;{}m\x1b[38;5;{}m{}\x1b[0m",
                     16 + 36 * level(r) + 6 * level(g) + level(b), ink, text);
}

int64_t terminal_width() {
  if (const char* const columns = std::getenv("COLUMNS")) {
    if (const long width = std::strtol(columns, nullptr, 10); width > 0) return width;
  }
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 120;
}

}  // namespace headwise::program
