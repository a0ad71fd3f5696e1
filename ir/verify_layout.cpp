#include <algorithm>
#include <optional>

#include "ir/verifier.h"

namespace skirl {
namespace {

std::string axis_text(const Graph& g, const Mesh& mesh, std::uint8_t axis) { return "'" + g[mesh.axes[axis].name] + "'"; }

/// Why an interval table does not cover a dimension of `size` once; empty if it does.
std::string table_fault(const Mesh& mesh, const Cut& cut, std::int64_t size) {
  std::int64_t owners = 1;
  for (const std::uint8_t axis : cut.axes) owners *= mesh.axes[axis].size;
  if (static_cast<std::int64_t>(cut.table.size()) != owners)
    return "a table of " + std::to_string(cut.table.size()) + " owners, expected " + std::to_string(owners);
  std::vector<Interval> all;
  for (const std::vector<Interval>& own : cut.table) {
    for (std::size_t i = 0; i < own.size(); ++i)
      if (i > 0 && own[i].begin < own[i - 1].end) return "a table whose intervals are not sorted";
    all.insert(all.end(), own.begin(), own.end());
  }
  std::sort(all.begin(), all.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::int64_t covered = 0;
  for (const Interval& interval : all) {
    if (interval.begin != covered || interval.end <= interval.begin)
      return "a table that does not cover element " + std::to_string(std::min(covered, interval.begin)) + " once";
    covered = interval.end;
  }
  return covered == size ? "" : "a table that covers " + std::to_string(covered) + " of " + std::to_string(size) + " elements";
}

/// Whether every piece of a dimension cut this way starts at a multiple of `unit`.
bool cut_at_multiples(const Mesh& mesh, const Cut& cut, std::int64_t size, std::int64_t unit) {
  if (unit <= 1) return true;
  std::vector<Interval> pieces{{0, size}};
  if (!cut.table.empty()) {
    pieces.clear();
    for (const auto& own : cut.table) pieces.insert(pieces.end(), own.begin(), own.end());
  } else {
    for (const std::uint8_t axis : cut.axes) {
      std::vector<Interval> next;
      for (const Interval& whole : pieces)
        for (std::int64_t i = 0; i < mesh.axes[axis].size; ++i) next.push_back(piece(whole, mesh.axes[axis].size, i));
      pieces = std::move(next);
    }
  }
  return std::all_of(pieces.begin(), pieces.end(), [&](const Interval& p) { return p.begin % unit == 0; });
}

/// The cut in units of the outermost factor.
Cut in_units(Cut cut, std::int64_t unit) {
  if (unit > 1)
    for (auto& own : cut.table)
      for (Interval& interval : own) interval = {interval.begin / unit, interval.end / unit};
  return cut;
}

/// The check of one node's layouts against its rule.
class RuleCheck {
 public:
  RuleCheck(const Graph& graph, NodeId node, const FactorRule& rule)
      : g_(graph),
        node_(node),
        n_(graph[node]),
        mesh_(graph[n_.mesh]),
        rule_(rule),
        cut_of_(rule.factors.size()),
        factor_of_(mesh_.axes.size(), -1) {}

  std::vector<Complaint> run() {
    for (std::size_t i = 0; i < n_.operand_count; ++i)
      note_cuts("operand " + std::to_string(i), layout_of(i), type_of(i).shape, rule_.operands[i]);
    for (std::size_t r = 0; r < n_.result_count; ++r)
      note_cuts("result " + std::to_string(r), g_.layout(g_.result(node_, r)), g_.type(g_.result(node_, r)).shape, rule_.results[r]);
    if (!complaints_.empty()) return std::move(complaints_);
    for (std::size_t i = 0; i < n_.operand_count; ++i)
      check_dims("operand " + std::to_string(i), layout_of(i), type_of(i).shape, rule_.operands[i]);
    for (std::size_t r = 0; r < n_.result_count; ++r)
      check_dims("result " + std::to_string(r), g_.layout(g_.result(node_, r)), g_.type(g_.result(node_, r)).shape, rule_.results[r]);
    if (!complaints_.empty()) return std::move(complaints_);
    std::vector<bool> spread(mesh_.axes.size(), false);
    for (std::size_t a = 0; a < mesh_.axes.size(); ++a) spread[a] = partial_operands(static_cast<std::uint8_t>(a));
    if (!complaints_.empty()) return std::move(complaints_);
    for (std::size_t r = 0; r < n_.result_count; ++r) check_result(r, spread);
    return std::move(complaints_);
  }

 private:
  /// The layout as the node reads it: what is at home is Replicate on the node's mesh.
  const Layout& layout_of(std::size_t i) const {
    static const Layout kWhole;
    const Layout& layout = g_.layout(g_.operand(node_, i));
    return layout.mesh == n_.mesh ? layout : kWhole;
  }
  const TensorType& type_of(std::size_t i) const { return g_.type(g_.operand(node_, i)); }
  const std::string& factor_name(int f) const { return rule_.factors[static_cast<std::size_t>(f)].name; }
  std::int64_t unit_of(const DimFactors& factors) const {
    std::int64_t unit = 1;
    for (std::size_t k = 1; k < factors.size(); ++k) unit *= rule_.factors[factors[k]].size;
    return unit;
  }
  void wrong(int rule, std::string text) { complaints_.push_back({rule, std::move(text)}); }

  void note_cuts(const std::string& what, const Layout& layout, const Shape& shape, const std::vector<DimFactors>& dims) {
    for (std::size_t d = 0; d < layout.dims.size(); ++d) {
      const Cut& cut = layout.dims[d];
      if (cut.empty()) continue;
      const std::string where = "dimension " + std::to_string(d) + " of " + what + " is cut over " + axis_text(g_, mesh_, cut.axes.front());
      if (dims[d].empty()) {
        wrong(4, where + ", but it is broadcast and is not cut");
        continue;
      }
      const int f = dims[d].front();
      if (rule_.factors[static_cast<std::size_t>(f)].kind == FactorKind::Whole) {
        wrong(4, where + ", but factor '" + factor_name(f) + "' must be whole");
        continue;
      }
      const std::int64_t unit = unit_of(dims[d]);
      if (!cut_at_multiples(mesh_, cut, shape[d], unit)) {
        wrong(4, where + " within a group of " + std::to_string(unit) + ", expected a cut at its multiples");
        continue;
      }
      std::optional<Cut>& known = cut_of_[static_cast<std::size_t>(f)];
      if (!known) known = in_units(cut, unit);
      for (const std::uint8_t axis : cut.axes) {
        if (factor_of_[axis] >= 0 && factor_of_[axis] != f)
          wrong(4, "axis " + axis_text(g_, mesh_, axis) + " cuts factor '" + factor_name(factor_of_[axis]) + "' and, in " + what +
                       ", factor '" + factor_name(f) + "'");
        if (factor_of_[axis] < 0) factor_of_[axis] = f;
      }
    }
  }

  /// Every dimension that a cut factor leads is cut like it.
  void check_dims(const std::string& what, const Layout& layout, const Shape& shape, const std::vector<DimFactors>& dims) {
    static const Cut kUncut;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      for (std::size_t k = 1; k < dims[d].size(); ++k)
        if (cut_of_[dims[d][k]] && shape[d] > 0)
          wrong(4, "factor '" + factor_name(dims[d][k]) + "' is cut, but dimension " + std::to_string(d) + " of " + what +
                       " holds it within another");
      if (dims[d].empty()) continue;
      const std::optional<Cut>& expected = cut_of_[dims[d].front()];
      const Cut found = in_units(layout.cut(d), unit_of(dims[d]));
      if (found == (expected ? *expected : kUncut)) continue;
      Layout wanted = layout;
      if (wanted.dims.size() <= d) wanted.dims.resize(d + 1);
      wanted.dims[d] = *expected;
      wrong(4, what + " is " + text(layout, dims.size()) + ", expected factor '" + factor_name(dims[d].front()) + "' (dimension " +
                   std::to_string(d) + ") cut as elsewhere, " + text(wanted, dims.size()));
    }
  }

  std::string text(Layout layout, std::size_t rank) const {
    layout.mesh = n_.mesh;
    layout.canonicalise();
    return to_string(g_, layout, rank);
  }

  /// Operands that are terms over `axis`: whether there are any. Says where the operator does not take them.
  bool partial_operands(std::uint8_t axis) {
    std::size_t count = 0;
    std::size_t last = 0;
    for (std::size_t i = 0; i < n_.operand_count; ++i) {
      const Layout& layout = layout_of(i);
      const auto term = std::find_if(layout.partial.begin(), layout.partial.end(), [&](const Partial& p) { return p.axis == axis; });
      if (term == layout.partial.end()) continue;
      ++count;
      last = i;
      const std::string what = "operand " + std::to_string(i) + " is Partial over " + axis_text(g_, mesh_, axis);
      const bool linear = rule_.linear != Linear::None && i < rule_.linear_operands.size() && rule_.linear_operands[i] != 0;
      if (is_update_read(n_.op))
        wrong(10, what + ", but " + info(n_.op).name + " never reads a Partial");
      else if (!linear || term->reduction != Reduction::Sum)
        wrong(5, what + (term->reduction == Reduction::Max ? " (max)" : "") + ", but " + info(n_.op).name + " is not linear in it");
      else if (factor_of_[axis] >= 0)
        wrong(5, what + ", which also cuts factor '" + factor_name(factor_of_[axis]) + "'");
    }
    if (count == 0) return false;
    if (rule_.linear == Linear::Each && count > 1)
      wrong(5, std::to_string(count) + " operands are Partial over " + axis_text(g_, mesh_, axis) +
                   ", at most one may be (the last is operand " + std::to_string(last) + ")");
    if (rule_.linear == Linear::Together && count < n_.operand_count)
      wrong(5, std::to_string(count) + " of " + std::to_string(n_.operand_count) + " operands are Partial over " +
                   axis_text(g_, mesh_, axis) + ", expected all or none");
    return true;
  }

  static bool is_update_read(Op op) {
    return op == Op::SumSq || op == Op::ClipCoef || op == Op::Sgd || op == Op::AdamW || op == Op::Output;
  }

  void check_result(std::size_t r, const std::vector<bool>& spread) {
    const Layout& found = g_.layout(g_.result(node_, r));
    Layout expected = found;
    expected.partial.clear();
    for (std::size_t a = 0; a < mesh_.axes.size(); ++a) {
      const std::uint8_t axis = static_cast<std::uint8_t>(a);
      if (spread[a]) expected = with_partial(expected, axis);
      const int f = factor_of_[a];
      if (f < 0 || has_factor(rule_.results[r], f)) continue;
      const FactorKind kind = rule_.factors[static_cast<std::size_t>(f)].kind;
      if (kind == FactorKind::Free) continue;
      expected = with_partial(expected, axis, kind == FactorKind::Max ? Reduction::Max : Reduction::Sum);
    }
    if (found == expected) return;
    const std::size_t rank = rule_.results[r].size();
    wrong(5, "result " + std::to_string(r) + " is " + to_string(g_, found, rank) + ", expected " + to_string(g_, expected, rank));
  }

  static bool has_factor(const std::vector<DimFactors>& dims, int f) {
    return std::any_of(dims.begin(), dims.end(),
                       [&](const DimFactors& factors) { return std::find(factors.begin(), factors.end(), f) != factors.end(); });
  }

  const Graph& g_;
  NodeId node_;
  const Node& n_;
  const Mesh& mesh_;
  const FactorRule& rule_;
  std::vector<std::optional<Cut>> cut_of_;  // by factor, in units of it
  std::vector<int> factor_of_;              // by axis; −1: cuts nothing
  std::vector<Complaint> complaints_;
};

}  // namespace

std::vector<Complaint> layout_complaints(const Graph& g, const Layout& layout, const Shape& shape) {
  std::vector<Complaint> complaints;
  const auto wrong = [&](std::string text) { complaints.push_back({4, std::move(text)}); };
  const Mesh& mesh = g[layout.mesh];
  std::vector<int> used(mesh.axes.size(), 0);
  const auto use = [&](std::uint8_t axis) {
    if (axis >= mesh.axes.size())
      wrong("has axis number " + std::to_string(axis) + " on a mesh of " + std::to_string(mesh.axes.size()) + " axes");
    else if (++used[axis] == 2)
      wrong("has axis " + axis_text(g, mesh, axis) + " twice");
  };
  if (layout.dims.size() > shape.size())
    wrong("has a layout of " + std::to_string(layout.dims.size()) + " dimensions for a tensor of " + std::to_string(shape.size()));
  for (const Cut& cut : layout.dims)
    for (const std::uint8_t axis : cut.axes) use(axis);
  for (const Partial& partial : layout.partial) use(partial.axis);
  if (!complaints.empty()) return complaints;
  for (std::size_t d = 0; d < layout.dims.size(); ++d) {
    const Cut& cut = layout.dims[d];
    if (cut.table.empty()) continue;
    if (const std::string fault = table_fault(mesh, cut, shape[d]); !fault.empty())
      wrong("is cut in dimension " + std::to_string(d) + " by " + fault);
  }
  Layout canonical = layout;
  canonical.canonicalise();
  if (!(canonical == layout)) wrong("has a layout that is not in canonical form");
  return complaints;
}

std::vector<Complaint> rule_complaints(const Graph& graph, NodeId node, const FactorRule& rule) {
  return RuleCheck(graph, node, rule).run();
}

}  // namespace skirl
