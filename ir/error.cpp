#include "ir/error.h"

#include <algorithm>
#include <numeric>

namespace skirl {
namespace {

std::string whole_message(const std::string& complaint, const std::string& at, const std::string& help) {
  std::string text = complaint;
  if (!at.empty()) text += "\n  at   " + at;
  if (!help.empty()) text += "\n  help " + help;
  return text;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

Error::Error(std::string complaint, std::string at, std::string help)
    : std::runtime_error(whole_message(complaint, at, help)),
      complaint_(std::move(complaint)),
      at_(std::move(at)),
      help_(std::move(help)) {}

Error Error::located(std::string_view place) const {
  return Error(complaint_, at_.empty() ? std::string(place) : std::string(place) + ", " + at_, help_);
}

std::string nearest_first(std::string_view got, std::vector<std::string> known, std::size_t most) {
  got = got.substr(0, 64);  // a user's text may be megabytes long
  std::stable_sort(known.begin(), known.end(), [&](const std::string& a, const std::string& b) {
    return edit_distance(got, a) < edit_distance(got, b);
  });
  std::string text;
  for (std::size_t i = 0; i < known.size() && i < most; ++i) text += (i ? ", " : "") + known[i];
  if (known.size() > most) text += ", …";
  return text;
}

void check_failed(const char* condition, std::string_view why, const char* file, int line) {
  throw std::logic_error("skirl internal error: " + std::string(why) + " (" + condition + ", " + file + ":" +
                         std::to_string(line) + ")");
}

}  // namespace skirl
