#include "bench.h"

#include "device/backend.h"
#include "device_tools.h"
#include "harness/output.h"
#include "harness/refusal.h"
#include "sensors.h"
#include "harness/stopwatch.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_ENTRANTS = 24,
    COLD_ROUNDS = 7,
    COLD_BURST = 3, /* laps in a burst */
    SUSTAINED_ROUNDS = 7,
    MAX_LAPS = COLD_ROUNDS * COLD_BURST,
};

static const double REST_MS = 12.0; /* rest before a cold burst */
/* In a sustained round one entrant is timed for this long, after a warm-up as long. */
static const double SLICE_MS = 60.0;
/* An entrant whose lap is expected to take longer is skipped. */
static const double SLOWEST_MS = 600.0;
/* One entrant has this much time at one shape; at least three laps are timed. */
static const double COLD_BUDGET_MS = 600.0;

/* An entrant that differs by more computes something else (half with other roundings, float as
 * TF32) and is not timed. */
static double largest_difference(enum tensor_type type)
{
    return type == TENSOR_F16 ? 5e-3 : 1e-4;
}

enum role { RUNG, PEER, CEILING };
static const char *const ROLE_NAMES[] = {[RUNG] = "rung", [PEER] = "peer", [CEILING] = "ceiling"};

/* An entrant is a kernel of the ladder, a library's, or (CEILING) a copy that reads and writes what
 * the problem must. */
struct entrant {
    enum role role;
    const char *name;
    const struct kernel *kernel; /* null for the copy */
    double gflops;  /* at the last shape that ran, to predict times; 0 before the first */
    char note[320]; /* why it is not timed at this shape; empty when it is timed */
    bool absent;    /* its time at this shape is of no interest */
    double difference;
};

struct samples {
    float lap[MAX_LAPS];
    size_t laps;
    double spent;            /* ms */
    double megahertz, watts; /* sums */
};

struct race {
    const struct bench *bench;
    struct entrant entrant[MAX_ENTRANTS];
    size_t entrants, last_rung;

    cudaStream_t stream;
    struct stopwatch watch; /* the race's events, and the memory that flushes the L2 cache */
    struct sensors sensors;
    uint64_t seed;
    FILE *csv;
    size_t cells, cells_done;
    bool failed;

    long long sizes[MAX_SIZES];
    struct tensor tensors[MAX_TENSORS];
    int tensor_count, input_count;
    void *device[MAX_TENSORS], *expected, *workspace, *copy_from, *copy_to;
    size_t copy_bytes;
};

static void enter(struct race *race, enum role role, const void *table)
{
    for (size_t index = 0; table && race->entrants < MAX_ENTRANTS; index++) {
        const struct kernel *kernel = problem_kernel(race->bench->problem, table, index);
        if (!kernel->name)
            break;
        if (role == RUNG)
            race->last_rung = race->entrants;
        race->entrant[race->entrants++] =
            (struct entrant){.role = role, .name = kernel->name, .kernel = kernel};
    }
}

static size_t tensor_bytes(const struct tensor *tensor)
{
    return tensor->rows * tensor->cols * tensor_element_bytes(tensor->type);
}

static cudaError_t run(struct race *race, const struct entrant *entrant)
{
    if (entrant->role == CEILING)
        return cudaMemcpyAsync(race->copy_to, race->copy_from, race->copy_bytes,
                               cudaMemcpyDeviceToDevice, race->stream);
    refusal_clear();
    return race->bench->problem->run(entrant->kernel, race->sizes, race->device, race->workspace,
                                     race->stream);
}

/* Draws a progress bar, if stderr is a terminal. */
static void progress(struct race *race, const char *label, const char *what)
{
    enum { WIDTH = 30 };
    if (!isatty(STDERR_FILENO))
        return;
    const int filled = race->cells ? (int)(WIDTH * race->cells_done / race->cells) : 0;
    fprintf(stderr, "\r\033[K[%.*s%*s] %s %s", filled, "##############################",
            WIDTH - filled, "", label, what);
    fflush(stderr);
}

static cudaError_t draw_inputs(struct race *race)
{
    cudaError_t status = cudaSuccess;
    for (int t = 0; t < race->input_count && status == cudaSuccess; t++)
        status =
            fill_normal(race->device[t], race->tensors[t].type,
                        race->tensors[t].rows * race->tensors[t].cols, ++race->seed, race->stream);
    return status;
}

static void release_shape(struct race *race)
{
    for (int t = 0; t < MAX_TENSORS; t++) {
        cudaFree(race->device[t]);
        race->device[t] = NULL;
    }
    cudaFree(race->expected);
    cudaFree(race->workspace);
    cudaFree(race->copy_from);
    cudaFree(race->copy_to);
    race->expected = race->workspace = race->copy_from = race->copy_to = NULL;
}

/* Allocates the largest workspace that an entrant asks for and the device has room for. Entrants
 * that need more are not timed. */
static void allocate_workspace(struct race *race)
{
    size_t available = 0, total = 0, largest = 0;
    if (cudaMemGetInfo(&available, &total) != cudaSuccess)
        return;
    for (size_t e = 0; e < race->entrants; e++) {
        struct entrant *entrant = &race->entrant[e];
        if (entrant->role == CEILING)
            continue;
        const size_t bytes = problem_workspace(race->bench->problem, entrant->kernel, race->sizes);
        if (bytes > available / 10 * 9)
            snprintf(entrant->note, sizeof entrant->note, "needs %.1f GB of workspace",
                     bytes * 1e-9);
        else if (bytes > largest)
            largest = bytes;
    }
    if (largest > 0 && cudaMalloc(&race->workspace, largest) != cudaSuccess)
        race->workspace = NULL;
}

static cudaError_t prepare_shape(struct race *race, const struct bench_shape *shape)
{
    memcpy(race->sizes, shape->sizes, sizeof race->sizes);
    cudaError_t status =
        race->bench->problem->tensors(race->sizes, race->tensors, &race->tensor_count);
    race->input_count = 0;
    while (race->tensors[race->input_count].role == TENSOR_INPUT)
        race->input_count++;
    for (int t = 0; t < race->tensor_count && status == cudaSuccess; t++)
        status = cudaMalloc(&race->device[t], tensor_bytes(&race->tensors[t]));
    race->copy_bytes = (size_t)(race->bench->problem->compulsory_bytes(race->sizes) / 2.0);
    if (status == cudaSuccess &&
        (status = cudaMalloc(&race->expected, tensor_bytes(&race->tensors[race->input_count]))) ==
            cudaSuccess &&
        (status = cudaMalloc(&race->copy_from, race->copy_bytes)) == cudaSuccess &&
        (status = cudaMalloc(&race->copy_to, race->copy_bytes)) == cudaSuccess)
        status = fill_normal(race->copy_from, TENSOR_F32, race->copy_bytes / sizeof(float),
                             ++race->seed, race->stream);
    for (size_t e = 0; e < race->entrants; e++)
        race->entrant[e].note[0] = '\0';
    allocate_workspace(race);
    if (status == cudaSuccess)
        status = draw_inputs(race);
    return status == cudaSuccess ? cudaStreamSynchronize(race->stream) : status;
}

static cudaError_t timed_lap(struct race *race, const struct entrant *entrant, bool flush, int lead,
                             int runs, float *lap, struct reading *reading)
{
    const struct stopwatch *watch = &race->watch;
    cudaError_t status =
        flush ? cudaMemsetAsync(watch->flush, 0, watch->flush_bytes, race->stream) : cudaSuccess;
    for (int i = 0; i < lead && status == cudaSuccess; i++)
        status = run(race, entrant);
    if (status == cudaSuccess)
        status = cudaEventRecord(watch->start, race->stream);
    for (int i = 0; i < runs && status == cudaSuccess; i++)
        status = run(race, entrant);
    if (status == cudaSuccess &&
        (status = cudaEventRecord(watch->stop, race->stream)) == cudaSuccess)
        status = cudaEventSynchronize(watch->start);
    *reading = sensors_read(&race->sensors); /* read while the device works */
    if (status == cudaSuccess && (status = cudaEventSynchronize(watch->stop)) == cudaSuccess)
        status = cudaEventElapsedTime(lap, watch->start, watch->stop);
    *lap /= (float)runs;
    return status;
}

static void keep(struct samples *samples, float lap, struct reading reading)
{
    if (samples->laps == MAX_LAPS)
        return;
    samples->lap[samples->laps++] = lap;
    samples->spent += lap;
    samples->megahertz += reading.megahertz;
    samples->watts += reading.watts;
}

/* A device error ends the run: later results would come from a broken context. */
static bool succeeded(struct race *race, const char *what, cudaError_t status)
{
    if (status == cudaSuccess)
        return true;
    fprintf(stderr, "%s: %s: %s\n", race->bench->step, what,
            *refusal() ? refusal() : cudaGetErrorString(status));
    race->failed = true;
    return false;
}

/* Runs the entrant once on poisoned output. Its note says why it is not timed. */
static bool qualify(struct race *race, struct entrant *entrant, bool first)
{
    const struct tensor *output = &race->tensors[race->input_count];
    void *out = race->device[race->input_count];
    const double gflop = race->bench->problem->flops(race->sizes) * 1e-9;
    const double foreseen = entrant->gflops > 0.0 ? gflop / entrant->gflops * 1e3 : 0.0;
    float lap;
    struct reading reading;

    if (entrant->note[0] != '\0')
        return true;
    if (foreseen > SLOWEST_MS) {
        snprintf(entrant->note, sizeof entrant->note, "would take about %.1f s a lap",
                 foreseen * 1e-3);
        return true;
    }
    cudaError_t status = cudaMemsetAsync(out, 0xff, tensor_bytes(output), race->stream);
    /* The very first run also loads the kernel, so it is repeated. */
    for (int runs = entrant->gflops > 0.0 ? 1 : 2; runs > 0 && status == cudaSuccess; runs--)
        status = timed_lap(race, entrant, false, 0, 1, &lap, &reading);
    if ((status == cudaErrorNotSupported || status == cudaErrorInvalidValue) && *refusal()) {
        snprintf(entrant->note, sizeof entrant->note, "%s", refusal());
        cudaGetLastError();
        return true;
    }
    if (!succeeded(race, entrant->name, status))
        return false;
    entrant->gflops = gflop / lap * 1e3;
    entrant->difference = 0.0;
    if (entrant->role == CEILING)
        return true;
    if (first)
        return succeeded(race, entrant->name,
                         cudaMemcpyAsync(race->expected, out, tensor_bytes(output),
                                         cudaMemcpyDeviceToDevice, race->stream));
    if (!succeeded(race, entrant->name,
                   relative_difference(out, race->expected, output->type,
                                       output->rows * output->cols, &entrant->difference,
                                       race->stream)))
        return false;
    if (!(entrant->difference <= largest_difference(output->type))) {
        snprintf(entrant->note, sizeof entrant->note, "differs by %.1e: not timed",
                 entrant->difference);
        race->failed = true;
    }
    return true;
}

/* Every result is compared with that of the ladder's last kernel: if the two disagree, one of them
 * is wrong. */
static bool qualify_all(struct race *race)
{
    if (!qualify(race, &race->entrant[race->last_rung], true))
        return false;
    for (size_t e = 0; e < race->entrants; e++)
        if (e != race->last_rung && !race->entrant[e].absent &&
            !qualify(race, &race->entrant[e], false))
            return false;
    return true;
}

static void shuffle(size_t *order, size_t count)
{
    for (size_t i = count; i > 1; i--) {
        const size_t j = (size_t)rand() % i, held = order[i - 1];
        order[i - 1] = order[j];
        order[j] = held;
    }
}

/* Rests, then times a short burst. */
static bool cold_turn(struct race *race, size_t e, struct samples *kept)
{
    const struct entrant *entrant = &race->entrant[e];
    const bool slow = kept->laps > 0 && kept->lap[0] > 50.0f;
    const struct timespec rest = {.tv_nsec = (long)(REST_MS * 1e6)};
    struct reading reading;
    float lap;
    if (kept->laps >= 3 && kept->spent > COLD_BUDGET_MS)
        return true;
    if (!succeeded(race, entrant->name, cudaStreamSynchronize(race->stream)))
        return false;
    nanosleep(&rest, NULL);
    if (!slow &&
        !succeeded(race, entrant->name, timed_lap(race, entrant, true, 0, 1, &lap, &reading)))
        return false;
    for (int burst = 0; burst < (slow ? 1 : COLD_BURST); burst++) {
        if (!succeeded(race, entrant->name, timed_lap(race, entrant, true, 0, 1, &lap, &reading)))
            return false;
        keep(kept, lap, reading);
    }
    return true;
}

/* Returns whether the entrant may represent the ladder: its last kernel, and any that is not far
 * from the fastest. */
static bool contends(const struct race *race, size_t e)
{
    double fastest = 0.0;
    if (race->entrant[e].role != RUNG || e == race->last_rung)
        return true;
    for (size_t other = 0; other < race->entrants; other++)
        if (race->entrant[other].role == RUNG && race->entrant[other].note[0] == '\0')
            fastest = fmax(fastest, race->entrant[other].gflops);
    return race->entrant[e].gflops > 0.8 * fastest;
}

static bool sustained_turn(struct race *race, size_t e, struct samples *kept)
{
    const struct entrant *entrant = &race->entrant[e];
    const double expected = race->bench->problem->flops(race->sizes) * 1e-6 / entrant->gflops;
    const int runs = expected < SLICE_MS ? (int)fmin(SLICE_MS / expected, 1000.0) : 1;
    struct reading reading;
    float lap;
    if (!contends(race, e))
        return true;
    if (!succeeded(race, entrant->name,
                   timed_lap(race, entrant, false, runs, runs, &lap, &reading)))
        return false;
    keep(kept, lap, reading);
    return true;
}

/* Runs rounds in which each entrant has its turn, in an order drawn anew. Returns false after an
 * error. */
static bool race_rounds(struct race *race, int rounds, bool fresh_inputs,
                        bool (*turn)(struct race *, size_t e, struct samples *kept),
                        struct samples *samples)
{
    size_t order[MAX_ENTRANTS];
    for (size_t e = 0; e < race->entrants; e++)
        order[e] = e;
    for (int round = 0; round < rounds; round++) {
        if (fresh_inputs && draw_inputs(race) != cudaSuccess)
            return false;
        shuffle(order, race->entrants);
        for (size_t i = 0; i < race->entrants; i++)
            if (race->entrant[order[i]].note[0] == '\0' && !race->entrant[order[i]].absent &&
                !turn(race, order[i], &samples[order[i]]))
                return false;
    }
    return true;
}

/* Returns the q-quantile of sorted laps. */
static double quantile(const struct samples *samples, double q)
{
    return samples->lap[(size_t)(q * (double)(samples->laps - 1) + 0.5)];
}

static void report(struct race *race, const struct bench_shape *shape, const char *protocol,
                   struct samples *all)
{
    const double flops = race->bench->problem->flops(race->sizes);
    const double bytes = race->bench->problem->compulsory_bytes(race->sizes);
    for (size_t e = 0; e < race->entrants; e++) {
        const struct entrant *entrant = &race->entrant[e];
        struct samples *samples = &all[e];
        if (samples->laps == 0)
            continue;
        const double median = stopwatch_median(samples->lap, samples->laps); /* sorts them */
        const double own_flops = entrant->role == CEILING ? 0.0 : flops;
        const double tflops = own_flops / median * 1e-9, gbps = bytes / median * 1e-6;
        const double megahertz = samples->megahertz / (double)samples->laps;
        const double watts = samples->watts / (double)samples->laps;
        fprintf(race->csv,
                "%s,\"%s\",%s,%s,%s,%.0f,%.0f,%.6f,%.6f,%.6f,%zu,%.3f,%.1f,%.2e,%.0f,%.0f\n",
                race->bench->step, shape->label, protocol, entrant->name, ROLE_NAMES[entrant->role],
                own_flops, bytes, median, quantile(samples, 0.1), quantile(samples, 0.9),
                samples->laps, tflops, gbps, entrant->difference, megahertz, watts);
        printf("%-22s %-10s %-24s %-8s %10.4f ms %9.2f TFLOP/s %8.0f GB/s %5.0f MHz %4.0f W\n",
               shape->label, protocol, entrant->name, ROLE_NAMES[entrant->role], median, tflops,
               gbps, megahertz, watts);
    }
    fflush(race->csv);
    fflush(stdout);
}

static void report_skipped(struct race *race, const struct bench_shape *shape)
{
    for (size_t e = 0; e < race->entrants; e++) {
        const char *name = race->entrant[e].name, *note = race->entrant[e].note;
        if (*note == '\0')
            continue;
        fprintf(race->csv, "# skipped: %s, %s: %s\n", shape->label, name, note);
        printf("%-22s skipped    %-24s %s\n", shape->label, name, note);
    }
}

static bool race_shape(struct race *race, const struct bench_shape *shape)
{
    struct samples cold[MAX_ENTRANTS] = {{.laps = 0}}, sustained[MAX_ENTRANTS] = {{.laps = 0}};
    progress(race, shape->label, "cold");
    bool complete = succeeded(race, shape->label, prepare_shape(race, shape)) &&
                    qualify_all(race) && race_rounds(race, COLD_ROUNDS, true, cold_turn, cold);
    race->cells_done++;
    progress(race, shape->label, "sustained");
    complete = complete && race_rounds(race, SUSTAINED_ROUNDS, false, sustained_turn, sustained);
    race->cells_done++;
    progress(race, shape->label, "");
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    report_skipped(race, shape);
    report(race, shape, "cold", cold);
    report(race, shape, "sustained", sustained);
    release_shape(race);
    return complete;
}

static void write_header(struct race *race, const struct cudaDeviceProp *properties,
                         const char *driver)
{
    int runtime = 0;
    char date[32] = "";
    const time_t now = time(NULL);
    cudaRuntimeGetVersion(&runtime);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    fprintf(race->csv,
            "# device: %s, sm_%d, %d multiprocessors, %d MB of L2 cache\n"
            "# versions: driver %s; CUDA runtime %d.%d%s%s\n"
            "# date: %s\n"
            "# cold: %.0f ms of rest, one untimed run, then laps each after the L2 cache was "
            "overwritten; order shuffled, fresh inputs each of %d rounds\n"
            "# sustained: %.0f ms back to back untimed, then as long timed; order shuffled each of "
            "%d rounds\n"
            "# ms: medians; p10 and p90 beside them. bytes: each input read and each output "
            "written once. difference: ||out - last rung's|| / ||last rung's||\n"
            "step,shape,protocol,kernel,role,flops,bytes,ms,ms_p10,ms_p90,laps,tflops,gbps,"
            "difference,sm_mhz,watts\n",
            properties->name, backend_architecture(), properties->multiProcessorCount,
            properties->l2CacheSize >> 20, driver, runtime / 1000, runtime % 1000 / 10,
            race->bench->version ? "; " : "", race->bench->version ? race->bench->version() : "",
            date, REST_MS, COLD_ROUNDS, SLICE_MS, SUSTAINED_ROUNDS);
}

/* Returns whether a rung, or one that follows it, pays at this shape; asks for any rung where
 * `rung` is null. */
static bool pays_at(const struct race *race, const char *label, const struct kernel *rung)
{
    for (size_t e = 0; e < race->entrants; e++) {
        const struct entrant *other = &race->entrant[e];
        const char *at = other->role == RUNG ? other->kernel->timed_at : NULL;
        const char *after = at ? other->kernel->after : NULL;
        if (at && strcmp(at, label) == 0 &&
            (!rung || rung == other->kernel || (after && strcmp(after, rung->name) == 0)))
            return true;
    }
    return false;
}

/* Returns whether there is a race at the shape, and marks the rungs that are absent there. */
static bool races(struct race *race, const struct bench_shape *shape, bool lesson_only)
{
    const bool all = !lesson_only || strcmp(shape->label, race->bench->lesson) == 0;
    for (size_t e = 0; e < race->entrants; e++)
        race->entrant[e].absent = !all && race->entrant[e].role == RUNG &&
                                  !pays_at(race, shape->label, race->entrant[e].kernel);
    return all || pays_at(race, shape->label, NULL);
}

int main(int argc, char **argv)
{
    struct race race = {.bench = &bench, .seed = (uint64_t)time(NULL)};
    struct cudaDeviceProp properties;
    int devices = 0;
    char path[256], bus[32], driver[96];

    cudaError_t status = cudaGetDeviceCount(&devices);
    if (status == cudaSuccess && devices == 0)
        status = cudaErrorNoDevice;
    if (status != cudaSuccess ||
        (status = cudaGetDeviceProperties(&properties, 0)) != cudaSuccess ||
        (status = cudaStreamCreateWithFlags(&race.stream, cudaStreamNonBlocking)) != cudaSuccess ||
        (status = stopwatch_create(&race.watch, race.stream)) != cudaSuccess ||
        (status = cudaDeviceGetPCIBusId(bus, sizeof bus, 0)) != cudaSuccess) {
        fprintf(stderr, "%s: a benchmark needs a GPU: %s\n", bench.step,
                cudaGetErrorString(status));
        return 3;
    }
    snprintf(path, sizeof path, "build/%s.csv", bench.step);
    const bool lesson_only = argc > 2 && strcmp(argv[2], "lesson") == 0;
    race.csv = fopen(argc > 1 ? argv[1] : path, lesson_only ? "a" : "w");
    if (!race.csv) {
        fprintf(stderr, "%s: cannot write %s\n", bench.step, argc > 1 ? argv[1] : path);
        return 1;
    }

    sensors_open(&race.sensors, bus, driver, sizeof driver);
    srand((unsigned)race.seed);
    enter(&race, RUNG, step_rows(bench.ladder, bench.problem));
    enter(&race, PEER, bench.peers);
    race.entrant[race.entrants++] = (struct entrant){.role = CEILING, .name = "copy"};
    write_header(&race, &properties, driver);
    for (const struct bench_shape *shape = bench.shapes; shape->label; shape++)
        race.cells += races(&race, shape, lesson_only) ? 2 : 0;
    for (const struct bench_shape *shape = bench.shapes; shape->label; shape++)
        if (races(&race, shape, lesson_only) && !race_shape(&race, shape))
            break;
    const bool written = output_arrived(race.csv);
    fclose(race.csv);
    sensors_close(&race.sensors);
    stopwatch_destroy(&race.watch);
    cudaStreamDestroy(race.stream);
    return race.failed || !written ? 1 : 0;
}
