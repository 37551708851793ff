// What the files that are compiled once per instruction set share: the namespace, vector types, and the table of each
// file.
#pragma once

#include "kernels/kernels.h"
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#ifndef SCURRY_ISA
#error "compile core/kernels/*.cc once per instruction set, with SCURRY_ISA naming it"
#endif

namespace scurry::SCURRY_ISA {

// Vectors fit the registers of the instruction set. The compiler takes longer ones apart element by element, which
// makes comparisons and selections ten times as slow as no vectors at all.
#if defined(__AVX512F__)
#define SCURRY_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define SCURRY_VECTOR_BYTES 32
#else
#define SCURRY_VECTOR_BYTES 16
#endif

using u8 = std::uint8_t;
using u32 = std::uint32_t;
using Vector [[gnu::vector_size(SCURRY_VECTOR_BYTES), gnu::may_alias]] = u32;
using Signed [[gnu::vector_size(SCURRY_VECTOR_BYTES), gnu::may_alias]] = std::int32_t;
using Bytes [[gnu::vector_size(SCURRY_VECTOR_BYTES), gnu::may_alias]] = u8;
using SignedBytes [[gnu::vector_size(SCURRY_VECTOR_BYTES), gnu::may_alias]] = std::int8_t;
using Doubles [[gnu::vector_size(SCURRY_VECTOR_BYTES), gnu::may_alias]] = double;

constexpr std::size_t kVectorLanes = sizeof(Vector) / sizeof(u32);
constexpr std::size_t kDoubleLanes = sizeof(Doubles) / sizeof(double);

// Ranks are kept with this bit flipped: most instruction sets compare signed bytes only.
#if defined(__AVX512F__)
constexpr u8 kRankBias = 0;
#else
constexpr u8 kRankBias = 0x80;
#endif

// What the bit of a test of ranks says.
#if defined(__AVX512F__)
constexpr bool kSaysLeft = false;
#else
constexpr bool kSaysLeft = true;  // a constant is compared with memory, which costs no load
#endif

extern const CompressKernels kCompressKernels;
extern const EncodeKernels kEncodeKernels;
extern const LaneTestKernels kLaneTestKernels;
extern const RankKernels kRankKernels;
extern const RivalKernels kRivalKernels;
extern const SlicedKernels kSlicedKernels;
extern const SlicedLaneKernels kSlicedLaneKernels;
extern const StateKernels kStateKernels;
extern const SumKernels kSumKernels;
extern const SymmetricKernels kSymmetricKernels;
extern const WalkKernels<NarrowNode> kNarrowKernels;
extern const WalkKernels<WideNode> kWideKernels;

}  // namespace scurry::SCURRY_ISA
