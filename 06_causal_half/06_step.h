/* Step 06: the C functions of its kernels, in reading order, and the step itself. 06_step.c has the
 * rows. */
#ifndef STEP_06_H
#define STEP_06_H

#include "problems/attention.h"
#include "problems/attention_backward.h"

#ifdef __cplusplus
extern "C" {
#endif

attention_fn attention_half, attention_wmma, attention_mma, attention_mma_async,
    attention_mma_swizzled, attention_mma_ordered, attention_mma_tma, attention_wgmma,
    attention_producer_warp, attention_overlap, attention_ping_pong, attention_tma_store,
    attention_persistent_blocks, attention_across_tiles, attention_multicast,
    attention_lazy_rescale, attention_drawn_pairs, attention_folded, attention_skipping,
    attention_half_variants, attention_decode_split, attention_decode_packed,
    attention_decode_async, attention_decode_balanced, attention_decode_wgmma,
    attention_decode_ring;

attention_backward_fn attention_backward_mma, attention_backward_mma_async,
    attention_backward_in_turn, attention_backward_wgmma, attention_backward_bulk_adds,
    attention_backward_one_barrier, attention_backward_in_order, attention_backward_persistent,
    attention_backward_fused;

struct step;
extern const struct step step_06;

#ifdef __cplusplus
}
#endif

#endif
