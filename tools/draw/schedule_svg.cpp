#include "tools/draw/schedule_svg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "tools/draw/schedule_colours.h"

namespace skirl::draw {
namespace {

constexpr double kMargin = 16, kRowHeight = 26, kRowGap = 5, kHeadHeight = 62, kAxisHeight = 22, kNoteHeight = 22;
constexpr double kCellWidth = 24, kNarrowestCell = 3, kWidest = 2400;  // of the shortest slot; of all of them
constexpr double kDigit = 6.2;                                         // width of a figure at the size of the cells
constexpr std::int64_t kMostSwatches = 16;
constexpr std::size_t kMostTooltips = 4000;

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '&')
      safe += "&amp;";
    else if (c == '"')
      safe += "&quot;";
    else
      safe += static_cast<unsigned char>(c) < ' ' ? '?' : c;
  }
  return safe;
}

/// A length with at most two places.
std::string num(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  std::string trimmed = text;
  trimmed.erase(trimmed.find_last_not_of('0') + 1);
  if (trimmed.back() == '.') trimmed.pop_back();
  return trimmed == "-0" ? "0" : trimmed;
}

std::string figure(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

class SvgPicture {
 public:
  SvgPicture(const ScheduleTable& table, const ScheduleCost& cost, const std::string& title) : t_(table), c_(cost), title_(title) {
    double shortest = std::numeric_limits<double>::max();
    std::size_t slots = 0;
    for (std::size_t rank = 0; rank < t_.ranks.size(); ++rank)
      for (std::size_t slot = 0; slot < t_.ranks[rank].size(); ++slot, ++slots)
        shortest = std::min(shortest, c_.end[rank][slot] - c_.start[rank][slot]);
    const double per_shortest = std::clamp(kWidest * shortest / std::max(c_.makespan, shortest), kNarrowestCell, kCellWidth);
    scale_ = per_shortest / shortest;
    tooltips_ = slots <= kMostTooltips;
    left_ = kMargin + 12 + kDigit * static_cast<double>(("rank " + std::to_string(t_.ranks.size())).size());
    width_ = std::max(left_ + scale_ * c_.makespan + kMargin, 560.0);
    rows_end_ = kMargin + kHeadHeight + static_cast<double>(t_.ranks.size()) * (kRowHeight + kRowGap) - kRowGap;
    height_ = rows_end_ + kAxisHeight + kNoteHeight + kMargin;
  }

  std::string run() {
    head();
    legend();
    for (std::size_t rank = 0; rank < t_.ranks.size(); ++rank) row(rank);
    axis();
    note();
    return svg_ + "</svg>\n";
  }

 private:
  void head() {
    svg_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + num(width_) + "\" height=\"" + num(height_) + "\" viewBox=\"0 0 " +
           num(width_) + " " + num(height_) +
           "\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"11\" fill=\"#1a1a1a\">\n<style>\n";
    for (std::int64_t s = 0; s < t_.stages; ++s)
      for (const Work work : {Work::F, Work::B, Work::I, Work::W})
        svg_ += "." + style(s, work) + "{fill:" + hex(cell_colour(s, t_.stages, work)) + "}\n";
    svg_ += "rect.c{stroke:#fff;stroke-width:.8}rect.p{fill:none;stroke:#1a1a1a;stroke-width:1}text.m{text-anchor:middle}";
    svg_ += "text.r{text-anchor:middle;text-decoration:underline}\n</style>\n";
    svg_ +=
        "<defs><pattern id=\"idle\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect "
        "width=\"6\" "
        "height=\"6\" fill=\"#f4f4f4\"/><rect width=\"1.2\" height=\"6\" fill=\"#dedede\"/></pattern></defs>\n";
    svg_ += "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
    svg_ += "<text x=\"" + num(kMargin) + "\" y=\"" + num(kMargin + 12) + "\" font-size=\"14\" font-weight=\"bold\">" + escaped(title_) +
            "</text>\n";
  }

  static std::string style(std::int64_t stage, Work work) {
    return std::string(1, "fbiw"[static_cast<std::size_t>(work)]) + std::to_string(stage);
  }

  void rect(double x, double y, double width, double height, const std::string& attributes, const std::string& inside = {}) {
    svg_ += "<rect x=\"" + num(x) + "\" y=\"" + num(y) + "\" width=\"" + num(width) + "\" height=\"" + num(height) + "\" " + attributes;
    svg_ += inside.empty() ? "/>\n" : ">" + inside + "</rect>\n";
  }
  void text(double x, double y, const std::string& attributes, const std::string& content) {
    svg_ += "<text x=\"" + num(x) + "\" y=\"" + num(y) + "\"" + (attributes.empty() ? "" : " " + attributes) + ">" + content + "</text>\n";
  }

  /// The kinds of work that occur, a pair, a bubble, and the stages.
  void legend() {
    bool occurs[4] = {}, pairs = false, idle = c_.bubble_fraction > 1e-9;
    for (const auto& slots : t_.ranks)
      for (const Slot& slot : slots) {
        pairs = pairs || slot.size() > 1;
        for (const Cell& cell : slot) occurs[static_cast<std::size_t>(cell.work)] = true;
      }
    double x = kMargin;
    const double y = kMargin + 24;
    const auto entry = [&](const std::string& attributes, const std::string& what) {
      rect(x, y, 14, 14, attributes);
      text(x + 19, y + 11, "", what);
      x += 19 + kDigit * static_cast<double>(what.size()) + 14;
    };
    constexpr const char* kWords[] = {"forward", "backward", "backward for inputs", "backward for weights"};
    for (const Work work : {Work::F, Work::B, Work::I, Work::W})
      if (occurs[static_cast<std::size_t>(work)]) entry("class=\"c " + style(0, work) + "\"", kWords[static_cast<std::size_t>(work)]);
    if (pairs) {
      rect(x, y, 14, 7, "class=\"" + style(0, Work::F) + "\"");
      rect(x, y + 7, 14, 7, "class=\"" + style(0, Work::B) + "\"");
      entry("class=\"p\"", "overlapped");
    }
    if (idle) entry("fill=\"url(#idle)\"", "bubble");
    if (t_.stages == 1) return;
    x = kMargin;
    const std::int64_t shown = std::min(t_.stages, kMostSwatches);
    text(x, y + 30, "", "stage");
    x += 36;
    for (std::int64_t i = 0; i < shown; ++i) {
      const std::int64_t stage = shown == t_.stages ? i : i * (t_.stages - 1) / (shown - 1);
      rect(x, y + 19, 22, 14, "class=\"c " + style(stage, Work::F) + "\"");
      text(x + 11, y + 30, "class=\"m\"", std::to_string(stage));
      x += 22;
    }
  }

  void row(std::size_t rank) {
    const double y = kMargin + kHeadHeight + static_cast<double>(rank) * (kRowHeight + kRowGap);
    text(left_ - 8, y + kRowHeight / 2 + 4, "text-anchor=\"end\"", "rank " + std::to_string(rank));
    rect(left_, y, scale_ * c_.makespan, kRowHeight, "fill=\"url(#idle)\"");
    for (std::size_t i = 0; i < t_.ranks[rank].size(); ++i) {
      const Slot& slot = t_.ranks[rank][i];
      const double x = left_ + scale_ * c_.start[rank][i], width = scale_ * (c_.end[rank][i] - c_.start[rank][i]);
      const double height = kRowHeight / static_cast<double>(slot.size());
      for (std::size_t k = 0; k < slot.size(); ++k) cell(slot[k], x, y + height * static_cast<double>(k), width, height, rank, i);
      if (slot.size() > 1) rect(x + 0.5, y + 0.5, width - 1, kRowHeight - 1, "class=\"p\"");
    }
  }

  void cell(const Cell& cell, double x, double y, double width, double height, std::size_t rank, std::size_t slot) {
    const std::string tip =
        tooltips_ ? "<title>" + to_string(cell) + ", " + figure(c_.start[rank][slot]) + " to " + figure(c_.end[rank][slot]) + "</title>"
                  : std::string();
    rect(x, y, width, height, "class=\"c " + style(cell.stage, cell.work) + "\"", tip);
    const std::string number = std::to_string(cell.microbatch);
    if (kDigit * static_cast<double>(number.size()) + 2 > width) return;
    text(x + width / 2, y + height / 2 + 4, t_.placement.reverses(cell.microbatch) ? "class=\"r\"" : "class=\"m\"", number);
  }

  void axis() {
    double step = 1;
    constexpr double kSteps[] = {2, 2.5, 2};  // 1, 2, 5, 10, 20, …
    while (step * scale_ > 120) step /= 10;
    for (std::size_t i = 0; step * scale_ < 48; ++i) step *= kSteps[i % 3];
    svg_ +=
        "<path d=\"M" + num(left_) + " " + num(rows_end_ + 5) + "h" + num(scale_ * c_.makespan) + "\" stroke=\"#888\" fill=\"none\"/>\n";
    for (double time = 0; time <= c_.makespan * (1 + 1e-9); time += step) {
      const double x = left_ + scale_ * time;
      svg_ += "<path d=\"M" + num(x) + " " + num(rows_end_ + 5) + "v4\" stroke=\"#888\" fill=\"none\"/>\n";
      text(x, rows_end_ + 19, "class=\"m\" fill=\"#555\"", figure(time));
    }
  }

  void note() {
    std::string line = "makespan " + figure(c_.makespan) + ", bubble " + num(100 * c_.bubble_fraction) + " %, most activations held:";
    std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = 0;
    for (const std::int64_t peak : c_.peak_activations) {
      least = std::min(least, peak);
      most = std::max(most, peak);
    }
    if (least == most)
      line += " " + std::to_string(most) + " on every rank";
    else if (c_.peak_activations.size() > kMostSwatches)
      line += " " + std::to_string(least) + " to " + std::to_string(most);
    else
      for (const std::int64_t peak : c_.peak_activations) line += " " + std::to_string(peak);
    text(kMargin, rows_end_ + kAxisHeight + 18, "fill=\"#555\"", line);
  }

  const ScheduleTable& t_;
  const ScheduleCost& c_;
  const std::string& title_;
  std::string svg_;
  double scale_ = 1;  // points of a unit of time
  double left_ = 0, width_ = 0, rows_end_ = 0, height_ = 0;
  bool tooltips_ = true;
};

}  // namespace

std::string schedule_svg(const ScheduleTable& table, const ScheduleCost& cost, const std::string& title) {
  return SvgPicture(table, cost, title).run();
}

}  // namespace skirl::draw
