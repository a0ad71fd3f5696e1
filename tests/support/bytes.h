#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ir/graph.h"

/// What a step sends, read off the layouts of the graph.
namespace skirl::test {

/// One tensor of a collective or a transfer. `bytes` is what each of its devices sends in a ring: with n devices along the axis and Ψ bytes
/// of the value before it is cut along that axis (or along the several axes that change), all_reduce 2Ψ(n−1)/n, all_gather and
/// reduce_scatter Ψ(n−1)/n, all_to_all Ψ(n−1)/n², broadcast and send Ψ, permute what the device holds.
struct Traffic {
  NodeId node;
  Op op = Op::AllReduce;
  Role role = Role::Activation;
  std::string name;  // of the node
  bool scalar = false;
  std::int64_t bytes = 0;
};

/// All that is sent, in order of nodes; what is free (local_slice, zero_rest) is left out, a recv is counted with its send. Cuts must be
/// even.
std::vector<Traffic> traffic_of(const Graph& graph);

/// Bytes a device of those that `counts` picks.
std::int64_t bytes_of(const std::vector<Traffic>& traffic, const std::function<bool(const Traffic&)>& counts);

}  // namespace skirl::test
