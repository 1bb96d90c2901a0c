#include "plans_attention.h"

#include "tests/support/harness.h"
#include "device/device.h"
#include "harness/refusal.h"

#include <limits.h>

static const int head_dims[] = {1, 8, 31, 32, 33, 40, 64, 65, 72, 96, 97, 128};
enum { HEAD_DIMS = sizeof head_dims / sizeof *head_dims };

static const struct device_limits *device_of(long long number)
{
    return &plan_devices[number % (long long)plan_device_count];
}

/* Takes every pair of edge lengths with one head, with heads that share one kv head, and with
 * several kv heads. */
static int edge_pairs(plan_judge *judge, int multiple, bool causal)
{
    static const struct {
        int batch, heads, kv_heads;
    } heads[] = {{1, 1, 1}, {2, 3, 1}, {1, 4, 2}};
    static const int longer[] = {1023, 1024, 1025, 4096};
    int judged = 0;
    for (int h = 0; h < 3; h++)
        for (const int *seq_q = plan_edges; *seq_q >= 0; seq_q++)
            for (int k = 0; k < 27; k++)
                for (int masked = 0; masked <= causal; masked++) {
                    const int d = head_dims[judged % HEAD_DIMS];
                    const struct attention call = {
                        .batch = heads[h].batch,
                        .heads = heads[h].heads,
                        .kv_heads = heads[h].kv_heads,
                        .seq_q = *seq_q,
                        .seq_kv = k < 23 ? plan_edges[k] : longer[k - 23],
                        .head_dim = (d + multiple - 1) / multiple * multiple,
                        .causal = masked,
                        .scale = 1.0f,
                    };
                    judge(&call, device_of(judged++));
                }
    return judged;
}

/* Takes the largest and the smallest of each size on every device. */
static int extremes(plan_judge *judge, int multiple, bool causal)
{
    static const int many = MAX_EXTENT, half = 1 << 30;
    static const int sizes[][5] = {
        /* batch, heads, kv_heads, seq_q, seq_kv */
        {1, 1, 1, many, many},
        {1, 1, 1, many, 0},
        {1, 1, 1, many, 1},
        {1, 1, 1, 1, many},
        {many, 1, 1, 1, 1},
        {1, many, 1, 1, 1},
        {1, many, 1, 1, many},
        {1, many, many, 1, 1},
        {many, 1, 1, 1, 0},
        {2, 1, 1, half - 512, half - 512},
        {3, 5, 1, 100000000, 7},
        {0, 1, 1, 1, 1},
        {1, 0, 0, 1, 1},
        {1, 1, 1, 0, 1},
        {1, 1, 1, 1, 0},
        {0, many, 1, many, 1},
        {many, 0, 0, many, many},
        {many, many, many, 0, 0},
        {1, 2, 1, 1, many},
        {1, 8, 1, 513, many},
        {1, 1023, 1023, 1, 2099200},
    };
    int judged = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int d = 0; d < HEAD_DIMS; d++)
            for (int masked = 0; masked <= causal; masked++)
                for (size_t device = 0; device < plan_device_count; device++) {
                    const struct attention call = {
                        .batch = sizes[s][0],
                        .heads = sizes[s][1],
                        .kv_heads = sizes[s][2],
                        .seq_q = sizes[s][3],
                        .seq_kv = sizes[s][4],
                        .head_dim = (head_dims[d] + multiple - 1) / multiple * multiple,
                        .causal = masked,
                        .scale = 1.0f,
                    };
                    judge(&call, &plan_devices[device]);
                    judged++;
                }
    return judged;
}

/* Draws a call in which an int can number the rows of Q, and those of K. */
static struct attention random_call(uint64_t *state, int multiple, bool causal)
{
    struct attention call = {.scale = 1.0f};
    call.batch = plan_length(state, 1 << 10);
    const int group = plan_length(state, 16) + 1;
    call.kv_heads = plan_length(state, 1 << 10) + 1;
    call.heads = group * call.kv_heads;
    const long long heads = (long long)call.batch * call.heads,
                    kv_heads = (long long)call.batch * call.kv_heads;
    const int most_q = heads > 1 ? (int)(MAX_EXTENT / heads) : MAX_EXTENT,
              most_kv = kv_heads > 1 ? (int)(MAX_EXTENT / kv_heads) : MAX_EXTENT;
    call.seq_q = plan_length(state, most_q < MAX_EXTENT ? most_q : MAX_EXTENT);
    call.seq_kv = plan_length(state, most_kv < MAX_EXTENT ? most_kv : MAX_EXTENT);
    call.head_dim = (int)(plan_random(state) % (128 / multiple) + 1) * multiple;
    call.causal = causal && plan_random(state) % 2;
    return call;
}

int plan_attention_calls(plan_judge *judge, int multiple, bool causal)
{
    int judged = edge_pairs(judge, multiple, causal) + extremes(judge, multiple, causal);
    uint64_t state = 4;
    for (int n = 0; n < RANDOM_SHAPES; n++, judged++) {
        const struct attention call = random_call(&state, multiple, causal);
        judge(&call, device_of(n));
    }
    return judged;
}

static void write_sizes(long long *sizes, const struct attention *call)
{
    sizes[ATTENTION_BATCH] = call->batch;
    sizes[ATTENTION_HEADS] = call->heads;
    sizes[ATTENTION_KV_HEADS] = call->kv_heads;
    sizes[ATTENTION_SEQ_Q] = call->seq_q;
    sizes[ATTENTION_SEQ_KV] = call->seq_kv;
    sizes[ATTENTION_HEAD_DIM] = call->head_dim;
    sizes[ATTENTION_CAUSAL] = call->causal;
}

void plan_attention_row(const struct attention_kernel *row, const struct attention *call)
{
    long long sizes[MAX_SIZES] = {0};
    write_sizes(sizes, call);
    const double rows = (double)call->batch * call->heads * call->seq_q;
    const struct cost cost = attention_problem.cost(&row->about, sizes);
    const size_t workspace = row->workspace ? row->workspace(call) : 0;
    const double floor_bytes = rows * call->head_dim;
    if (rows == 0.0)
        cr_assert(cost.loads == 0 && cost.stores == 0 && cost.bytes_read == 0 &&
                  cost.bytes_written == 0 && workspace == 0);
    else
        cr_assert(cost.loads >= 0 && cost.stores > 0 && cost.bytes_read >= 0 &&
                      (double)cost.bytes_written >= floor_bytes,
                  "%s: a cost is %lld, %lld, %lld, %lld", row->about.name, cost.loads, cost.stores,
                  cost.bytes_read, cost.bytes_written);
    /* The workspace must never exceed this: O, l and m, and the scores of every pair, or 1024 runs
     * of few rows, or two tiles of 64 rows and a counter for each of two blocks a
     * multiprocessor. */
    struct device_limits device;
    current_device(&device);
    const double blocks = 2.0 * device.multiprocessors;
    cr_assert((double)workspace <= 4.0 * rows * (call->seq_kv + 4.0) +
                                       4.0 * 1100 * (rows < 1e5 ? rows : 0.0) * 129.0 +
                                       blocks * (4.0 * 130 * 64 * 2 + 4.0) + 4.0,
              "%s: a workspace of %zu bytes", row->about.name, workspace);
}

struct attention_backward plan_backward_of(const struct attention *call)
{
    return (struct attention_backward){.batch = call->batch,
                                       .heads = call->heads,
                                       .kv_heads = call->kv_heads,
                                       .seq_q = call->seq_q,
                                       .seq_kv = call->seq_kv,
                                       .head_dim = call->head_dim,
                                       .causal = call->causal,
                                       .scale = 1.0f};
}

bool plan_has_pairs(const struct attention *call)
{
    return attention_query_rows(call) > 0 && call->seq_kv > 0;
}

void plan_backward_row(const struct attention_backward_kernel *row, const struct attention *call,
                       int element_bytes)
{
    long long sizes[MAX_SIZES] = {0};
    write_sizes(sizes, call);
    const struct attention_backward backward = plan_backward_of(call);
    const double elements = (double)attention_backward_key_rows(&backward) * call->head_dim;
    const struct cost cost = attention_backward_problem.cost(&row->about, sizes);
    cr_assert(cost.loads > 0 && cost.stores > 0 && cost.bytes_read > 0 &&
                  (double)cost.bytes_written >= 2.0 * elements * element_bytes,
              "%s: a cost is %lld, %lld, %lld, %lld", row->about.name, cost.loads, cost.stores,
              cost.bytes_read, cost.bytes_written);
}

long long plan_tiles(const struct attention *call, int Br)
{
    return (long long)call->batch * call->heads * (call->seq_q / Br + (call->seq_q % Br != 0));
}
