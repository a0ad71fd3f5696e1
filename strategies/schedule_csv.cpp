#include "strategies/schedule_csv.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>

#include "ir/error.h"
#include "strategies/schedule_check.h"
#include "strategies/schedule_transfers.h"

namespace skirl {
namespace {

constexpr std::int64_t kMostNumber = 1 << 20;  // of a stage or microbatch
constexpr std::size_t kMostBytes = std::size_t{1} << 28;

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::string shown(std::string_view text) {
  std::string clean;
  for (const char c : text) clean += c < ' ' || c > '~' ? '?' : c;
  return clean;
}

std::vector<std::string_view> pieces(std::string_view text, char separator) {
  std::vector<std::string_view> list;
  for (std::size_t at = 0;;) {
    const std::size_t end = text.find(separator, at);
    list.push_back(text.substr(at, end - at));
    if (end == std::string_view::npos) return list;
    at = end + 1;
  }
}

/// "2SEND_F0" as its parts.
struct Word {
  std::int64_t stage = 0;
  std::string_view what;
  std::optional<std::int64_t> microbatch;
};

class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  ScheduleTable run() {
    std::vector<std::string_view> lines = pieces(text_, '\n');
    if (text_.substr(0, 3) == "\xEF\xBB\xBF") lines[0].remove_prefix(3);  // a byte-order mark, as spreadsheets write it
    for (rank_ = 0; rank_ < lines.size(); ++rank_) line(lines[rank_]);
    while (!actions_.empty() && actions_.back().empty()) actions_.pop_back();
    if (count_ == 0) throw Error("the schedule has no cells", file_);
    if (old_notation()) translate();
    ScheduleTable table = without_transfers();
    place(table);
    check_schedule(table, file_);
    if (has_transfers_) check_transfers(actions_, table, file_);
    return table;
  }

 private:
  [[noreturn]] void fail(std::string_view found, const std::string& complaint) const {
    throw Error("'" + shown(found.substr(0, 40)) + "' " + complaint,
                file_ + " rank " + std::to_string(rank_) + " column " + std::to_string(column_),
                "a cell is like 2F0, 2B0, 2I0, 2W0, (0F7;7B3)OVERLAP_F_B or 2SEND_F0");
  }

  void line(std::string_view text) {
    if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
    std::vector<ScheduleAction>& actions = actions_.emplace_back();
    column_ = 0;
    for (std::string_view field : pieces(text, ',')) {
      field = trimmed(field);
      if (field.size() > 1 && field.front() == '"' && field.back() == '"') field = trimmed(field.substr(1, field.size() - 2));
      if (!field.empty()) action(field, actions);
      ++column_;
    }
  }

  void action(std::string_view field, std::vector<ScheduleAction>& actions) {
    ScheduleAction action;
    action.column = static_cast<std::int64_t>(column_);
    if (field.front() == '(') {
      const std::size_t close = field.find(')');
      const std::string_view kind = close == std::string_view::npos ? std::string_view() : trimmed(field.substr(close + 1));
      if (kind != "OVERLAP_F_B" && kind != "BATCH") fail(field, "is no group of cells: expected (…;…)OVERLAP_F_B or (…;…)BATCH");
      for (const std::string_view member : pieces(field.substr(1, close - 1), ';')) {
        const bool is_transfer = add(trimmed(member), action);
        if (is_transfer != (kind == "BATCH")) fail(field, "mixes work and transfers: OVERLAP_F_B holds cells, BATCH transfers");
      }
    } else {
      for (const std::string_view member : pieces(field, '+')) add(trimmed(member), action);
      if (!action.slot.empty() && !action.transfers.empty()) fail(field, "mixes work and transfers");
    }
    if (action.slot.empty() && action.transfers.empty()) return;  // of sharded parameters
    actions.push_back(std::move(action));
  }

  /// Whether it is a transfer.
  bool add(std::string_view text, ScheduleAction& action) {
    const Word word = parse(text);
    for (const char* ignored : {"UNSHARD", "RESHARD", "REDUCE_GRAD"})
      if (word.what == ignored) {
        if (word.microbatch) fail(text, "has a microbatch, expected none: it is about all of them");
        return false;
      }
    if (!word.microbatch) fail(text, "has no microbatch");
    const bool sends = word.what.starts_with("SEND_");
    if (sends || word.what.starts_with("RECV_")) {
      const std::string_view kind = word.what.substr(5);
      if (kind != "F" && kind != "B") fail(text, "is no cell");
      action.transfers.push_back({sends, kind == "F", word.stage, *word.microbatch});
      has_transfers_ = true;
      return true;
    }
    const std::size_t work = word.what == "BW" ? 1 : std::string_view("FBIW").find(word.what);
    if (word.what.empty() || work == std::string_view::npos || (word.what.size() > 1 && word.what != "BW"))
      fail(text, "is no cell: there is no work '" + std::string(word.what.substr(0, 16)) + "'");
    if (word.what == "BW") both_.insert({word.stage, *word.microbatch});
    action.slot.push_back({word.stage, static_cast<Work>(work), *word.microbatch});
    ++count_;
    return false;
  }

  Word parse(std::string_view text) const {
    Word word;
    const char* at = text.data();
    const char* const end = text.data() + text.size();
    const auto number = [&](std::int64_t& value) {
      const auto [stop, fault] = std::from_chars(at, end, value);
      if (stop == at || *at == '-') return false;
      if (fault != std::errc() || value >= kMostNumber)
        fail(text, "has a number that is too large: at most " + std::to_string(kMostNumber - 1));
      at = stop;
      return true;
    };
    if (!number(word.stage)) fail(text, "is no cell: it starts with no stage");
    const char* const what = at;
    while (at < end && (*at == '_' || (*at >= 'A' && *at <= 'Z'))) ++at;
    word.what = std::string_view(what, static_cast<std::size_t>(at - what));
    std::int64_t microbatch = 0;
    if (at < end && number(microbatch)) word.microbatch = microbatch;
    if (at != end)
      fail(text, "is no cell: '" + shown(std::string_view(at, static_cast<std::size_t>(end - at)).substr(0, 16)) + "' is left over");
    return word;
  }

  template <class Visit>
  void for_each_cell(Visit&& visit) {
    for (auto& actions : actions_)
      for (ScheduleAction& action : actions)
        for (Cell& cell : action.slot) visit(cell);
  }

  /// Before I and B had their names, B meant I, and BW meant B.
  bool old_notation() {
    if (!both_.empty()) return true;
    std::set<std::pair<std::int64_t, std::int64_t>> backwards;
    bool inputs = false, both = false;
    for_each_cell([&](const Cell& cell) {
      inputs = inputs || cell.work == Work::I;
      if (cell.work == Work::B) backwards.insert({cell.stage, cell.microbatch});
    });
    for_each_cell([&](const Cell& cell) { both = both || (cell.work == Work::W && backwards.count({cell.stage, cell.microbatch}) > 0); });
    return both && !inputs;
  }
  void translate() {
    for_each_cell([&](Cell& cell) {
      if (cell.work == Work::B && both_.count({cell.stage, cell.microbatch}) == 0) cell.work = Work::I;
    });
  }

  ScheduleTable without_transfers() {
    ScheduleTable table;
    for (const auto& actions : actions_) {
      table.ranks.emplace_back();
      table.columns.emplace_back();
      for (const ScheduleAction& action : actions) {
        if (action.slot.empty()) continue;
        table.ranks.back().push_back(action.slot);
        table.columns.back().push_back(action.column);
      }
    }
    for_each_cell([&](const Cell& cell) {
      table.stages = std::max(table.stages, cell.stage + 1);
      table.microbatches = std::max(table.microbatches, cell.microbatch + 1);
    });
    return table;
  }

  /// Where the forwards stand; two directions where a stage changes its rank from one microbatch on.
  void place(ScheduleTable& table) const {
    if (static_cast<std::size_t>(table.stages) * static_cast<std::size_t>(table.microbatches) > count_) return;  // not complete
    std::vector<std::int64_t> rank_of(static_cast<std::size_t>(table.stages * table.microbatches), -1);
    for (std::size_t rank = 0; rank < table.ranks.size(); ++rank)
      for (const Slot& slot : table.ranks[rank])
        for (const Cell& cell : slot)
          if (cell.work == Work::F)
            rank_of[static_cast<std::size_t>(cell.stage * table.microbatches + cell.microbatch)] = static_cast<std::int64_t>(rank);
    if (std::find(rank_of.begin(), rank_of.end(), -1) != rank_of.end()) return;
    const auto at = [&](std::int64_t s, std::int64_t m) { return rank_of[static_cast<std::size_t>(s * table.microbatches + m)]; };
    Placement placement;
    placement.reverse_from = table.microbatches;
    for (std::int64_t s = 0; s < table.stages; ++s) {
      placement.rank.push_back(at(s, 0));
      for (std::int64_t m = 1; m < placement.reverse_from; ++m)
        if (at(s, m) != at(s, 0)) placement.reverse_from = m;
    }
    if (placement.reverse_from < table.microbatches)
      for (std::int64_t s = 0; s < table.stages; ++s) placement.reverse_rank.push_back(at(s, placement.reverse_from));
    else
      placement.reverse_from = 0;
    table.placement = std::move(placement);
  }

  std::string_view text_;
  const std::string& file_;
  ScheduleActions actions_;
  std::set<std::pair<std::int64_t, std::int64_t>> both_;  // stages and microbatches of BW
  std::size_t rank_ = 0;
  std::size_t column_ = 0;
  std::size_t count_ = 0;  // cells
  bool has_transfers_ = false;
};

std::string csv_text(const Slot& slot) {
  if (slot.size() == 1) return to_string(slot.front());
  std::string text;
  for (const Cell& cell : slot) text += (text.empty() ? "(" : ";") + to_string(cell);
  return text + ")OVERLAP_F_B";
}

}  // namespace

ScheduleTable parse_schedule_csv(std::string_view text, const std::string& file) { return Parser(text, file).run(); }

ScheduleTable read_schedule_csv(const std::string& path) {
  std::error_code fault;
  if (!std::filesystem::is_regular_file(path, fault)) throw Error("cannot read the schedule file " + path + ": it is no file");
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error("cannot read the schedule file " + path);
  if (std::filesystem::file_size(path, fault) > kMostBytes) throw Error("the schedule file " + path + " is larger than 256 MiB");
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return parse_schedule_csv(text, path);
}

std::string schedule_csv(const ScheduleTable& table, bool transfers) {
  std::string text;
  const auto line = [&](const auto& entries, auto&& entry_text) {
    for (std::size_t i = 0; i < entries.size(); ++i) text += (i ? "," : "") + entry_text(entries[i]);
    text += "\n";
  };
  if (transfers)
    for (const auto& actions : with_transfers(table))
      line(actions, [](const ScheduleAction& a) { return a.slot.empty() ? to_string(a.transfers.front()) : csv_text(a.slot); });
  else
    for (const std::vector<Slot>& slots : table.ranks) line(slots, [](const Slot& slot) { return csv_text(slot); });
  return text;
}

}  // namespace skirl
