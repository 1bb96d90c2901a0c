/* Reads the program's symbol table, once. A __shared__ variable is a thread-local one, mostly in
 * its kernel, whose symbol has the variable's name added: _Z4tilePf holds _ZZ4tilePfE2As. */
#include "host/device.h"
#include <cstring>
#include <cxxabi.h>
#include <fcntl.h>
#include <link.h>
#include <map>
#include <mutex>
#include <sstream>
#include <sys/mman.h>
#include <unistd.h>

extern const char __ehdr_start; /* where the program lies in memory: the linker's */

using namespace simt;

struct Symbols {
    std::map<const void *, Function> functions;
    std::map<std::string, SharedVariable> thread_locals; /* by symbol */
    /* their symbols and sizes: files may have different variables of one symbol */
    std::map<size_t, std::pair<std::string, size_t>> by_offset;
};

/* Turns "void tile<16>(float*)" into "tile<16>": without parameters and result. */
static std::string bare_name(const std::string &signature)
{
    int depth = 0;
    size_t begin = 0, end = signature.size();
    for (size_t i = 0; i < signature.size(); i++) {
        char c = signature[i];
        if (c == '(' && depth == 0 && signature.compare(i, 21, "(anonymous namespace)") != 0) {
            end = i;
            break;
        }
        depth += (c == '<' || c == '(') - (c == '>' || c == ')');
        if (c == ' ' && depth == 0)
            begin = i + 1;
    }
    return signature.substr(begin, end - begin);
}

static std::string demangle(const std::string &symbol)
{
    int status;
    char *text = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
    std::string name = status == 0 ? text : symbol;
    free(text);
    return name;
}

static Symbols *read_program()
{
    Symbols *all = new Symbols();
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    const size_t bytes = size_t(lseek(file, 0, SEEK_END));
    void *memory = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (memory == MAP_FAILED)
        return all;
    const char *begin = static_cast<const char *>(memory);
    const ElfW(Ehdr) *header = reinterpret_cast<const ElfW(Ehdr) *>(begin);
    const char *base = header->e_type == ET_DYN ? &__ehdr_start : nullptr;
    const ElfW(Shdr) *sections = reinterpret_cast<const ElfW(Shdr) *>(begin + header->e_shoff);
    for (unsigned s = 0; s < header->e_shnum; s++) {
        if (sections[s].sh_type != SHT_SYMTAB)
            continue;
        const char *names = begin + sections[sections[s].sh_link].sh_offset;
        const auto *symbol = reinterpret_cast<const ElfW(Sym) *>(begin + sections[s].sh_offset);
        for (size_t i = 0; i < sections[s].sh_size / sizeof *symbol; i++, symbol++) {
            const int type = symbol->st_info & 0xf; /* the same for 32 and 64 bits */
            const char *name = names + symbol->st_name;
            if (type == STT_FUNC && symbol->st_value)
                all->functions[base + symbol->st_value].symbol = name;
            if (type == STT_TLS && !strncmp(name, "_Z", 2) && strncmp(name, "_ZN4simt", 8) != 0) {
                all->thread_locals[name] = SharedVariable{symbol->st_value, symbol->st_size};
                all->by_offset[symbol->st_value] = {name, symbol->st_size};
            }
        }
    }
    munmap(memory, bytes);
    return all;
}

static Symbols &symbols()
{
    static Symbols *const all = read_program();
    return *all;
}

const Function &simt::function_at(const void *entry)
{
    static std::mutex mutex;
    static const Function unknown;
    std::lock_guard<std::mutex> lock(mutex);
    const auto found = symbols().functions.find(entry);
    if (found == symbols().functions.end())
        return unknown;
    Function &function = found->second;
    if (!function.name.empty())
        return function;
    const std::string &symbol = function.symbol;
    function.signature = demangle(symbol);
    function.name = bare_name(function.signature);
    const bool mangled = symbol.compare(0, 2, "_Z") == 0;
    const std::string prefix =
        "_ZZ" + (mangled ? symbol.substr(2) : std::to_string(symbol.size()) + symbol) + "E";
    const auto &all = symbols().thread_locals;
    for (auto each = all.lower_bound(prefix);
         each != all.end() && each->first.compare(0, prefix.size(), prefix) == 0; ++each)
        function.shared.push_back(each->second);
    return function;
}

/* Returns "As" for "tile(float*)::As". */
static std::string last_name(const std::string &qualified)
{
    return qualified.substr(qualified.rfind(':') + 1);
}

/* The key is the kernel's plain name. Where files have different ones, none is known. */
static std::map<std::string, std::string> &parameter_lists()
{
    static std::map<std::string, std::string> lists;
    return lists;
}

std::vector<std::string> simt::parameter_names(const std::string &kernel, size_t count)
{
    const auto found = parameter_lists().find(last_name(kernel.substr(0, kernel.find('<'))));
    std::vector<std::string> names;
    std::istringstream list(found == parameter_lists().end() ? "" : found->second);
    for (std::string name; std::getline(list, name, ',');)
        names.push_back(name);
    return names.size() == count ? names : std::vector<std::string>();
}

std::string simt::shared_variable_before(size_t offset, size_t *begin, size_t *bytes)
{
    const auto after = symbols().by_offset.upper_bound(offset);
    if (after == symbols().by_offset.begin())
        return "";
    const auto &[symbol, size] = std::prev(after)->second;
    *begin = std::prev(after)->first;
    *bytes = size;
    return last_name(demangle(symbol));
}

extern "C" void simt_name_parameters(const char *kernel, const char *names)
{
    const auto added = parameter_lists().emplace(kernel, names);
    if (!added.second && added.first->second != names)
        added.first->second.clear();
}
