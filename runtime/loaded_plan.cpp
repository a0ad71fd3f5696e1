#include "runtime/loaded_plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

#include "ir/error.h"

namespace skirl {
namespace {

constexpr std::uint32_t kNone = 0xFFFFFFFFu;

/// Whether the instruction is three events: other devices read or write its tensors.
bool meets_others(Op op) { return op == Op::Send || op == Op::Recv || (is_collective(op) && !is_free_change(op)); }

class PlanLoader {
 public:
  PlanLoader(const Plan& plan, Backend& backend, std::uint64_t seed)
      : plan_(plan), graph_(plan.graph), backend_(backend), seed_(seed), made_(std::make_unique<LoadedPlan>(plan)), loaded_(*made_) {}

  std::unique_ptr<LoadedPlan> run() {
    for (std::size_t d = 0; d < plan_.devices.size(); ++d) loaded_.arenas.push_back(backend_.memory(d, plan_.devices[d].arena_bytes));
    number_instructions();
    for (std::size_t d = 0; d < plan_.devices.size(); ++d) add_stream_edges(d);
    for (std::uint32_t i = 0; i < loaded_.instructions.size(); ++i) load_work(i);
    for (const NodeId node : shared_nodes_) load_exchange(node);
    finish_moves();
    finish_kernels();
    finish_edges();
    return std::move(made_);
  }

 private:
  // ---- instructions, their tensors and events

  void number_instructions() {
    at_node_.assign(graph_.node_bound(), {});
    for (std::size_t d = 0; d < plan_.devices.size(); ++d) {
      const DeviceProgram& program = plan_.devices[d];
      loaded_.first_instruction.push_back(static_cast<std::uint32_t>(loaded_.instructions.size()));
      for (std::uint32_t position = 0; position < program.instructions.size(); ++position) {
        const Instruction& given = program.instructions[position];
        const auto number = static_cast<std::uint32_t>(loaded_.instructions.size());
        LoadedInstruction loaded;
        loaded.call = {d, position, given.node, given.stream};
        loaded.first_event = static_cast<std::uint32_t>(loaded_.events.size());
        loaded.first_view = static_cast<std::uint32_t>(loaded_.views.size());
        add_views(loaded, program, given.first_ref);
        if (meets_others(graph_[given.node].op)) {
          for (const Event::Part part : {Event::Part::Arrives, Event::Part::Moves, Event::Part::Ended})
            loaded_.events.push_back({number, 0, 0, part, false});
          add_edge(loaded.first_event, loaded.first_event + 1);
          add_edge(loaded.first_event + 1, loaded.first_event + 2);
          std::vector<std::uint32_t>& members = at_node_[given.node.index()];
          const NodeId event = event_node(given.node);
          if (!known_event(event)) shared_nodes_.push_back(event);
          members.push_back(number);
        } else {
          loaded_.events.push_back({number, 0, 0, Event::Part::Whole, false});
        }
        loaded_.instructions.push_back(loaded);
      }
    }
    loaded_.first_instruction.push_back(static_cast<std::uint32_t>(loaded_.instructions.size()));
    moves_.resize(loaded_.instructions.size());
  }

  /// A send and its recv are one exchange, known by the recv.
  NodeId event_node(NodeId node) const {
    if (graph_[node].op != Op::Send) return node;
    NodeId recv;
    graph_.for_each_use(graph_.result(node), [&](UseId use) { recv = graph_[use].user; });
    if (!recv.valid() || graph_[recv].op != Op::Recv) throw Error("plan: a send without a recv: " + describe(graph_, node));
    return recv;
  }

  bool known_event(NodeId node) {
    if (seen_.empty()) seen_.assign(graph_.node_bound(), false);
    const bool known = seen_[node.index()];
    seen_[node.index()] = true;
    return known;
  }

  void add_views(LoadedInstruction& loaded, const DeviceProgram& program, std::uint32_t first_ref) {
    const NodeId node = loaded.call.node;
    const Node& n = graph_[node];
    std::uint32_t ref = first_ref;
    const auto add = [&](ValueId value) { loaded_.views.push_back(buffer_view(loaded_, loaded.call.device, program.refs[ref++], value)); };
    if (n.op != Op::Recv) {
      loaded.operand_count = n.operand_count;
      graph_.for_each_operand(node, [&](ValueId value, std::size_t) { add(value); });
    }
    if (n.op == Op::Output) {
      loaded.result_count = 1;
      add(graph_.operand(node, 0));
    } else if (n.op != Op::Send) {
      loaded.result_count = n.result_count;
      graph_.for_each_result(node, [&](ValueId value) { add(value); });
    }
  }

  std::uint32_t first_event(std::uint32_t instruction) const { return loaded_.instructions[instruction].first_event; }
  std::uint32_t last_event(std::uint32_t instruction) const {
    const std::uint32_t first = first_event(instruction);
    return loaded_.events[first].part == Event::Part::Whole ? first : first + 2;
  }
  void add_edge(std::uint32_t from, std::uint32_t to) { edges_.emplace_back(from, to); }

  void add_stream_edges(std::size_t device) {
    const DeviceProgram& program = plan_.devices[device];
    const std::uint32_t base = loaded_.first_instruction[device];
    std::vector<std::uint32_t> last(256, kNone);
    for (std::uint32_t position = 0; position < program.instructions.size(); ++position) {
      const Instruction& given = program.instructions[position];
      if (last[given.stream] != kNone) add_edge(last_event(base + last[given.stream]), first_event(base + position));
      last[given.stream] = position;
      for (std::uint32_t w = 0; w < given.wait_count; ++w) {
        const std::uint32_t wait = program.waits[given.first_wait + w];
        if (wait >= program.instructions.size())
          throw Error("plan: instruction " + std::to_string(position) + " of device " + std::to_string(program.device) +
                      " waits for instruction " + std::to_string(wait) + ", but there are " + std::to_string(program.instructions.size()));
        add_edge(last_event(base + wait), first_event(base + position));
      }
    }
  }

  // ---- what an instruction does alone

  void load_work(std::uint32_t number) {
    LoadedInstruction& i = loaded_.instructions[number];
    const Node& n = graph_[i.call.node];
    Event& event = loaded_.events[i.first_event];
    if (n.op == Op::Output) {
      const TensorView& own = loaded_.views[i.first_view];
      const TensorView& exit = loaded_.views[i.first_view + 1];
      const DeviceProgram& program = plan_.devices[i.call.device];
      const std::uint32_t ref = program.instructions[i.call.position].first_ref;
      if (program.refs[ref] == program.refs[ref + 1] || elems(own.shape) == 0) return;
      event.works = true;
      own_move(number, own.shape, i.first_view, i.first_view + 1, exit.shape);
    } else if (is_free_change(n.op)) {
      for (std::uint32_t r = 0; r < i.result_count; ++r) {
        const TensorView& target = loaded_.views[i.first_view + i.operand_count + r];
        if (elems(target.shape) == 0) continue;
        event.works = true;
        const ValueId result = graph_.result(i.call.node, r);
        const std::vector<Move>& list = moves_between(graph_.operand(i.call.node, r), result, position_of(result, i.call.device));
        i.fills = i.fills || list.empty();
        for (const Move& move : list) moves_[number].push_back({&move, {i.first_view + r}, i.first_view + i.operand_count + r});
      }
    } else if (is_compute(n.op)) {
      load_kernel(i, event);
    }
  }

  void own_move(std::uint32_t number, const Shape& shape, std::uint32_t source, std::uint32_t target, const Shape& target_shape) {
    SKIRL_CHECK(shape == target_shape,
                "a value leaves in another shape than it entered: " + describe(graph_, loaded_.instructions[number].call.node));
    const Shape zero(shape.size(), 0);
    loaded_.move_lists.push_back({Move{{0}, Reduction::Sum, zero, zero, shape}});
    moves_[number].push_back({&loaded_.move_lists.back().front(), {source}, target});
  }

  /// No kernel meets an empty tensor: nothing to compute is nothing done, and what an operator makes of nothing is written here.
  void load_kernel(LoadedInstruction& i, Event& event) {
    const Node& n = graph_[i.call.node];
    const auto empty = [](const TensorView& view) { return elems(view.shape) == 0; };
    const std::span<const TensorView> operands = std::span(loaded_.views).subspan(i.first_view, i.operand_count);
    const std::span<const TensorView> results = loaded_.results(i);
    if (std::all_of(results.begin(), results.end(), empty)) return;
    event.works = true;
    const bool some_empty = std::any_of(operands.begin(), operands.end(), empty);
    if (some_empty && !takes_empty(n.op)) {
      i.fills = true;
      i.fill = n.op == Op::RowMax ? -std::numeric_limits<double>::infinity() : 0;
      return;
    }
    i.kernel = static_cast<std::uint32_t>(loaded_.kernels.size());
    KernelCall call;
    call.op = n.op;
    call.attrs = &graph_[n.attrs];
    call.name = graph_[n.name];
    call.seed = seed_;
    call.rule = &loaded_.rules.of(i.call.node);
    if (depends_on_position(n.op)) {
      const int position = graph_[n.mesh].position(plan_.devices[i.call.device].device);
      loaded_.positions.push_back(device_positions(graph_, i.call.node, *call.rule, position));
      call.positions = &loaded_.positions.back();
    }
    call.threads = plan_.threads_per_kernel;
    if (some_empty && n.op == Op::Concat) {
      std::vector<TensorView> held;
      std::copy_if(operands.begin(), operands.end(), std::back_inserter(held), [&](const TensorView& view) { return !empty(view); });
      loaded_.filtered_operands.push_back(std::move(held));
      call.operands = loaded_.filtered_operands.back();
    }
    loaded_.kernels.push_back(call);
  }

  // ---- what devices do together

  struct PendingMove {
    const Move* move;
    std::vector<std::uint32_t> sources;  // views
    std::uint32_t target;
  };

  int position_of(ValueId value, std::size_t device) const {
    return graph_[graph_.layout(value).mesh].position(plan_.devices[device].device);
  }

  const std::vector<Move>& moves_between(ValueId from, ValueId to, std::int64_t to_position) {
    const LayoutId from_layout = graph_[from].layout;
    const LayoutId to_layout = graph_[to].layout;
    const bool same_mesh = graph_.layout(from).mesh == graph_.layout(to).mesh && graph_[graph_[to].producer].op != Op::Recv;
    std::vector<Move>*& known = move_lists_[{graph_[to].type.index(), from_layout.index(), to_layout.index(), to_position, same_mesh}];
    if (!known) {
      loaded_.move_lists.push_back(moves_to(graph_[graph_.layout(from).mesh], graph_.layout(from), graph_[graph_.layout(to).mesh],
                                            graph_.layout(to), same_mesh, graph_.type(to).shape, to_position));
      known = &loaded_.move_lists.back();
    }
    return *known;
  }

  /// The instructions of a node by position on its mesh. Throws Error if a device of the mesh lacks it.
  std::vector<std::uint32_t> members_of(NodeId node) const {
    const Mesh& mesh = graph_[graph_[node].mesh];
    std::vector<std::uint32_t> by_position(mesh.devices.size(), kNone);
    for (const std::uint32_t number : at_node_[node.index()])
      by_position[static_cast<std::size_t>(mesh.position(plan_.devices[loaded_.instructions[number].call.device].device))] = number;
    for (std::size_t p = 0; p < by_position.size(); ++p)
      if (by_position[p] == kNone)
        throw Error("plan: device " + std::to_string(mesh.devices[p]) + " has no instruction for '" + describe(graph_, node) +
                    "', which the others have");
    return by_position;
  }

  /// Tensors meet here: each target's moves wait until their sources have arrived, and the sources end when they have been read.
  void load_exchange(NodeId node) {
    const bool transfer = graph_[node].op == Op::Recv;
    const std::vector<std::uint32_t> targets = members_of(node);
    const std::vector<std::uint32_t> sources = transfer ? members_of(graph_[graph_.operand(node, 0)].producer) : targets;
    for (std::size_t r = 0; r < graph_[node].result_count; ++r) {
      const ValueId from = graph_.operand(node, r);
      const ValueId to = graph_.result(node, r);
      std::map<std::vector<std::int64_t>, std::vector<std::pair<std::size_t, const Move*>>> reductions;
      for (std::size_t p = 0; p < targets.size(); ++p) {
        LoadedInstruction& i = loaded_.instructions[targets[p]];
        const std::uint32_t target = result_view(targets[p], r);
        if (elems(loaded_.views[target].shape) == 0) continue;
        const std::vector<Move>& list = moves_between(from, to, static_cast<std::int64_t>(p));
        loaded_.events[i.first_event + 1].works = true;
        i.fills = i.fills || list.empty();
        for (const Move& move : list) {
          if (move.sources.size() > 1 && !transfer) {
            std::vector<std::int64_t> key(move.sources.begin(), move.sources.end());
            key.insert(key.end(), move.source_start.begin(), move.source_start.end());
            key.insert(key.end(), move.extent.begin(), move.extent.end());
            reductions[key].emplace_back(p, &move);
          } else {
            add_move(targets[p], move, operand_views(sources, move, r), target, sources);
          }
        }
      }
      for (const auto& [key, same] : reductions) share_reduction(same, targets, r);
    }
  }

  std::uint32_t result_view(std::uint32_t instruction, std::size_t r) const {
    const LoadedInstruction& i = loaded_.instructions[instruction];
    return i.first_view + i.operand_count + static_cast<std::uint32_t>(r);
  }

  std::vector<std::uint32_t> operand_views(const std::vector<std::uint32_t>& sources, const Move& move, std::size_t r) const {
    std::vector<std::uint32_t> list;
    for (const int s : move.sources)
      list.push_back(loaded_.instructions[sources[static_cast<std::size_t>(s)]].first_view + static_cast<std::uint32_t>(r));
    return list;
  }

  void add_move(std::uint32_t number, const Move& move, std::vector<std::uint32_t> views, std::uint32_t target,
                const std::vector<std::uint32_t>& sources) {
    moves_[number].push_back({&move, std::move(views), target});
    for (const int s : move.sources) meet(number, sources[static_cast<std::size_t>(s)]);
  }

  /// The moves of `number` touch tensors of `other`.
  void meet(std::uint32_t number, std::uint32_t other) {
    if (number == other) return;
    add_edge(first_event(other), first_event(number) + 1);
    add_edge(first_event(number) + 1, first_event(other) + 2);
  }

  /// Members that need the same box reduced share the work: each reduces a part of it and hands that to the others.
  void share_reduction(const std::vector<std::pair<std::size_t, const Move*>>& same, const std::vector<std::uint32_t>& members,
                       std::size_t r) {
    const Move& first = *same.front().second;
    const std::size_t dim = static_cast<std::size_t>(std::max_element(first.extent.begin(), first.extent.end()) - first.extent.begin());
    for (std::size_t m = 0; m < same.size(); ++m) {
      const auto& [p, move] = same[m];
      Move part = *move;
      std::int64_t shift = 0;
      if (first.extent.empty()) {
        if (m > 0) continue;  // a scalar has no parts
      } else {
        const Interval share = piece({0, first.extent[dim]}, static_cast<std::int64_t>(same.size()), static_cast<std::int64_t>(m));
        if (share.size() == 0) continue;
        shift = share.begin;
        part.source_start[dim] += shift;
        part.target_start[dim] += shift;
        part.extent[dim] = share.size();
      }
      loaded_.move_lists.emplace_back();
      std::vector<Move>& list = loaded_.move_lists.back();
      list.reserve(same.size());
      list.push_back(part);
      add_move(members[p], list.back(), operand_views(members, part, r), result_view(members[p], r), members);
      for (const auto& [other, other_move] : same) {
        if (other == p) continue;
        Move copy{{static_cast<int>(p)}, Reduction::Sum, part.target_start, other_move->target_start, part.extent};
        if (!copy.target_start.empty()) copy.target_start[dim] += shift;
        list.push_back(copy);
        moves_[members[p]].push_back({&list.back(), {result_view(members[p], r)}, result_view(members[other], r)});
        meet(members[p], members[other]);
      }
    }
  }

  // ---- flat tables

  void finish_moves() {
    std::vector<TensorView>& views = loaded_.views;
    for (std::uint32_t number = 0; number < moves_.size(); ++number) {
      LoadedInstruction& i = loaded_.instructions[number];
      i.first_move = static_cast<std::uint32_t>(loaded_.moves.size());
      i.move_count = static_cast<std::uint32_t>(moves_[number].size());
      for (const PendingMove& pending : moves_[number]) {
        LoadedMove move{pending.move, pending.sources.front(), static_cast<std::uint32_t>(pending.sources.size()), pending.target};
        if (pending.sources.size() > 1) {  // the sources of one move stand side by side
          move.first_source = static_cast<std::uint32_t>(views.size());
          for (const std::uint32_t source : pending.sources) views.push_back(TensorView(views[source]));
        }
        loaded_.moves.push_back(move);
      }
    }
    moves_.clear();
  }

  void finish_kernels() {
    for (const LoadedInstruction& i : loaded_.instructions) {
      if (i.kernel == LoadedInstruction::kNoKernel) continue;
      KernelCall& call = loaded_.kernels[i.kernel];
      if (call.operands.empty()) call.operands = std::span(loaded_.views).subspan(i.first_view, i.operand_count);
      call.results = loaded_.results(i);
    }
  }

  void finish_edges() {
    std::sort(edges_.begin(), edges_.end());
    edges_.erase(std::unique(edges_.begin(), edges_.end()), edges_.end());
    std::size_t edge = 0;
    for (std::uint32_t event = 0; event < loaded_.events.size(); ++event) {
      loaded_.events[event].first_next = static_cast<std::uint32_t>(edge);
      for (; edge < edges_.size() && edges_[edge].first == event; ++edge) {
        loaded_.next.push_back(edges_[edge].second);
        ++loaded_.events[edges_[edge].second].before;
      }
    }
    loaded_.events.push_back({0, 0, static_cast<std::uint32_t>(edge), Event::Part::Whole, false});
  }

  struct MoveKey {
    std::uint32_t type;
    std::uint32_t from;
    std::uint32_t to;
    std::int64_t position;
    bool same_mesh;
    auto operator<=>(const MoveKey&) const = default;
  };

  const Plan& plan_;
  const Graph& graph_;
  Backend& backend_;
  std::uint64_t seed_;
  std::unique_ptr<LoadedPlan> made_;
  LoadedPlan& loaded_;
  std::vector<std::vector<std::uint32_t>> at_node_;  // of a node that devices do together: its instructions
  std::vector<NodeId> shared_nodes_;                 // collectives and recvs, in the order of their first instruction
  std::vector<bool> seen_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges_;
  std::vector<std::vector<PendingMove>> moves_;  // of each instruction
  std::map<MoveKey, std::vector<Move>*> move_lists_;
};

}  // namespace

std::unique_ptr<LoadedPlan> load(const Plan& plan, Backend& backend, std::uint64_t seed) { return PlanLoader(plan, backend, seed).run(); }

TensorView buffer_view(const LoadedPlan& loaded, std::size_t device, std::uint32_t buffer, ValueId value) {
  const Graph& graph = loaded.plan.graph;
  const DeviceProgram& program = loaded.plan.devices[device];
  const Layout& layout = graph.layout(value);
  const TensorType& type = graph.type(value);
  const Mesh& mesh = graph[layout.mesh];
  const auto refuse = [&](const std::string& why) {
    throw Error("plan: device " + std::to_string(program.device) + ": " + why + " (" + to_string(type) + ", result of '" +
                describe(graph, graph[value].producer) + "')");
  };
  if (buffer >= program.buffers.size())
    refuse("buffer " + std::to_string(buffer) + " is used, but there are " + std::to_string(program.buffers.size()));
  const int position = mesh.position(program.device);
  if (position < 0) refuse("a value is used that lies on other devices");
  TensorView view{type.dtype, local_shape(mesh, layout, type.shape, position), nullptr};
  const PlanBuffer& place = program.buffers[buffer];
  const std::int64_t size = elems(view.shape) * size_bytes(type.dtype);
  if (place.size_bytes != size)
    refuse("buffer " + std::to_string(buffer) + " has " + std::to_string(place.size_bytes) + " bytes, but a value in it has " +
           std::to_string(size));
  if (place.offset_bytes < 0 || place.offset_bytes % 8 != 0 || place.offset_bytes > program.arena_bytes - size)
    refuse("buffer " + std::to_string(buffer) + " at " + std::to_string(place.offset_bytes) + " does not fit the arena of " +
           std::to_string(program.arena_bytes) + " bytes");
  if (loaded.arenas[device]) view.data = loaded.arenas[device] + place.offset_bytes;
  return view;
}

std::size_t device_index(const Plan& plan, DeviceId device) {
  const auto it =
      std::lower_bound(plan.devices.begin(), plan.devices.end(), device, [](const DeviceProgram& p, DeviceId d) { return p.device < d; });
  if (it == plan.devices.end() || it->device != device) throw Error("plan: no program for device " + std::to_string(device));
  return static_cast<std::size_t>(it - plan.devices.begin());
}

std::string describe(const LoadedPlan& loaded, const Call& call) {
  return "device " + std::to_string(loaded.plan.devices[call.device].device) + ": " + describe(loaded.plan.graph, call.node);
}

}  // namespace skirl
