// Minimum cuts by push-relabel, on the implicit graph of a closure problem.
#include "closure/cut.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <type_traits>

#include "runtime/interrupt.h"

namespace scurry {

namespace {

using Vertex = std::int32_t;

// The minimum cut of a closure by push-relabel: first in, first out, with exact distances recomputed now and then. To
// pick the vertex with the highest label instead scans three to eight times as many arcs on forests.
//
// Flow runs from nodes with a gain, along node -> parent and node -> item, to what has to be paid; with kReversed all
// of it runs backwards, from payments to gains. The arcs have no limit, so the state of an arc is its flow: one end may
// add to it freely, the other may send it back. Vertices are the nodes, then the items.
template <bool kReversed>
class Cut {
 public:
  Cut(const ClosureProblem& problem, Price price);

  std::vector<std::uint8_t> largest_closure();

 private:
  // Calls see(position, to, flow, add) for the arcs of v from a position on, until one returns true; add says whether v
  // may add to the flow or else only send it back.
  template <class See>
  void see_arcs(Vertex v, std::int32_t position, See see);
  std::int32_t degree(Vertex v) const;

  void maximise();     // moves as much excess as possible to vertices with room
  void measure_all();  // computes exact distances to the nearest vertex with room
  void discharge(Vertex v);
  void raise(Vertex v);
  bool any_excess() const;
  std::vector<std::uint8_t> reached_from(std::vector<Vertex> start);

  static constexpr std::int32_t kTreeArcs = 3;  // to the parent and two children

  const ClosureProblem& p_;
  const Vertex n_nodes_, n_vertices_, far_;  // far_: the distance of vertices that reach no room
  std::vector<std::array<Vertex, 2>> children_;
  std::vector<std::int64_t> purchase_offset_;  // by node
  std::vector<std::int32_t> purchase_item_;
  std::vector<std::int32_t> slot_;  // by item_node: which purchase it is
  std::vector<std::int64_t> purchase_flow_, tree_flow_;
  std::vector<std::int64_t> supply_, room_, excess_;
  std::vector<std::int32_t> distance_, cursor_;
  std::vector<Vertex> active_, queue_;
  std::int64_t work_ = 0;
};

template <bool kReversed>
Cut<kReversed>::Cut(const ClosureProblem& problem, Price price)
    : p_(problem),
      n_nodes_(static_cast<Vertex>(problem.n_nodes())),
      n_vertices_(static_cast<Vertex>(problem.n_nodes() + problem.n_items())),
      far_(n_vertices_ + 1),
      children_(n_nodes_, {-1, -1}),
      purchase_offset_(n_nodes_ + 1),
      purchase_item_(problem.item_node.size()),
      slot_(problem.item_node.size()),
      purchase_flow_(problem.item_node.size()),
      tree_flow_(n_nodes_),
      supply_(n_vertices_),
      room_(n_vertices_),
      distance_(n_vertices_),
      cursor_(n_vertices_) {
  for (Vertex v = 0; v < n_vertices_; ++v) {
    std::int64_t weight =
        v < n_nodes_ ? price.gain * p_.gain[v] - price.cost * p_.cost[v] : -price.cost * p_.item_cost[v - n_nodes_];
    if (kReversed) weight = -weight;
    (weight > 0 ? supply_ : room_)[v] = std::abs(weight);
  }
  for (Vertex v = 0; v < n_nodes_; ++v) {
    if (p_.parent[v] >= 0) children_[p_.parent[v]][children_[p_.parent[v]][0] >= 0] = v;
  }
  for (const std::int32_t node : p_.item_node) ++purchase_offset_[node + 1];
  std::partial_sum(purchase_offset_.begin(), purchase_offset_.end(), purchase_offset_.begin());
  std::vector<std::int64_t> next(purchase_offset_.begin(), purchase_offset_.end() - 1);
  for (std::int32_t item = 0; item < n_vertices_ - n_nodes_; ++item) {
    for (std::int64_t a = p_.item_offset[item]; a < p_.item_offset[item + 1]; ++a) {
      slot_[a] = static_cast<std::int32_t>(next[p_.item_node[a]]++);
      purchase_item_[slot_[a]] = item;
    }
  }
}

template <bool kReversed>
std::int32_t Cut<kReversed>::degree(Vertex v) const {
  const std::int64_t n_arcs = v < n_nodes_ ? kTreeArcs + purchase_offset_[v + 1] - purchase_offset_[v]
                                           : p_.item_offset[v - n_nodes_ + 1] - p_.item_offset[v - n_nodes_];
  return static_cast<std::int32_t>(n_arcs);
}

template <bool kReversed>
template <class See>
void Cut<kReversed>::see_arcs(Vertex v, std::int32_t position, See see) {
  constexpr std::bool_constant<kReversed> down;
  constexpr std::bool_constant<!kReversed> up;
  if (v >= n_nodes_) {
    const std::int64_t first = p_.item_offset[v - n_nodes_], end = p_.item_offset[v - n_nodes_ + 1];
    for (std::int64_t a = first + position; a < end; ++a) {
      if (see(static_cast<std::int32_t>(a - first), p_.item_node[a], purchase_flow_[slot_[a]], down)) return;
    }
    return;
  }
  if (position == 0 && p_.parent[v] >= 0 && see(0, p_.parent[v], tree_flow_[v], up)) return;
  for (std::int32_t c = std::max(position, 1); c < kTreeArcs; ++c) {
    const Vertex child = children_[v][c - 1];
    if (child >= 0 && see(c, child, tree_flow_[child], down)) return;
  }
  const std::int64_t first = purchase_offset_[v] - kTreeArcs, end = purchase_offset_[v + 1];
  for (std::int64_t slot = first + std::max(position, kTreeArcs); slot < end; ++slot) {
    if (see(static_cast<std::int32_t>(slot - first), n_nodes_ + purchase_item_[slot], purchase_flow_[slot], up)) return;
  }
}

template <bool kReversed>
void Cut<kReversed>::measure_all() {
  std::fill(distance_.begin(), distance_.end(), far_);
  std::fill(cursor_.begin(), cursor_.end(), 0);
  active_.clear();
  queue_.clear();
  for (Vertex v = 0; v < n_vertices_; ++v) {
    if (room_[v] == 0) continue;
    distance_[v] = 1;
    queue_.push_back(v);
  }
  for (std::size_t at = 0; at < queue_.size(); ++at) {
    const Vertex v = queue_[at];
    if (excess_[v] > 0) active_.push_back(v);
    see_arcs(v, 0, [&, next = distance_[v] + 1](std::int32_t, Vertex to, const std::int64_t& flow, auto add) {
      if (distance_[to] < far_ || (add && flow == 0)) return false;
      distance_[to] = next;
      queue_.push_back(to);
      return false;
    });
  }
  work_ = 0;
}

template <bool kReversed>
void Cut<kReversed>::raise(Vertex v) {
  std::int32_t nearest = far_ - 1;
  see_arcs(v, 0, [&](std::int32_t position, Vertex to, const std::int64_t& flow, auto add) {
    if (distance_[to] >= nearest || !(add || flow > 0)) return false;
    nearest = distance_[to];
    cursor_[v] = position;
    return false;
  });
  distance_[v] = nearest + 1;
  work_ += degree(v);
}

template <bool kReversed>
void Cut<kReversed>::discharge(Vertex v) {
  const std::int64_t settled = std::min(excess_[v], room_[v]);
  room_[v] -= settled;
  std::int64_t left = excess_[v] - settled;
  while (left > 0 && distance_[v] < far_) {
    see_arcs(v, cursor_[v],
             [&, near = distance_[v] - 1](std::int32_t position, Vertex to, std::int64_t& flow, auto add) {
               if (distance_[to] != near || !(add || flow > 0)) return false;
               // What finds room at the next vertex is settled at once. More is sent only after that room is known to
               // be used up.
               const bool settles = room_[to] > 0 && excess_[to] == 0;
               const std::int64_t wanted = settles ? std::min(left, room_[to]) : left;
               const std::int64_t amount = add ? wanted : std::min(wanted, flow);
               flow += add ? amount : -amount;
               left -= amount;
               cursor_[v] = position;
               if (settles) {
                 room_[to] -= amount;
                 if (room_[to] == 0) raise(to);
               } else {
                 if (excess_[to] == 0) active_.push_back(to);
                 excess_[to] += amount;
               }
               return left == 0;
             });
    if (left > 0) raise(v);
  }
  excess_[v] = left;
}

template <bool kReversed>
void Cut<kReversed>::maximise() {
  // To measure scans every arc twice. It pays once raising has scanned as many arcs as there are.
  const std::int64_t patience = n_vertices_ + static_cast<std::int64_t>(p_.item_node.size());
  std::vector<Vertex> wave;
  measure_all();
  while (!active_.empty()) {
    wave.swap(active_);
    active_.clear();
    for (const Vertex v : wave) {
      poll_interrupt_now_and_then();
      discharge(v);
      if (work_ > patience) {
        measure_all();
        break;
      }
    }
  }
}

template <bool kReversed>
bool Cut<kReversed>::any_excess() const {
  return std::any_of(excess_.begin(), excess_.end(), [](std::int64_t e) { return e > 0; });
}

template <bool kReversed>
std::vector<std::uint8_t> Cut<kReversed>::reached_from(std::vector<Vertex> start) {
  std::vector<std::uint8_t> reached(n_vertices_);
  for (const Vertex v : start) reached[v] = 1;
  for (std::size_t at = 0; at < start.size(); ++at) {
    const Vertex v = start[at];
    see_arcs(v, 0, [&](std::int32_t, Vertex to, const std::int64_t& flow, auto add) {
      if (reached[to] || !(add || flow > 0)) return false;
      reached[to] = 1;
      start.push_back(to);
      return false;
    });
  }
  return reached;
}

template <bool kReversed>
std::vector<std::uint8_t> Cut<kReversed>::largest_closure() {
  excess_ = supply_;
  maximise();
  std::vector<std::uint8_t> kept(n_nodes_, 1);
  if constexpr (!kReversed) {
    // All gain that could pay for something did. What can still reach unpaid costs is not worth them.
    measure_all();
    for (Vertex v = 0; v < n_nodes_; ++v) kept[v] = distance_[v] == far_;
  } else if (any_excess()) {
    // Costs that no gain pays for go back to where they came from. What they can reach is not worth them.
    room_ = supply_;
    maximise();
    std::vector<Vertex> unpaid;
    for (Vertex v = 0; v < n_vertices_; ++v) {
      if (room_[v] < supply_[v]) unpaid.push_back(v);
    }
    const std::vector<std::uint8_t> lost = reached_from(std::move(unpaid));
    for (Vertex v = 0; v < n_nodes_; ++v) kept[v] = !lost[v];
  }
  return kept;
}

}  // namespace

std::vector<std::uint8_t> cut_closure(const ClosureProblem& problem, Price price) {
  std::int64_t to_gain = 0, to_pay = price.cost * problem.total_cost();
  for (const std::int64_t gain : problem.gain) (gain > 0 ? to_gain : to_pay) += price.gain * std::abs(gain);
  // The direction in which less has to be pushed is faster.
  return to_pay <= to_gain ? Cut<true>(problem, price).largest_closure() : Cut<false>(problem, price).largest_closure();
}

}  // namespace scurry
