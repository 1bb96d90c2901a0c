/* Turns addresses in the code into source lines, by addr2line, when a report is written. */
#include "check/check.h"
#include "host/errors.h"
#include <filesystem>
#include <link.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

namespace simt::check
{

/* They number the places that stamps name, for all workers. Each asks once for a place. */
static std::mutex places_lock;
static std::unordered_map<const void *, uint32_t> numbers;
static std::vector<const void *> addresses;

uint32_t place_number(const void *where)
{
    std::lock_guard<std::mutex> hold(places_lock);
    const auto [place, is_new] = numbers.emplace(where, uint32_t(addresses.size()));
    if (is_new)
        addresses.push_back(where);
    return place->second & ((1u << place_bits) - 1);
}

const void *place_address(uint32_t number)
{
    std::lock_guard<std::mutex> hold(places_lock);
    return addresses[number];
}

const std::vector<Segment> &segments()
{
    static std::vector<Segment> all;
    const auto add = [](struct dl_phdr_info *info, size_t, void *) {
        for (int i = 0; i < info->dlpi_phnum; i++) {
            const ElfW(Phdr) &part = info->dlpi_phdr[i];
            const uintptr_t base = info->dlpi_addr, begin = base + part.p_vaddr;
            if (part.p_type == PT_LOAD)
                all.push_back({base, begin, begin + part.p_memsz, (part.p_flags & PF_W) != 0});
        }
        return 0;
    };
    [[maybe_unused]] static const int done = dl_iterate_phdr(add, nullptr);
    return all;
}

bool in_segment(uintptr_t address, bool writable)
{
    const std::vector<Segment> &all = segments();
    return std::any_of(all.begin(), all.end(), [=](const Segment &segment) {
        return segment.writable == writable && segment.begin <= address && address < segment.end;
    });
}

/* Returns "/dir/file.cu:12 (discriminator 3)" without what the reader does not need. */
static std::string shortened(std::string line)
{
    line = line.substr(0, std::min(line.find(" (discriminator"), line.find('\n')));
    std::error_code gone;
    const std::string here = std::filesystem::current_path(gone).string() + "/";
    return line.compare(0, here.size(), here) == 0 ? line.substr(here.size()) : line;
}

/* Starts an addr2line that reads addresses and writes lines, for as long as the program lives, at
 * the other end of the file that is returned; null where there is none. */
static FILE *start_reader()
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return nullptr;
    std::string path = format("/proc/%d/exe", getpid());
    char name[] = "addr2line", inlined[] = "-i", program[] = "-e";
    char *const arguments[] = {name, inlined, program, &path[0], nullptr};
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, ends[1], 0);
    posix_spawn_file_actions_adddup2(&files, ends[1], 1);
    pid_t child;
    const bool started = !posix_spawnp(&child, name, &files, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&files);
    close(ends[1]);
    return started ? fdopen(ends[0], "r") : nullptr;
}

/* addr2line -i prints the innermost inlined function's line first. The first outside the backend's
 * headers is the kernel's. Address 0, which has no code, marks the end. */
std::string source_line(const void *where)
{
    static std::mutex lock;
    static std::unordered_map<const void *, std::string> known;
    static FILE *reader;
    static pid_t owner; /* a child of the program needs a reader of its own */
    std::lock_guard<std::mutex> hold(lock);
    const auto [found, is_new] = known.emplace(where, "");
    if (is_new && std::exchange(owner, getpid()) != getpid())
        reader = start_reader();
    if (!is_new || !reader)
        return found->second;
    /* `where` is a return address: the call is the instruction before. */
    const uintptr_t offset = number_of(where) - segments()[0].base - 1;
    dprintf(fileno(reader), "%#zx\n0\n", size_t(offset));
    std::string &best = found->second;
    const auto has = [&](const char *folder) { return best.find(folder) != std::string::npos; };
    char line[4096];
    for (bool first = true; fgets(line, sizeof line, reader); first = false) {
        if (line[0] == '?' && !first)
            break;
        if (line[0] != '?' && (best.empty() || has("simt/include/") || has("/include/c++/")))
            best = line;
    }
    return best = shortened(best);
}

} /* namespace simt::check */
