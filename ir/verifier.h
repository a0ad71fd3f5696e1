#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/rules.h"
#include "ir/verify.h"

namespace skirl {

/// Numbers lists of ids by first appearance; a list seen before gets its number again.
class KeyTable {
 public:
  KeyTable() : slots_(64, 0) {}
  /// The number of `key`; `fresh` says that it is new.
  std::uint32_t number(std::span<const std::uint32_t> key, bool& fresh);
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::uint64_t hash;
    std::uint32_t begin;
    std::uint32_t end;
  };
  void grow();

  std::vector<std::uint32_t> keys_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> slots_;  // entry + 1; 0 is empty
};

/// A breach of any node that looks alike, without the node.
struct Complaint {
  int rule = 0;
  std::string text;
};

/// What the layout of one value must be, whoever made it: cuts and terms over axes of its mesh, each once; tables that cover the dimension.
std::vector<Complaint> layout_complaints(const Graph& graph, const Layout& layout, const Shape& shape);
/// Layouts of operands and results against the factor rule (R4, R5). All are legal by themselves and on `mesh` or at home.
std::vector<Complaint> rule_complaints(const Graph& graph, NodeId node, const FactorRule& rule);
/// Changes of layout: collectives (R7), view and join (R6).
std::vector<Complaint> change_complaints(const Graph& graph, NodeId node);

/// Rules over several nodes: acyclicity (R2), transfers (R8), control edges (R9), the signature (R10).
void check_cycles(const Graph& graph, std::vector<Breach>& breaches);
void check_transfer(const Graph& graph, NodeId node, std::vector<Breach>& breaches);
void check_order_edges(const Graph& graph, std::vector<Breach>& breaches);
void check_signature(const Graph& graph, std::vector<Breach>& breaches);

}  // namespace skirl
