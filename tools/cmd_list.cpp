#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ir/error.h"
#include "ir/op.h"
#include "models/model.h"
#include "runtime/backends.h"
#include "tools/commands.h"
#include "tools/factor_text.h"
#include "tools/session.h"

namespace skirl {
namespace {

/// An entry of a list, as all kinds print it.
struct Entry {
  std::string name;
  std::string help;
  std::vector<ParamInfo> params;
  std::vector<std::string> notes;  // further lines
  std::string origin = "built-in";
};

template <class Info>
Entry entry_of(const Info& info) {
  Entry entry{info.name, info.help};
  if constexpr (requires { info.params; }) entry.params = info.params;
  if constexpr (requires { info.origin; }) entry.origin = info.origin;
  return entry;
}

template <class Table>
std::vector<Entry> entries_of(const Table& table) {
  std::vector<Entry> entries;
  for (const auto& info : table) entries.push_back(entry_of(info));
  return entries;
}

std::vector<Entry> backends() {
  std::vector<Entry> entries;
  for (const BackendInfo& backend : backend_table()) {
    Entry entry = entry_of(backend);
    if (!backend.unusable.empty()) entry.notes.push_back("not on this machine: " + backend.unusable);
    entries.push_back(entry);
  }
  return entries;
}

std::vector<Entry> ops() {
  std::vector<Entry> entries;
  for (int i = 0; i < kOpCount; ++i) {
    const OpInfo& op = info(static_cast<Op>(i));
    Entry entry{op.name, op.help};
    if (const std::string rule = example_rule(op.op); !rule.empty()) entry.notes.push_back(rule);
    entries.push_back(entry);
  }
  return entries;
}

std::vector<Entry> entries_of_kind(const Options& options) {
  const Session session(options);
  const std::string& kind = options.kind;
  if (kind == "models") return entries_of(model_table());
  if (kind == "passes") return entries_of(session.registry().passes());
  if (kind == "strategies") return entries_of(session.registry().strategies());
  if (kind == "schedules") return entries_of(session.registry().schedules());
  if (kind == "backends") return backends();
  if (kind == "ops") return ops();
  throw Error("there is no list of '" + kind.substr(0, 64) +
              "'; known: " + nearest_first(kind, {"models", "passes", "strategies", "schedules", "backends", "ops"}));
}

Json to_json(const Entry& entry) {
  Json json;
  json["name"] = entry.name;
  json["help"] = entry.help;
  json["from"] = entry.origin;
  for (const ParamInfo& param : entry.params) {
    Json p;
    p["name"] = param.name;
    p["type"] = param.type;
    p["default"] = param.fallback.empty() ? Json() : Json(param.fallback);
    p["help"] = param.help;
    json["params"].push_back(p);
  }
  if (!entry.notes.empty()) json["notes"] = entry.notes;
  return json;
}

}  // namespace

int cmd_list(const Options& options, Console& console) {
  const std::vector<Entry> entries = entries_of_kind(options);
  std::size_t width = 0;
  for (const Entry& entry : entries) width = std::max(width, entry.name.size());
  std::ostream& out = console.text();
  Json list = Json::array();
  for (const Entry& entry : entries) {
    out << std::left << std::setw(static_cast<int>(width) + 2) << entry.name << entry.help;
    if (entry.origin != "built-in") out << "   [" << entry.origin << "]";
    out << "\n";
    for (const ParamInfo& param : entry.params)
      out << "    " << param.name << ": " << param.type << (param.fallback.empty() ? ", required" : ", default " + param.fallback) << "; "
          << param.help << "\n";
    for (const std::string& note : entry.notes) out << "    " << note << "\n";
    list.push_back(to_json(entry));
  }
  Json document;
  document[options.kind] = std::move(list);
  console.write_json(document);
  return 0;
}

}  // namespace skirl
