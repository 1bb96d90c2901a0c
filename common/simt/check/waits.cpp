/* Does a race's source have the wait that would order it, but in the wrong place? This reads it as
 * text: a wait is wrong only where it is of no use, next to another or with nothing after it. */
#include "check/check.h"
#include "host/errors.h"
#include <fstream>
#include <regex>
#include <set>

namespace simt::check
{

struct Braces {
    int first, last; /* lines */
    bool loop, kernel;
};

struct SourceText {
    std::vector<std::string> line; /* from 1, without comments and what is in quotation marks */
    std::vector<Braces> braces;    /* an inner pair comes before the outer ones */
};

static std::vector<std::string> lines_of_code(std::istream &file)
{
    static const std::regex directive("\\s*#.*"),
        no_code("//.*|/\\*.*?\\*/|\"(\\\\.|[^\"\\\\])*\"|'(\\\\.|[^'\\\\])*'");
    std::vector<std::string> lines(1);
    bool comment = false;
    for (std::string text; std::getline(file, text);) {
        const size_t end = comment ? text.find("*/") : 0;
        text.erase(0, comment && end != std::string::npos ? end + 2 : end);
        text = std::regex_replace(text, no_code, "");
        const size_t begin = text.find("/*");
        comment = (comment && end == std::string::npos) || begin != std::string::npos;
        text.resize(std::min(begin, text.size()));
        lines.push_back(std::regex_match(text, directive) ? "" : text);
    }
    return lines;
}

static SourceText read_source(const std::string &name)
{
    static const std::regex loop("\\s*(for|while|do)\\b.*"), kernel(".*\\b__global__\\b.*");
    std::ifstream file(name);
    SourceText source;
    source.line = lines_of_code(file);
    std::vector<Braces> open;
    std::string head; /* what the code has had since the last statement */
    int parentheses = 0;
    for (size_t number = 1; number < source.line.size(); number++) {
        for (char c : source.line[number]) {
            parentheses += (c == '(') - (c == ')');
            if (c == '{') {
                open.push_back(
                    {int(number), 0, std::regex_match(head, loop), std::regex_match(head, kernel)});
            } else if (c == '}' && !open.empty()) {
                open.back().last = int(number);
                source.braces.push_back(open.back());
                open.pop_back();
            }
            const bool ends = c == '{' || c == '}' || (c == ';' && parentheses == 0);
            head = ends ? "" : head + c;
        }
        head += ' ';
    }
    return source;
}

/* Returns the smallest loop that has both lines, otherwise the kernel; null where neither does. */
static const Braces *around(const SourceText &source, int first, int second)
{
    for (const bool loop : {true, false})
        for (const Braces &each : source.braces)
            if ((loop ? each.loop : each.kernel) && each.first <= std::min(first, second) &&
                std::max(first, second) <= each.last)
                return &each;
    return nullptr;
}

static bool is_barrier(const std::string &code, bool of_warp)
{
    return code.find("__syncthreads()") != std::string::npos ||
           (of_warp && code.find("__syncwarp(") != std::string::npos);
}

static bool is_copy_wait(const std::string &code)
{
    static const std::regex wait(".*\\b(cp_async_wait|__pipeline_wait_prior)\\b.*");
    return std::regex_match(code, wait);
}

/* May the code use shared memory: another element than a kernel's array's, a pointer, a call? */
static bool may_use_shared(const std::string &code, const std::set<std::string> &global)
{
    static const std::regex element("(\\w+)\\s*\\["), called("\\b([A-Za-z_]\\w*)\\s*(<[^;]*>)?\\("),
        followed("(^|[=(,+\\-/%<>&|!?:;{}])\\s*\\*\\s*\\w|->|\\]\\s*\\[");
    static const std::set<std::string> harmless = {"for",  "if",         "while",         "switch",
                                                   "int",  "float",      "sizeof",        "size_t",
                                                   "expf", "__syncwarp", "__syncthreads", "return"};
    const std::sregex_iterator none;
    for (std::sregex_iterator each(code.begin(), code.end(), element); each != none; ++each)
        if (!global.count(each->str(1)))
            return true;
    for (std::sregex_iterator each(code.begin(), code.end(), called); each != none; ++each)
        if (!harmless.count(each->str(1)))
            return true;
    return std::regex_search(code, followed);
}

int idle_barrier(const std::string &file, const MissingWait &missing, const Arguments &arguments)
{
    const SourceText source = read_source(file);
    const Braces *all = around(source, missing.before, missing.after);
    if (!all)
        return 0;
    std::set<std::string> global;
    for (const Argument &argument : arguments)
        global.insert(argument.name);
    struct Event {
        int line;
        bool barrier;
    };
    std::vector<Event> events;
    for (int line = all->first; line <= all->last; line++) {
        const std::string &code = source.line[size_t(line)];
        const bool uses = may_use_shared(code, global), barrier = is_barrier(code, missing.of_warp);
        if (uses)
            events.push_back({line, false});
        if (barrier)
            events.push_back({line, true});
        if (uses && barrier) /* in whatever order */
            events.push_back({line, false});
    }
    int nearest = 0, distance = 0;
    const size_t count = events.size();
    for (size_t i = 0; i < count; i++) {
        const int line = events[i].line;
        const bool between = missing.before <= line && line <= missing.after;
        if (!events[i].barrier || between != missing.comes_round || count < 2)
            continue;
        const bool idle =
            all->loop
                ? events[(i + 1) % count].barrier || events[(i + count - 1) % count].barrier
                : (i + 1 == count || events[i + 1].barrier) || (i == 0 || events[i - 1].barrier);
        const int far = std::min(abs(line - missing.before), abs(line - missing.after));
        if (idle && (!nearest || far < distance))
            nearest = line, distance = far;
    }
    return nearest;
}

std::string misplaced_copy_wait(const std::string &file, int read, const CopyRead &is)
{
    const SourceText source = read_source(file);
    for (const Braces &each : source.braces) { /* the smallest loop with a wait, or the kernel */
        if (read < each.first || each.last < read || !(each.loop || each.kernel))
            continue;
        int wait = 0, barrier = 0, later = 0;
        bool used = false; /* shared memory, between the two */
        for (int line = each.first; line <= each.last; line++) {
            const std::string &code = source.line[size_t(line)];
            if (line < read && is_barrier(code, false))
                barrier = line, used = false;
            else if (is_copy_wait(code))
                (line < read ? wait : later) = line;
            else if (wait < barrier)
                used = used || may_use_shared(code, {});
        }
        if (wait && !is.own && barrier < wait && (!barrier || used))
            return format("a __syncthreads() is missing after the wait at line %d: a thread waits "
                          "only for its own copies",
                          wait);
        if (wait && !is.own && barrier < wait)
            return format("the barrier at line %d stands in the wrong place: it must come after "
                          "the wait at line %d, because a thread waits only for its own copies",
                          barrier, wait);
        if (wait && is.pending)
            return format("the wait at line %d is not for this copy", wait);
        if (!wait && later && is.pending)
            return format("the wait at line %d comes after line %d, and must come before it", later,
                          read);
    }
    return "";
}

} /* namespace simt::check */
