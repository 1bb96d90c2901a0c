/* Where the keys of a sequence lie, in pages or not, and how many there are. */
#ifndef KEY_ROWS_CUH
#define KEY_ROWS_CUH

#include "problems/attention.h"

/* For key_row(). The pages are the sequence's own. */
struct key_rows {
    const int *pages; /* null: the keys are contiguous */
    int kv_head;      /* inside its sequence; over all sequences where keys are contiguous */
    int kv_heads, page_bits, pool_pages, seq_kv;
};

static __device__ __forceinline__ struct key_rows key_rows_of(const struct attention &shape,
                                                              int kv_head)
{
    const int page_bits = __ffs(shape.page_size) - 1;
    const int batch = kv_head / shape.kv_heads;
    const struct key_rows contiguous = {NULL, kv_head, shape.kv_heads, 0, 0, shape.seq_kv};
    if (shape.pages == NULL)
        return contiguous;
    const int columns = (shape.seq_kv + shape.page_size - 1) >> page_bits;
    const struct key_rows paged = {shape.pages + (size_t)batch * columns,
                                   kv_head % shape.kv_heads,
                                   shape.kv_heads,
                                   page_bits,
                                   shape.pool_pages,
                                   shape.seq_kv};
    return paged;
}

/* Returns the page that has this key of the sequence, by its table; 0 without pages. */
static __device__ __forceinline__ int key_page(const struct key_rows &rows, int key)
{
    return rows.pages != NULL ? rows.pages[key >> rows.page_bits] : 0;
}

/* Returns the row of K and V that has this key of the sequence; or -1 where the pool has no such
 * page. */
static __device__ __forceinline__ long long key_row(const struct key_rows &rows, int key)
{
    if (rows.pages == NULL)
        return (long long)rows.kv_head * rows.seq_kv + key;
    const int page = key_page(rows, key);
    if (page < 0 || page >= rows.pool_pages)
        return -1;
    const long long head_of_page = (long long)page * rows.kv_heads + rows.kv_head;
    return (head_of_page << rows.page_bits) + (key & ((1 << rows.page_bits) - 1));
}

/* Returns the keys of a sequence, or -1 where its length is outside of 0 .. seq_kv. */
static __device__ __forceinline__ int sequence_keys(const struct attention &shape, int kv_head)
{
    const int length =
        shape.lengths == NULL ? shape.seq_kv : shape.lengths[kv_head / shape.kv_heads];
    return length > shape.seq_kv || length < 0 ? -1 : length;
}

#endif
