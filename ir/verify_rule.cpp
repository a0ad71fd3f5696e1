#include <algorithm>
#include <optional>

#include "ir/factor_cuts.h"
#include "ir/verifier.h"

namespace skirl {
namespace {

std::string axis_text(const Graph& g, const Mesh& mesh, std::uint8_t axis) { return "'" + g[mesh.axes[axis].name] + "'"; }

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
    for (std::size_t i = 0; i < n_.operand_count; ++i) sides_.push_back(side("operand", i, layout_of(i), type_of(i), rule_.operands[i]));
    for (std::size_t r = 0; r < n_.result_count; ++r) {
      const ValueId result = g_.result(node_, r);
      sides_.push_back(side("result", r, g_.layout(result), g_.type(result), rule_.results[r]));
    }
    for (std::size_t s = 0; s < sides_.size(); ++s) read_cuts(s);
    if (!complaints_.empty()) return std::move(complaints_);
    choose(0);
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
  void wrong(int rule, std::string text) { complaints_.push_back({rule, std::move(text)}); }

  /// An operand or a result.
  struct Side {
    const char* kind;
    std::size_t index;
    const Layout& layout;
    const Shape& shape;
    const std::vector<DimFactors>& dims;
    std::int64_t turn;  // of the ring's factor
    std::string name() const { return std::string(kind) + " " + std::to_string(index); }
  };

  /// A dimension that is cut, and the ways to read which axis cuts which of its factors.
  struct CutDim {
    std::size_t side;
    std::size_t dim;
    std::vector<FactorCuts> readings;
    std::size_t chosen = 0;
  };

  Side side(const char* kind, std::size_t index, const Layout& layout, const TensorType& type, const std::vector<DimFactors>& dims) const {
    const std::vector<std::int32_t>& turns = kind[0] == 'o' ? rule_.ring.operand_turn : rule_.ring.result_turn;
    return {kind, index, layout, type.shape, dims, index < turns.size() ? turns[index] : 0};
  }

  std::vector<std::int64_t> sizes_of(const DimFactors& factors) const {
    std::vector<std::int64_t> sizes;
    for (const std::uint16_t f : factors) sizes.push_back(rule_.factors[f].size);
    return sizes;
  }

  bool whole(const DimFactors& factors, const FactorCuts& reading) const {
    return std::any_of(reading.factor.begin(), reading.factor.end(),
                       [&](std::size_t place) { return rule_.factors[factors[place]].kind == FactorKind::Whole; });
  }

  /// Finds out which factors the axes cut, dimension by dimension.
  void read_cuts(std::size_t s) {
    const Side& side = sides_[s];
    for (std::size_t d = 0; d < side.layout.dims.size(); ++d) {
      const Cut& cut = side.layout.dims[d];
      if (cut.empty()) continue;
      const DimFactors& factors = side.dims[d];
      const auto where = [&] {
        return "dimension " + std::to_string(d) + " of " + side.name() + " is cut over " + axis_text(g_, mesh_, cut.axes.front());
      };
      if (factors.empty()) {
        wrong(4, where() + ", but it is broadcast and is not cut");
        continue;
      }
      CutDim read{s, d, factor_cuts(cut, mesh_, sizes_of(factors)), 0};
      if (read.readings.empty()) {
        wrong(4, where() + ": " + no_reading(factors));
        continue;
      }
      const FactorCuts first = read.readings.front();
      std::erase_if(read.readings, [&](const FactorCuts& reading) { return whole(factors, reading); });
      if (read.readings.empty()) {
        for (const std::size_t place : first.factor)
          if (rule_.factors[factors[place]].kind == FactorKind::Whole) {
            wrong(4, where() + ", but factor '" + factor_name(factors[place]) + "' must be whole");
            break;
          }
        continue;
      }
      check_ring(side, d, factors, read.readings);
      cut_dims_.push_back(std::move(read));
    }
  }

  std::string no_reading(const DimFactors& factors) const {
    std::string text = "it is the product of";
    std::string expected;
    std::int64_t within = 1;
    for (const std::uint16_t f : factors) {
      text += " " + rule_.factors[f].name + ":" + std::to_string(rule_.factors[f].size);
      if (f != factors.front()) within *= rule_.factors[f].size;
    }
    return text + ", expected a cut at multiples of " + std::to_string(within) + ", or one that cuts each run of " +
           std::to_string(within) + " alike";
  }

  /// The ring's factor is cut over one axis, in the ring's pieces, turned; below it is compared as if it were not turned.
  void check_ring(const Side& side, std::size_t d, const DimFactors& factors, std::vector<FactorCuts>& readings) {
    for (std::size_t place = 0; place < factors.size(); ++place) {
      if (factors[place] != rule_.ring.factor) continue;
      for (FactorCuts& reading : readings) {
        Cut& cut = reading.cuts[place];
        if (cut.empty()) continue;
        const std::int64_t size = rule_.factors[factors[place]].size;
        const std::string what =
            "dimension " + std::to_string(d) + " of " + side.name() + ", factor '" + factor_name(factors[place]) + "',";
        const std::int64_t parts = static_cast<std::int64_t>(rule_.ring.pieces.size());
        if (cut.axes.size() != 1 || mesh_.axes[cut.axes.front()].size != parts)
          return wrong(4, what + " is cut over " + axes_text(cut) + ", expected one axis of " + std::to_string(parts) + " devices");
        const Cut expected = canonical({cut.axes, rule_.ring.pieces}, mesh_, size);
        Layout straight;
        straight.dims = {cut};
        straight = turned(std::move(straight), mesh_, 0, size, cut.axes.front(), -side.turn);
        if (!(straight.dims.front() == expected)) {
          Layout wanted;
          wanted.dims = {expected};
          wanted = turned(std::move(wanted), mesh_, 0, size, cut.axes.front(), side.turn);
          Layout found;
          found.dims = {cut};
          return wrong(4, what + " is cut " + text(found, 1) + ", expected the pieces of the ring turned by " + std::to_string(side.turn) +
                              ", " + text(wanted, 1));
        }
        cut = expected;
      }
    }
  }

  std::string axes_text(const Cut& cut) const {
    std::string text;
    for (const std::uint8_t axis : cut.axes) text += (text.empty() ? "" : " and ") + axis_text(g_, mesh_, axis);
    return text;
  }

  /// Chooses readings for the cut dimensions from number `i` on such that all agree; else complains of the first that were tried.
  bool choose(std::size_t i) {
    for (; i < cut_dims_.size() && cut_dims_[i].readings.size() == 1; ++i) note_factors(cut_dims_[i]);
    if (complaints_.empty() && i == cut_dims_.size()) check_agreement();
    if (!complaints_.empty() || i == cut_dims_.size()) return complaints_.empty();
    CutDim& cut_dim = cut_dims_[i];
    const std::vector<int> here = factor_of_;
    std::vector<Complaint> first;
    for (cut_dim.chosen = 0; cut_dim.chosen < cut_dim.readings.size(); ++cut_dim.chosen) {
      complaints_.clear();
      note_factors(cut_dim);
      if (complaints_.empty() && choose(i + 1)) return true;
      if (first.empty()) first = complaints_;
      factor_of_ = here;
    }
    complaints_ = std::move(first);
    return false;
  }

  void note_factors(const CutDim& cut_dim) {
    const Side& side = sides_[cut_dim.side];
    const std::vector<std::uint8_t>& axes = side.layout.dims[cut_dim.dim].axes;
    for (std::size_t a = 0; a < axes.size(); ++a) {
      const int f = side.dims[cut_dim.dim][cut_dim.readings[cut_dim.chosen].factor[a]];
      int& known = factor_of_[axes[a]];
      if (known >= 0 && known != f)
        wrong(4, "axis " + axis_text(g_, mesh_, axes[a]) + " cuts factor '" + factor_name(known) + "' and, in " + side.name() +
                     ", factor '" + factor_name(f) + "'");
      if (known < 0) known = f;
    }
  }

  /// Every dimension that has a cut factor is cut like it.
  void check_agreement() {
    std::fill(cut_of_.begin(), cut_of_.end(), std::nullopt);
    for (const CutDim& cut_dim : cut_dims_)
      for (std::size_t place = 0; place < cuts_of(cut_dim).size(); ++place) {
        std::optional<Cut>& known = cut_of_[sides_[cut_dim.side].dims[cut_dim.dim][place]];
        if (!known && !cuts_of(cut_dim)[place].empty()) known = cuts_of(cut_dim)[place];
      }
    std::size_t next = 0;  // of cut_dims_, which go through the sides in this order too
    for (std::size_t s = 0; s < sides_.size(); ++s)
      for (std::size_t d = 0; d < sides_[s].dims.size(); ++d) {
        const bool is_cut = next < cut_dims_.size() && cut_dims_[next].side == s && cut_dims_[next].dim == d;
        check_dim(sides_[s], d, is_cut ? &cut_dims_[next++] : nullptr);
      }
  }

  static const std::vector<Cut>& cuts_of(const CutDim& cut_dim) { return cut_dim.readings[cut_dim.chosen].cuts; }

  void check_dim(const Side& side, std::size_t d, const CutDim* cut_dim) {
    static const Cut kUncut;
    const DimFactors& factors = side.dims[d];
    const auto expected = [&](std::size_t place) -> const Cut& {
      const std::optional<Cut>& known = cut_of_[factors[place]];
      return known ? *known : kUncut;
    };
    for (std::size_t place = 0; place < factors.size(); ++place) {
      if ((cut_dim ? cuts_of(*cut_dim)[place] : kUncut) == expected(place)) continue;
      if (factors.size() > 1 && side.shape[d] == 0) continue;  // no element tells by which of its factors it is cut
      std::vector<Cut> cuts;
      for (std::size_t k = 0; k < factors.size(); ++k) cuts.push_back(in_place(side, factors[k], expected(k)));
      Layout wanted = side.layout;
      if (wanted.dims.size() <= d) wanted.dims.resize(d + 1);
      wanted.dims[d] = product_cut(cuts, mesh_, sizes_of(factors));
      return wrong(4, side.name() + " is " + text(side.layout, side.dims.size()) + ", expected factor '" + factor_name(factors[place]) +
                          "' (dimension " + std::to_string(d) + ") cut as elsewhere, " + text(wanted, side.dims.size()));
    }
  }

  /// How the factor is cut in this operand or result: the ring's is turned.
  Cut in_place(const Side& side, int f, const Cut& cut) const {
    if (f != rule_.ring.factor || cut.empty()) return cut;
    Layout layout;
    layout.dims = {cut};
    return turned(std::move(layout), mesh_, 0, rule_.factors[static_cast<std::size_t>(f)].size, cut.axes.front(), side.turn).dims.front();
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
  std::vector<Side> sides_;
  std::vector<CutDim> cut_dims_;
  std::vector<std::optional<Cut>> cut_of_;  // by factor, in elements of it
  std::vector<int> factor_of_;              // by axis; −1: cuts nothing
  std::vector<Complaint> complaints_;
};

}  // namespace

std::vector<Complaint> rule_complaints(const Graph& graph, NodeId node, const FactorRule& rule) {
  return RuleCheck(graph, node, rule).run();
}

}  // namespace skirl
