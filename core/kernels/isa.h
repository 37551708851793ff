// What the files that are compiled once per instruction set share: the namespace, vector types, and the table of each
// file.
#pragma once

#include "kernels/kernels.h"
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#ifndef SCURRY_ISA
#error "compile core/kernels/*.cc once per instruction set, with SCURRY_ISA naming it"
#endif

namespace scurry::SCURRY_ISA {

using u32 = std::uint32_t;
using Vector [[gnu::vector_size(64), gnu::may_alias]] = u32;
using Signed [[gnu::vector_size(64), gnu::may_alias]] = std::int32_t;
using Doubles [[gnu::vector_size(64), gnu::may_alias]] = double;

constexpr std::size_t kVectorLanes = 16;

extern const EncodeKernels kEncodeKernels;
extern const RivalKernels kRivalKernels;
extern const StateKernels kStateKernels;
extern const SumKernels kSumKernels;
extern const WalkKernels<NarrowNode> kNarrowKernels;
extern const WalkKernels<WideNode> kWideKernels;

}  // namespace scurry::SCURRY_ISA
