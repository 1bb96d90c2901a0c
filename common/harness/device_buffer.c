#include "device_buffer.h"

#include "device/backend.h"

#include <string.h>

enum {
    GUARD_BYTES = DEVICE_BUFFER_GUARD,
    ALIGNMENT = DEVICE_BUFFER_ALIGNMENT,
    GUARD_PATTERN = 0x7e
};

static size_t front_bytes(const struct device_buffer *buffer)
{
    return (size_t)((const char *)buffer->data - (const char *)buffer->base);
}

static char *back_guard(const struct device_buffer *buffer)
{
    return (char *)buffer->data + buffer->bytes;
}

cudaError_t device_buffer_create(struct device_buffer *buffer, size_t bytes, size_t offset)
{
    *buffer = (struct device_buffer){0};
    const size_t front = GUARD_BYTES + offset % ALIGNMENT;
    void *base = NULL;
    cudaError_t status = cudaMalloc(&base, front + bytes + GUARD_BYTES);
    if (status != cudaSuccess)
        return status;
    *buffer = (struct device_buffer){(char *)base + front, bytes, base};
    if ((status = cudaMemset(base, GUARD_PATTERN, front)) != cudaSuccess ||
        (status = cudaMemset(back_guard(buffer), GUARD_PATTERN, GUARD_BYTES)) != cudaSuccess) {
        device_buffer_destroy(buffer);
        return status;
    }
    backend_fence(base, front);
    backend_fence(back_guard(buffer), GUARD_BYTES);
    return cudaSuccess;
}

void device_buffer_destroy(struct device_buffer *buffer)
{
    cudaFree(buffer->base);
    *buffer = (struct device_buffer){0};
}

/* The host uploads one piece. Then the filled part is copied to the rest, doubling each time. The
 * host does not wait for copies within the device, and neither do the streams of kernels, so the
 * function waits at the end. */
cudaError_t device_buffer_poison(const struct device_buffer *buffer, uint32_t word)
{
    uint32_t piece[16384];
    size_t filled = buffer->bytes < sizeof piece ? buffer->bytes : sizeof piece;
    for (size_t i = 0; i * sizeof *piece < filled; i++)
        piece[i] = word;
    if (filled == 0)
        return cudaSuccess;
    cudaError_t status = cudaMemcpy(buffer->data, piece, filled, cudaMemcpyHostToDevice);
    while (filled < buffer->bytes && status == cudaSuccess) {
        const size_t more = filled < buffer->bytes - filled ? filled : buffer->bytes - filled;
        status =
            cudaMemcpy((char *)buffer->data + filled, buffer->data, more, cudaMemcpyDeviceToDevice);
        filled += more;
    }
    return status == cudaSuccess ? cudaDeviceSynchronize() : status;
}

cudaError_t device_buffer_upload(const struct device_buffer *buffer, const void *host)
{
    return buffer->bytes > 0 ? cudaMemcpy(buffer->data, host, buffer->bytes, cudaMemcpyHostToDevice)
                             : cudaSuccess;
}

cudaError_t device_buffer_download(const struct device_buffer *buffer, void *host)
{
    return buffer->bytes > 0 ? cudaMemcpy(host, buffer->data, buffer->bytes, cudaMemcpyDeviceToHost)
                             : cudaSuccess;
}

/* The first byte must be the pattern, and each byte equal to the next: memcmp() is fast. */
static bool intact(const unsigned char *guard, size_t bytes)
{
    return guard[0] == GUARD_PATTERN && memcmp(guard, guard + 1, bytes - 1) == 0;
}

bool device_buffer_guards_intact(const struct device_buffer *buffer, long long *distance,
                                 cudaError_t *status)
{
    unsigned char guard[GUARD_BYTES + ALIGNMENT];
    const size_t front = front_bytes(buffer);

    *distance = 0;
    *status = cudaMemcpy(guard, buffer->base, front, cudaMemcpyDeviceToHost);
    if (*status != cudaSuccess)
        return false;
    for (size_t byte = intact(guard, front) ? 0 : front; byte-- > 0;) {
        if (guard[byte] != GUARD_PATTERN) {
            *distance = (long long)byte - (long long)front;
            return false;
        }
    }
    *status = cudaMemcpy(guard, back_guard(buffer), GUARD_BYTES, cudaMemcpyDeviceToHost);
    if (*status != cudaSuccess)
        return false;
    for (size_t byte = intact(guard, GUARD_BYTES) ? GUARD_BYTES : 0; byte < GUARD_BYTES; byte++) {
        if (guard[byte] != GUARD_PATTERN) {
            *distance = (long long)byte;
            return false;
        }
    }
    return true;
}
