#include "passes/lower.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/error.h"
#include "passes/arena.h"

namespace skirl {
namespace {

constexpr std::uint32_t kNone = 0xFFFFFFFFu;

bool has_instruction(Op op) {
  return op != Op::Input && op != Op::Param && op != Op::State && op != Op::View && op != Op::Join && op != Op::Fence;
}

/// A number for each id, kept between devices: clearing costs what was set, not the size of the graph.
class Numbers {
 public:
  explicit Numbers(std::size_t bound) : numbers_(bound, kNone) {}
  std::uint32_t operator[](std::size_t id) const { return numbers_[id]; }
  void set(std::size_t id, std::uint32_t number) {
    if (numbers_[id] == kNone) set_.push_back(static_cast<std::uint32_t>(id));
    numbers_[id] = number;
  }
  void clear() {
    for (const std::uint32_t id : set_) numbers_[id] = kNone;
    set_.clear();
  }

 private:
  std::vector<std::uint32_t> numbers_;
  std::vector<std::uint32_t> set_;
};

/// Lowers one device after another.
class DeviceLowering {
 public:
  explicit DeviceLowering(const Graph& graph)
      : graph_(graph), buffer_of_(graph.value_bound()), position_of_(graph.node_bound()), frontier_of_(graph.node_bound()) {}

  /// `nodes`: those of the device, fences aside, in order; `positions`: its place on each mesh, −1 where it is not.
  DeviceProgram run(DeviceId device, std::span<const NodeId> nodes, std::span<const int> positions) {
    program_ = DeviceProgram{};
    program_.device = device;
    positions_ = positions;
    entries_.clear();
    life_.clear();
    wait_clock_.clear();
    buffer_of_.clear();
    position_of_.clear();
    frontier_of_.clear();
    number_streams(nodes);
    frontiers_.clear();
    sizes_.clear();
    for (const NodeId node : nodes) define(node);
    place();
    return std::move(program_);
  }

 private:
  struct Life {
    std::uint32_t producer = 0;  // position + 1 of the instruction that writes it; 0: it enters the step
    std::uint32_t last = 0;      // position + 1 of the last instruction that touches it
    bool kept = false;           // to the end of the step
  };

  std::size_t streams() const { return stream_ids_.size(); }
  std::span<std::uint32_t> accesses(std::uint32_t buffer) { return std::span(access_).subspan(buffer * streams(), streams()); }
  std::span<std::uint32_t> clock(std::size_t position) { return std::span(wait_clock_).subspan(position * streams(), streams()); }
  std::uint32_t stream_index(std::size_t position) const { return stream_number_[program_.instructions[position].stream]; }

  void number_streams(std::span<const NodeId> nodes) {
    stream_number_.fill(kNone);
    stream_ids_.clear();
    access_.clear();
    for (const NodeId node : nodes) {
      const Node& n = graph_[node];
      if (!has_instruction(n.op) || stream_number_[n.stream] != kNone) continue;
      stream_number_[n.stream] = static_cast<std::uint32_t>(stream_ids_.size());
      stream_ids_.push_back(n.stream);
    }
  }

  // ---- first walk: instructions, buffers, who touches what last

  std::int64_t local_bytes(ValueId value) {
    const Value& v = graph_[value];
    const std::uint64_t key = std::uint64_t{v.type.index()} << 32 | v.layout.index();
    const auto [known, is_new] = sizes_.try_emplace(key, 0);
    if (is_new) {
      const Layout& layout = graph_.layout(value);
      const TensorType& type = graph_.type(value);
      const int position = positions_[layout.mesh.index()];
      SKIRL_CHECK(position >= 0, "a node's result lies on a mesh without the node's device: " + describe(graph_, v.producer));
      known->second = elems(local_shape(graph_[layout.mesh], layout, type.shape, position)) * size_bytes(type.dtype);
    }
    return known->second;
  }

  std::uint32_t new_buffer(std::int64_t size, std::uint32_t producer) {
    program_.buffers.push_back({0, size});
    life_.push_back({producer, producer, false});
    access_.resize(access_.size() + streams(), 0);
    const auto buffer = static_cast<std::uint32_t>(program_.buffers.size() - 1);
    if (producer > 0) touch(buffer, producer);
    return buffer;
  }

  /// The instruction at position `mark` − 1 reads or writes the buffer.
  void touch(std::uint32_t buffer, std::uint32_t mark) {
    life_[buffer].last = mark;
    accesses(buffer)[stream_index(mark - 1)] = mark;
  }

  std::uint32_t buffer_of(ValueId value, NodeId reader) {
    const std::uint32_t buffer = buffer_of_[value.index()];
    SKIRL_CHECK(buffer != kNone, "an operand is not on the device of its reader: " + describe(graph_, reader));
    return buffer;
  }

  void define(NodeId node) {
    const Node& n = graph_[node];
    switch (n.op) {
      case Op::Input:
      case Op::Param:
      case Op::State: {
        const std::uint32_t buffer = new_buffer(local_bytes(graph_.result(node)), 0);
        life_[buffer].kept = true;
        buffer_of_.set(graph_.result(node).index(), buffer);
        program_.entries.emplace_back(node, buffer);
        if (n.op != Op::Input) entries_.emplace((n.op == Op::Param ? "param/" : "state/") + graph_[n.name], buffer);
        return;
      }
      case Op::View:
      case Op::Join:
        rename(node);
        return;
      default:
        break;
    }
    const auto position = static_cast<std::uint32_t>(program_.instructions.size());
    position_of_.set(node.index(), position);
    program_.instructions.push_back({node, n.stream, static_cast<std::uint32_t>(program_.refs.size()), 0, 0});
    if (n.op != Op::Recv)
      graph_.for_each_operand(node, [&](ValueId value, std::size_t) {
        const std::uint32_t buffer = buffer_of(value, node);
        program_.refs.push_back(buffer);
        touch(buffer, position + 1);
      });
    if (n.op == Op::Send) {
      graph_.for_each_result(
          node, [&](ValueId value) { buffer_of_.set(value.index(), buffer_of(graph_.operand(node, graph_.result_index(value)), node)); });
    } else if (n.op == Op::Output) {
      program_.refs.push_back(leaves_by(node, position));
    } else {
      graph_.for_each_result(node, [&](ValueId value) {
        const std::uint32_t buffer = new_buffer(local_bytes(value), position + 1);
        buffer_of_.set(value.index(), buffer);
        program_.refs.push_back(buffer);
      });
    }
  }

  /// A view's or join's result is another name for the one operand that is here.
  void rename(NodeId node) {
    const ValueId result = graph_.result(node);
    std::uint32_t buffer = kNone;
    graph_.for_each_operand(node, [&](ValueId value, std::size_t) {
      if (buffer_of_[value.index()] != kNone) buffer = buffer_of_[value.index()];
    });
    SKIRL_CHECK(buffer != kNone, "no operand is here: " + describe(graph_, node));
    SKIRL_CHECK(program_.buffers[buffer].size_bytes == local_bytes(result),
                "the piece here is not what is read: " + describe(graph_, node));
    buffer_of_.set(result.index(), buffer);
  }

  std::uint32_t leaves_by(NodeId node, std::uint32_t position) {
    const std::uint32_t own = program_.refs.back();
    const auto entry = entries_.find(graph_.attrs<OutputAttrs>(node).kind + "/" + graph_[graph_[node].name]);
    if (entry != entries_.end()) return entry->second;
    if (life_[own].producer > 0) {
      life_[own].kept = true;
      return own;
    }
    const std::uint32_t copy =
        new_buffer(program_.buffers[own].size_bytes, position + 1);  // the entry itself may be overwritten in this step
    life_[copy].kept = true;
    return copy;
  }

  // ---- second walk: offsets and waits

  /// Buffer reuse makes streams wait for each other. A first walk finds the least memory; a second may spend a little more on not waiting.
  void place() {
    constexpr std::int64_t kSmallArena = 1 << 20;
    const std::int64_t least = place_within(0);
    if (streams() < 2) return;
    const std::int64_t budget = least + std::max(least / 8, kSmallArena);
    if (place_within(budget) > budget) place_within(0);
  }

  std::int64_t place_within(std::int64_t budget) {
    const std::size_t count = program_.instructions.size();
    const auto [first_dying, dying] = buffers_by_death();
    Arena arena(budget);
    Frontier front(streams(), 0);
    for (const auto& [node, buffer] : program_.entries)
      program_.buffers[buffer].offset_bytes = arena.allocate(program_.buffers[buffer].size_bytes, front, front);
    program_.waits.clear();
    wait_clock_.assign(count * streams(), 0);
    std::vector<std::uint32_t> latest(streams(), kNone);  // of each stream: its last instruction so far
    for (std::uint32_t i = 0; i < count; ++i) {
      const NodeId node = program_.instructions[i].node;
      const std::size_t first = program_.instructions[i].first_ref;
      const std::span<const std::uint32_t> refs =
          std::span(program_.refs).subspan(first, (i + 1 < count ? program_.instructions[i + 1].first_ref : program_.refs.size()) - first);
      program_.instructions[i].first_wait = static_cast<std::uint32_t>(program_.waits.size());
      const std::span<std::uint32_t> known = clock(i);
      if (const std::uint32_t previous = latest[stream_index(i)]; previous != kNone) merge(known, clock(previous));
      std::fill(front.begin(), front.end(), 0);
      for (const std::uint32_t buffer : refs)
        if (const std::uint32_t producer = life_[buffer].producer; producer > 0 && producer <= i)
          front[stream_index(producer - 1)] = std::max(front[stream_index(producer - 1)], producer);
      if (graph_[node].op == Op::Output) overwrite(refs.back(), i, front);
      graph_.for_each_before(node, [&](NodeId before) { merge_control(before, front); });
      add_waits(front, known);
      for (const std::uint32_t buffer : refs)
        if (life_[buffer].producer == i + 1)
          program_.buffers[buffer].offset_bytes = arena.allocate(program_.buffers[buffer].size_bytes, known, front);
      add_waits(front, known);
      program_.instructions[i].wait_count = static_cast<std::uint32_t>(program_.waits.size()) - program_.instructions[i].first_wait;
      known[stream_index(i)] = i + 1;
      latest[stream_index(i)] = i;
      for (std::size_t d = first_dying[i + 1]; d < first_dying[i + 2]; ++d) {
        const PlanBuffer& buffer = program_.buffers[dying[d]];
        arena.release(buffer.offset_bytes, buffer.size_bytes, accesses(dying[d]));
      }
    }
    program_.arena_bytes = arena.bytes();
    return arena.bytes();
  }

  /// The buffers that die, sorted by their last instruction: those of position p are [first[p + 1], first[p + 2]) of the second.
  std::pair<std::vector<std::uint32_t>, std::vector<std::uint32_t>> buffers_by_death() const {
    std::vector<std::uint32_t> first(program_.instructions.size() + 2, 0);
    for (const Life& life : life_)
      if (!life.kept) ++first[life.last + 1];
    for (std::size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
    std::vector<std::uint32_t> dying(first.back());
    std::vector<std::uint32_t> at = first;
    for (std::uint32_t b = 0; b < life_.size(); ++b)
      if (!life_[b].kept) dying[at[life_[b].last]++] = b;
    return {std::move(first), std::move(dying)};
  }

  /// An output into the buffer by which the value entered waits for all who read the old value.
  void overwrite(std::uint32_t buffer, std::size_t position, std::span<std::uint32_t> front) {
    if (life_[buffer].producer > 0) return;
    SKIRL_CHECK(life_[buffer].last <= position + 1, "the graph is not in lowering order: an old value is read after it was overwritten");
    for (std::size_t s = 0; s < front.size(); ++s)
      if (const std::uint32_t mark = accesses(buffer)[s]; mark <= position) front[s] = std::max(front[s], mark);
  }

  /// What must have ended here when the control predecessor `before` has: itself, or for a node without instruction all that it stands
  /// behind.
  void merge_control(NodeId before, std::span<std::uint32_t> front) {
    std::vector<NodeId> stack{before};
    while (!stack.empty()) {
      const NodeId node = stack.back();
      stack.pop_back();
      if (const std::uint32_t position = position_of_[node.index()]; position != kNone) {
        front[stream_index(position)] = std::max(front[stream_index(position)], position + 1);
        continue;
      }
      if (has_instruction(graph_[node].op)) continue;  // on other devices only
      if (frontier_of_[node.index()] == kNone) compute_frontier(node);
      merge(front, std::span(frontiers_).subspan(frontier_of_[node.index()], streams()));
    }
  }

  void compute_frontier(NodeId root) {
    std::vector<NodeId> stack{root};
    while (!stack.empty()) {
      const NodeId node = stack.back();
      if (frontier_of_[node.index()] != kNone) {
        stack.pop_back();
        continue;
      }
      const std::size_t size = stack.size();
      for_each_behind(node, [&](NodeId before) {
        if (position_of_[before.index()] == kNone && !has_instruction(graph_[before].op) && frontier_of_[before.index()] == kNone)
          stack.push_back(before);
      });
      if (stack.size() > size) continue;
      stack.pop_back();
      Frontier front(streams(), 0);
      for_each_behind(node, [&](NodeId before) {
        if (const std::uint32_t position = position_of_[before.index()]; position != kNone)
          front[stream_index(position)] = std::max(front[stream_index(position)], position + 1);
        else if (frontier_of_[before.index()] != kNone)
          merge(front, std::span(frontiers_).subspan(frontier_of_[before.index()], streams()));
      });
      frontier_of_.set(node.index(), static_cast<std::uint32_t>(frontiers_.size()));
      frontiers_.insert(frontiers_.end(), front.begin(), front.end());
    }
  }

  void for_each_behind(NodeId node, auto&& f) const {
    graph_.for_each_before(node, f);
    graph_.for_each_operand(node, [&](ValueId value, std::size_t) { f(graph_[value].producer); });
  }

  /// Waits for what `front` asks and `known` does not cover, latest first; `known` covers it afterwards and `front` asks for nothing.
  void add_waits(std::span<std::uint32_t> front, std::span<std::uint32_t> known) {
    while (true) {
      const auto mark = std::max_element(front.begin(), front.end());
      if (*mark == 0) return;
      if (*mark > known[static_cast<std::size_t>(mark - front.begin())]) {
        program_.waits.push_back(*mark - 1);
        merge(known, clock(*mark - 1));
      }
      *mark = 0;
    }
  }

  const Graph& graph_;
  Numbers buffer_of_;    // by value: its buffer on this device
  Numbers position_of_;  // by node: its instruction
  Numbers frontier_of_;  // by node without instruction: where its frontier starts in frontiers_
  std::span<const int> positions_;
  DeviceProgram program_;
  std::vector<Life> life_;             // of each buffer
  std::vector<std::uint32_t> access_;  // of each buffer and stream: position + 1 of the last instruction that touches it
  std::vector<std::uint32_t> frontiers_;
  std::vector<std::uint32_t> wait_clock_;  // of each instruction and stream: position + 1 up to which all has ended when it ends
  std::array<std::uint32_t, 256> stream_number_{};
  std::vector<StreamId> stream_ids_;
  std::unordered_map<std::string, std::uint32_t> entries_;  // "param/NAME" → buffer
  std::unordered_map<std::uint64_t, std::int64_t> sizes_;   // (type, layout) → bytes here
};

}  // namespace

DeviceProgram lower_device(const Graph& graph, DeviceId device) {
  std::vector<int> positions(graph.mesh_count());
  for (std::size_t m = 0; m < positions.size(); ++m) positions[m] = graph[MeshId(m)].position(device);
  std::vector<NodeId> nodes;
  graph.for_each_node([&](NodeId node) {
    if (graph[node].op != Op::Fence && positions[graph[node].mesh.index()] >= 0) nodes.push_back(node);
  });
  return DeviceLowering(graph).run(device, nodes, positions);
}

Plan lower(Graph given, const LowerParams& params) {
  Plan plan;
  plan.graph = prepare_lowering(std::move(given));
  plan.threads_per_kernel = params.threads_per_kernel;
  plan.model = params.model;
  plan.strategy = params.strategy;
  const Graph& graph = plan.graph;
  std::vector<DeviceId> devices;
  for (std::size_t m = 0; m < graph.mesh_count(); ++m)
    devices.insert(devices.end(), graph[MeshId(m)].devices.begin(), graph[MeshId(m)].devices.end());
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  const auto number = [&](DeviceId device) { return std::lower_bound(devices.begin(), devices.end(), device) - devices.begin(); };
  std::vector<std::vector<std::size_t>> numbers(graph.mesh_count());  // of each mesh: which of `devices` they are
  for (std::size_t m = 0; m < graph.mesh_count(); ++m)
    for (const DeviceId device : graph[MeshId(m)].devices) numbers[m].push_back(static_cast<std::size_t>(number(device)));
  std::vector<std::vector<NodeId>> nodes(devices.size());
  graph.for_each_node([&](NodeId node) {
    if (graph[node].op == Op::Fence) return;
    for (const std::size_t d : numbers[graph[node].mesh.index()]) nodes[d].push_back(node);
  });
  std::vector<std::vector<std::pair<std::size_t, int>>> places(devices.size());  // of each device: (mesh, position)
  for (std::size_t m = 0; m < numbers.size(); ++m)
    for (std::size_t p = 0; p < numbers[m].size(); ++p) places[numbers[m][p]].emplace_back(m, static_cast<int>(p));
  DeviceLowering lowering(graph);
  std::vector<int> positions(graph.mesh_count(), -1);
  for (std::size_t d = 0; d < devices.size(); ++d) {
    for (const auto& [mesh, position] : places[d]) positions[mesh] = position;
    plan.devices.push_back(lowering.run(devices[d], nodes[d], positions));
    for (const auto& [mesh, position] : places[d]) positions[mesh] = -1;
  }
  return plan;
}

}  // namespace skirl
