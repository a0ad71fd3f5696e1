#include "tools/draw/schedule_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "tools/draw/schedule_colours.h"

namespace skirl::draw {
namespace {

constexpr std::size_t kNarrowest = 24;  // columns of time in a line

/// What stands in the columns of one rank.
struct Column {
  char letter = ' ';
  const Slot* slot = nullptr;
};

class TextPicture {
 public:
  TextPicture(const ScheduleTable& table, const ScheduleCost& cost, const ScheduleTextOptions& options)
      : t_(table),
        c_(cost),
        o_(options),
        several_(table.stages > static_cast<std::int64_t>(table.ranks.size()) || table.placement.two_ways()) {
    shortest_ = std::numeric_limits<double>::max();
    for (std::size_t rank = 0; rank < t_.ranks.size(); ++rank)
      for (std::size_t slot = 0; slot < t_.ranks[rank].size(); ++slot)
        shortest_ = std::min(shortest_, c_.end[rank][slot] - c_.start[rank][slot]);
    // Each cell as wide as its text and a blank, in one scale for all.
    for (std::size_t rank = 0; rank < t_.ranks.size(); ++rank)
      for (std::size_t slot = 0; slot < t_.ranks[rank].size(); ++slot)
        scale_ = std::max(scale_, std::ceil(static_cast<double>(label(t_.ranks[rank][slot]).size() + 1) * shortest_ /
                                                (c_.end[rank][slot] - c_.start[rank][slot]) -
                                            1e-9));
    name_width_ = ("rank " + std::to_string(t_.ranks.size() - 1)).size();
  }

  std::string run() {
    std::vector<std::vector<Column>> rows;
    for (std::size_t rank = 0; rank < t_.ranks.size(); ++rank) rows.push_back(columns(rank));
    std::size_t all = 0;
    for (const auto& row : rows) all = std::max(all, row.size());
    const std::size_t left = name_width_ + 2;
    std::size_t step = o_.width == 0 ? all : std::max(o_.width > left ? o_.width - left : 0, kNarrowest);
    const std::size_t unit = static_cast<std::size_t>(scale_);
    step = std::max(step / unit * unit, unit);
    std::string text;
    for (std::size_t begin = 0; begin < all; begin += step) {
      if (begin > 0) text += "\n";
      for (std::size_t rank = 0; rank < rows.size(); ++rank) {
        const std::string name = "rank " + std::to_string(rank);
        text += std::string(name_width_ - name.size(), ' ') + name + "  ";
        line(rows[rank], begin, std::min(begin + step, rows[rank].size()), text);
      }
    }
    return text + "\n" + summary();
  }

 private:
  std::string label(const Slot& slot) const {
    std::string text;
    for (const Cell& cell : slot)
      text += (text.empty() ? "" : "+") +
              (several_ ? to_string(cell) : to_string(cell).substr(to_string(cell).find("FBIW"[static_cast<std::size_t>(cell.work)])));
    return text;
  }

  std::size_t column(double time) const { return static_cast<std::size_t>(std::lround(time / shortest_ * scale_)); }

  std::vector<Column> columns(std::size_t rank) const {
    std::vector<Column> row;
    for (std::size_t i = 0; i < t_.ranks[rank].size(); ++i) {
      const Slot& slot = t_.ranks[rank][i];
      const std::size_t begin = std::max(column(c_.start[rank][i]), row.size());
      const std::size_t end = std::max(column(c_.end[rank][i]), begin + 1);
      row.resize(begin);
      const std::string text = label(slot);
      for (std::size_t at = begin; at < end; ++at) {
        const bool last = at + 1 == end && end > begin + 1;
        row.push_back({at - begin < text.size() ? text[at - begin] : last ? ' ' : '-', &slot});
      }
    }
    return row;
  }

  void line(const std::vector<Column>& row, std::size_t begin, std::size_t end, std::string& text) const {
    const Slot* shown = nullptr;
    std::string plain;
    for (std::size_t at = begin; at < end; ++at) {
      if (o_.coloured && row[at].slot != shown) {
        shown = row[at].slot;
        if (shown == nullptr) {
          plain += "\x1b[0m";
        } else {
          const Cell& cell = shown->front();
          const Colour c = cell_colour(cell.stage, t_.stages, shown->size() > 1 ? Work::I : cell.work);
          char code[64];
          std::snprintf(code, sizeof code, "\x1b[0;38;2;20;20;20;48;2;%d;%d;%d%sm", c.red, c.green, c.blue,
                        t_.placement.reverses(cell.microbatch) ? ";4" : "");
          plain += code;
        }
      }
      plain += o_.coloured && row[at].letter == '-' ? ' ' : row[at].letter;
    }
    if (o_.coloured) plain += "\x1b[0m";
    if (!o_.coloured) plain.erase(plain.find_last_not_of(' ') + 1);
    text += plain + "\n";
  }

  std::string summary() const {
    char text[160];
    std::snprintf(text, sizeof text, "makespan %.6g, bubble %.6g (%.1f %% of all ranks idle), span bubble %.6g\n", c_.makespan, c_.bubble,
                  100 * c_.bubble_fraction, c_.span_bubble);
    std::string summary = text;
    summary += "most activations held:";
    for (const std::int64_t peak : c_.peak_activations) summary += " " + std::to_string(peak);
    return summary + "\n";
  }

  const ScheduleTable& t_;
  const ScheduleCost& c_;
  const ScheduleTextOptions& o_;
  bool several_;
  double shortest_ = 1;  // time of the shortest slot
  double scale_ = 1;     // columns of the shortest slot
  std::size_t name_width_ = 0;
};

}  // namespace

std::string schedule_text(const ScheduleTable& table, const ScheduleCost& cost, const ScheduleTextOptions& options) {
  return TextPicture(table, cost, options).run();
}

}  // namespace skirl::draw
