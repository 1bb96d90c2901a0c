/*
 * From addresses to what a reader knows: source lines, names of shared variables. All of it is looked up only
 * when a report is written, in the program's own symbol table and by addr2line, which comes with the
 * compiler.
 */
#include "check.h"

#include <algorithm>
#include <cstdio>
#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace simt
{
namespace checker
{

/* ------------------------------------------------------------------------------------------- places in the
 * code */

/* Numbers for the places that stamps name. Shared by all workers; asked only when a worker first sees a
 * place. */
static std::mutex places_lock;
static std::unordered_map<uintptr_t, uint32_t> numbers;
static std::vector<uintptr_t> addresses;

uint32_t place_number(const void *where)
{
    std::lock_guard<std::mutex> hold(places_lock);
    auto added = numbers.emplace(reinterpret_cast<uintptr_t>(where), static_cast<uint32_t>(addresses.size()));
    if (added.second)
        addresses.push_back(added.first->first);
    return added.first->second & ((1u << place_bits) - 1);
}

const void *place_address(uint32_t number)
{
    std::lock_guard<std::mutex> hold(places_lock);
    return reinterpret_cast<const void *>(addresses[number]);
}

/* ----------------------------------------------------------------------------------------------------
 * addr2line */

static std::string program_path()
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    return std::string(path, length > 0 ? static_cast<size_t>(length) : 0);
}

static int first_object(struct dl_phdr_info *info, size_t, void *base)
{
    *static_cast<uintptr_t *>(base) = info->dlpi_addr;
    return 1;
}

static uintptr_t load_address()
{
    uintptr_t base = 0;
    dl_iterate_phdr(first_object, &base);
    return base;
}

static std::string quoted(const std::string &word)
{
    std::string result = "'";
    for (char c : word)
        result += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return result + "'";
}

/* "/work/dir/file.cu:12 (discriminator 3)" without what the reader does not need. */
static std::string shortened(std::string line)
{
    line.erase(std::min(line.find_first_of("\n "), line.size()));
    char here[4096];
    if (getcwd(here, sizeof here)) {
        std::string prefix = std::string(here) + "/";
        if (line.compare(0, prefix.size(), prefix) == 0)
            line.erase(0, prefix.size());
    }
    return line;
}

static bool in_library(const std::string &line)
{
    return line.find("simt/include/") != std::string::npos || line.find("/include/c++/") != std::string::npos;
}

/*
 * addr2line -i prints the line of the innermost inlined function first, then those that it was inlined into.
 * The first that is not in our own headers is the kernel's.
 */
static std::string look_up(const void *where)
{
    /* `where` is a return address: the call is the instruction before. */
    uintptr_t offset = reinterpret_cast<uintptr_t>(where) - load_address() - 1;
    char address[32];
    snprintf(address, sizeof address, "%#zx", static_cast<size_t>(offset));
    std::string command = "addr2line -i -e " + quoted(program_path()) + " " + address + " 2>/dev/null";
    FILE *output = popen(command.c_str(), "r");
    if (!output)
        return "";
    std::string found;
    char line[4096];
    while (fgets(line, sizeof line, output))
        if (line[0] != '?' && (found.empty() || in_library(found)))
            found = shortened(line);
    pclose(output);
    return found;
}

std::string source_line(const void *where)
{
    static std::mutex lock;
    static std::unordered_map<const void *, std::string> known;
    std::lock_guard<std::mutex> hold(lock);
    auto added = known.emplace(where, "");
    if (added.second)
        added.first->second = look_up(where);
    return added.first->second;
}

/* --------------------------------------------------------------------------------------------- shared
 * variables */

struct Variable {
    size_t offset, bytes; /* in the thread-local storage of the program */
    std::string name;
};

/* The last part of "tiled(float const*, float*, int)::tile". */
static std::string variable_name(const char *symbol)
{
    int status = 0;
    char *demangled = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
    std::string name = demangled ? demangled : symbol;
    free(demangled);
    size_t scope = name.rfind("::");
    return scope == std::string::npos ? name : name.substr(scope + 2);
}

/* The thread-local variables in the symbol table of the ELF file at `file`. */
static std::vector<Variable> read_variables(const char *file, size_t bytes)
{
    std::vector<Variable> variables;
    const ElfW(Ehdr) *header = reinterpret_cast<const ElfW(Ehdr) *>(file);
    const ElfW(Shdr) *sections = reinterpret_cast<const ElfW(Shdr) *>(file + header->e_shoff);
    if (header->e_shoff == 0 || header->e_shoff + header->e_shnum * sizeof *sections > bytes)
        return variables;
    for (unsigned i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB)
            continue;
        const ElfW(Sym) *symbols = reinterpret_cast<const ElfW(Sym) *>(file + sections[i].sh_offset);
        const char *names = file + sections[sections[i].sh_link].sh_offset;
        for (size_t s = 0; s < sections[i].sh_size / sizeof *symbols; s++)
            if (ELF64_ST_TYPE(symbols[s].st_info) == STT_TLS && symbols[s].st_size > 0)
                variables.push_back(
                    {symbols[s].st_value, symbols[s].st_size, variable_name(names + symbols[s].st_name)});
    }
    return variables;
}

static std::vector<Variable> program_variables()
{
    std::vector<Variable> variables;
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file >= 0 && fstat(file, &status) == 0) {
        size_t bytes = static_cast<size_t>(status.st_size);
        void *mapped = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
        if (mapped != MAP_FAILED) {
            variables = read_variables(static_cast<const char *>(mapped), bytes);
            munmap(mapped, bytes);
        }
    }
    if (file >= 0)
        close(file);
    return variables;
}

std::string shared_variable(uintptr_t address)
{
    static const std::vector<Variable> variables = program_variables();
    size_t offset = address - reinterpret_cast<uintptr_t>(worker->shared_begin);
    for (const Variable &variable : variables)
        if (variable.offset <= offset && offset < variable.offset + variable.bytes)
            return variable.name + ", byte " + std::to_string(offset - variable.offset) + " of " +
                   std::to_string(variable.bytes);
    return "";
}

/* ----------------------------------------------------------------------------------------------- read-only
 * data */

struct Span {
    uintptr_t begin, end;
};

static int add_read_only(struct dl_phdr_info *info, size_t, void *argument)
{
    std::vector<Span> &spans = *static_cast<std::vector<Span> *>(argument);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) &part = info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + part.p_vaddr;
        if (part.p_type == PT_LOAD && !(part.p_flags & PF_W))
            spans.push_back({begin, begin + part.p_memsz});
    }
    return 0;
}

bool in_read_only_data(uintptr_t address)
{
    static const std::vector<Span> spans = [] {
        std::vector<Span> found;
        dl_iterate_phdr(add_read_only, &found);
        return found;
    }();
    return std::any_of(spans.begin(), spans.end(),
                       [address](const Span &span) { return span.begin <= address && address < span.end; });
}

} /* namespace checker */
} /* namespace simt */
