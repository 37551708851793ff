// The part of a closure problem that is still open after some of its nodes were decided.
#pragma once

#include "closure/closure.h"

namespace scurry {

enum class Fate : std::uint8_t { kDropped, kOpen, kKept };

struct ClosurePart {
  ClosureProblem problem;
  std::vector<std::int32_t> nodes;  // their indices in the whole problem, rising
};

// The open nodes as a problem of their own. Items that kept nodes buy are paid for; those left with one buyer become
// part of its cost. The parents of open nodes are open or kept.
ClosurePart open_part(const ClosureProblem& whole, const std::vector<Fate>& fate);

}  // namespace scurry
