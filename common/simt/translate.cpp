/*
 * simt-translate: rewrites what g++ cannot parse in CUDA source, token by token and line by line,
 * so that every error message and every debugger still names the line that its author wrote.
 *
 *     k<16><<<g, b>>>(x)           simt::simt_kernel("k<16>", k<16>).simt_configure(g, b)(x)
 *     k<<<g, b>>>(x)         the same, with a lambda where k's template arguments are to be deduced
 *     extern __shared__ T s[];     simt::pointer_to<T> const s = simt::dynamic_shared<T>();
 *     __shared__ alignas(16) T s   __shared__ __align__(16) T s
 *     #include "tile.cuh"         #include of the rewritten copy, if the header needs rewriting too
 *
 *     simt-translate FILE.cu OUTPUT_DIR CUDA_INCLUDE_DIR [-I DIR]...
 *
 * prints the name of the rewritten copy; OUTPUT_DIR/sources lists all copies beside the names they
 * were made from.
 */
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

using std::string;

namespace
{

enum Kind { blank, word, number, text, punctuation, directive };

struct Token {
    Kind kind;
    string spelling;
    int line;
};

string output_dir;
string cuda_include_dir; /* where cuda_runtime.h is: headers from there are never rewritten */
std::vector<string> include_dirs;
/* source -> rewritten copy, or the source itself when it needs none */
std::map<string, string> copies;
/* __global__ functions over all files: how many template arguments name one function that can be
 * pointed at. */
std::map<string, int> template_kernels;

[[noreturn]] void fail(const string &file, int line, const string &message)
{
    std::cerr << file << ":" << line << ": error: " << message << "\n";
    exit(1);
}

/* ---------------------------------------------------------------------------------------------- */
/*
 * Tokens. Comments and white space are blank; a preprocessor directive is one token, except
 * #define, whose body is code like any other.
 */

class Lexer
{
  public:
    Lexer(const string &source) : s(source)
    {
    }

    std::vector<Token> all()
    {
        std::vector<Token> tokens;
        while (at < s.size()) {
            size_t begin = at;
            int first_line = line;
            Kind kind = next();
            string spelling = s.substr(begin, at - begin);
            for (char c : spelling)
                line += c == '\n';
            if (kind != blank)
                line_begins = false;
            else if (spelling.find('\n') != string::npos && spelling[0] != '/')
                line_begins = true;
            tokens.push_back({kind, spelling, first_line});
        }
        return tokens;
    }

  private:
    const string &s;
    size_t at = 0;
    int line = 1;
    bool line_begins = true;

    bool looking_at(const char *what) const
    {
        return s.compare(at, string(what).size(), what) == 0;
    }

    void skip_line()
    {
        while (at < s.size() && s[at] != '\n') {
            if (s[at] == '\\' && at + 1 < s.size())
                at++;
            at++;
        }
    }

    void skip_quoted(char quote)
    {
        at++;
        while (at < s.size() && s[at] != quote && s[at] != '\n') {
            if (s[at] == '\\')
                at++;
            at++;
        }
        if (at < s.size())
            at++;
    }

    void skip_raw_string()
    {
        size_t open = s.find('(', at);
        string end = ")" + s.substr(at + 2, open - at - 2) + "\"";
        size_t close = s.find(end, open);
        at = close == string::npos ? s.size() : close + end.size();
    }

    Kind next()
    {
        unsigned char c = static_cast<unsigned char>(s[at]);
        if (isspace(c)) {
            while (at < s.size() && isspace(static_cast<unsigned char>(s[at])))
                at++;
            return blank;
        }
        if (looking_at("//")) {
            skip_line();
            return blank;
        }
        if (looking_at("/*")) {
            size_t end = s.find("*/", at + 2);
            at = end == string::npos ? s.size() : end + 2;
            return blank;
        }
        if (c == '#' && line_begins)
            return read_directive();
        if (looking_at("R\"")) {
            skip_raw_string();
            return text;
        }
        if (c == '"' || c == '\'') {
            skip_quoted(s[at]);
            return text;
        }
        if (isalpha(c) || c == '_') {
            while (at < s.size() && (isalnum(static_cast<unsigned char>(s[at])) || s[at] == '_'))
                at++;
            return word;
        }
        if (isdigit(c)) {
            while (at < s.size() &&
                   (isalnum(static_cast<unsigned char>(s[at])) || s[at] == '.' || s[at] == '\''))
                at++;
            return number;
        }
        at += looking_at("<<<") || looking_at(">>>")                     ? 3
              : looking_at("<<") || looking_at("::") || looking_at("->") ? 2
                                                                         : 1;
        return punctuation;
    }

    Kind read_directive()
    {
        size_t name = s.find_first_not_of(" \t", at + 1);
        if (name != string::npos && s.compare(name, 6, "define") == 0)
            at = name + 6;
        else
            skip_line();
        return directive;
    }
};

/* ---------------------------------------------------------------------------------------------- */

string read_file(const string &name)
{
    std::ifstream file(name);
    std::ostringstream content;
    content << file.rdbuf();
    return content.str();
}

bool exists(const string &name)
{
    return static_cast<bool>(std::ifstream(name));
}

string directory_of(const string &name)
{
    size_t slash = name.rfind('/');
    return slash == string::npos ? "" : name.substr(0, slash + 1);
}

string translate_file(const string &source, bool is_header);

class Translator
{
  public:
    Translator(const string &name, const string &content) : file(name), t(Lexer(content).all())
    {
    }

    /* The rewritten text. */
    string run()
    {
        join_spaced_launches();
        collect_template_kernels();
        for (size_t i = 0; i < t.size(); i++)
            translate(i);
        string out;
        for (const Token &token : t)
            out += token.spelling;
        return out;
    }

    bool changed() const
    {
        return changes > 0;
    }

  private:
    string file;
    std::vector<Token> t;
    int changes = 0;
    int depth = 0; /* of braces */
    /* the depth at which the current device function's body begins, or -1 */
    int device_depth = -1;
    bool device_heading = false; /* a __global__ or __device__ came by since the last ; or } */
    bool host_heading = false;
    std::vector<int> depth_at_if; /* both branches of an #if may open the same brace */

    bool is(size_t i, const char *spelling) const
    {
        return i < t.size() && t[i].kind != text && t[i].spelling == spelling;
    }

    /* The next or previous token that is not blank; t.size() when there is none. */
    size_t after(size_t i) const
    {
        do
            i++;
        while (i < t.size() && t[i].kind == blank);
        return i < t.size() ? i : t.size();
    }

    size_t before(size_t i) const
    {
        while (i-- > 0)
            if (t[i].kind != blank)
                return i;
        return t.size();
    }

    void replace(size_t i, const string &spelling)
    {
        t[i].spelling = spelling;
        changes++;
    }

    /* Leaves the line breaks of what it removes. */
    void erase(size_t from, size_t to)
    {
        for (size_t i = from; i < to; i++) {
            string breaks;
            for (char c : t[i].spelling)
                if (c == '\n')
                    breaks += c;
            t[i].spelling = breaks;
            t[i].kind = blank;
        }
        changes++;
    }

    string spelled(size_t from, size_t to) const
    {
        string out;
        for (size_t i = from; i < to; i++)
            out += t[i].kind == blank ? (t[i].spelling.empty() ? "" : " ") : t[i].spelling;
        while (!out.empty() && out.back() == ' ')
            out.pop_back();
        return out;
    }

    size_t closing(size_t open) const
    {
        int level = 0;
        for (size_t i = open; i < t.size(); i++) {
            if (t[i].kind != punctuation)
                continue;
            level += is(i, "(") - is(i, ")");
            if (level == 0)
                return i;
        }
        return t.size();
    }

    void translate(size_t i)
    {
        if (t[i].kind == directive)
            translate_directive(i);
        else if (t[i].kind == punctuation)
            translate_punctuation(i);
        else if (t[i].kind == word)
            translate_word(i);
    }

    void translate_punctuation(size_t i)
    {
        if (is(i, "<<<")) {
            translate_launch(i);
        } else if (is(i, "{")) {
            if (device_heading && !host_heading && device_depth < 0)
                device_depth = depth;
            device_heading = host_heading = false;
            depth++;
        } else if (is(i, "}")) {
            depth--;
            if (depth == device_depth)
                device_depth = -1;
            device_heading = host_heading = false;
        } else if (is(i, ";")) {
            device_heading = host_heading = false;
        }
    }

    void translate_word(size_t i)
    {
        const string w = t[i].spelling;
        if (w == "__global__" || w == "__device__")
            device_heading = true;
        else if (w == "__host__")
            host_heading = true;
        else if (w == "__shared__")
            translate_shared(i);
        else if (w == "asm" || w == "__asm__" || w == "__asm")
            translate_asm(i);
        else if (w == "__noinline__" && !is(before(i), "("))
            replace(
                /* as a macro it would break the C++ library's own use */
                i, "__attribute__((__noinline__))");
        else if (w.compare(0, 4, "cuda") == 0)
            translate_untyped_kernel(i);
    }

    /* ------------------------------------------------------------------------------------------ */

    /* k << <g, b >> > (x), as some editors format it, becomes k <<<g, b>>> (x): nothing else can be
     * meant by << <. */
    void join_spaced_launches()
    {
        for (size_t i = 0; i < t.size(); i++) {
            size_t third = after(i);
            if (t[i].kind != punctuation || !is(i, "<<") || !is(third, "<"))
                continue;
            size_t close = spaced_close(third);
            if (close == t.size())
                continue;
            erase(i + 1, third + 1);
            replace(i, "<<<");
            erase(close + 1, after(after(close)) + 1);
            replace(close, ">>>");
        }
    }

    /* The first > of the > > > that ends a launch whose configuration begins after token `open`. */
    size_t spaced_close(size_t open) const
    {
        int level = 0;
        for (size_t i = after(open); i < t.size() && !is(i, ";"); i = after(i)) {
            if (t[i].kind != punctuation)
                continue;
            level += (is(i, "(") || is(i, "{")) - (is(i, ")") || is(i, "}"));
            if (level == 0 && is(i, ">") && is(after(i), ">") && is(after(after(i)), ">"))
                return i;
        }
        return t.size();
    }

    /* template <...> ... __global__ void name( */
    void collect_template_kernels()
    {
        int parameters = 0; /* of the last template heading that nothing has ended yet */
        for (size_t i = 0; i < t.size(); i++) {
            if (t[i].kind != word && t[i].kind != punctuation)
                continue;
            if (is(i, "template"))
                parameters = needed_arguments(after(i));
            else if (is(i, ";") || is(i, "{"))
                parameters = 0;
            else if (is(i, "__global__"))
                note_kernel(i, parameters);
        }
    }

    /*
     * How many template arguments name one function of template <...>, with `open` at the <: those
     * without a default. A pack never has enough.
     */
    int needed_arguments(size_t open) const
    {
        int level = 0, needed = 0;
        bool fresh = true;
        for (size_t i = open; i < t.size() && !is(i, ";") && !is(i, "{"); i = after(i)) {
            level += is(i, "<") + is(i, "(") - is(i, ">") - is(i, ")");
            if (level == 0)
                break;
            if (i != open && fresh) {
                needed++;
                fresh = false;
            }
            if (level == 1 && is(i, ","))
                fresh = true;
            else if (level == 1 && is(i, "="))
                return needed - 1; /* all that follow have defaults too */
            else if (is(i, "."))
                return 1000;
        }
        return needed;
    }

    /* Commas at the top level of the name<...> in [from, to), plus one. */
    int given_arguments(size_t from, size_t to) const
    {
        int level = 0, given = 0;
        for (size_t i = from; i < to; i++) {
            if (t[i].kind != punctuation)
                continue;
            level += is(i, "<") + is(i, "(") + is(i, "{") - is(i, ">") - is(i, ")") - is(i, "}") -
                     3 * is(i, ">>>");
            if (level == 1 && given == 0)
                given = is(after(i), ">") ? 0 : 1;
            if (level == 1 && is(i, ","))
                given++;
        }
        return given;
    }

    void note_kernel(size_t i, int parameters)
    {
        for (; i < t.size() && !is(i, ";") && !is(i, "{"); i = after(i)) {
            if (t[i].kind != word || !is(after(i), "("))
                continue;
            if (is(i, "__launch_bounds__") || is(i, "__maxnreg__") || is(i, "__attribute__")) {
                i = closing(after(i));
                continue;
            }
            if (has_default(after(i)))
                parameters =
                    /* a function pointer forgets it: call by name, as with deduced arguments */
                    1000;
            int &needed = template_kernels[t[i].spelling];
            needed = std::max(needed, parameters);
            return;
        }
    }

    /* Whether a parameter in the parentheses at `open` has a default. */
    bool has_default(size_t open) const
    {
        for (size_t i = open, close = closing(open); i < close; i++)
            if (is(i, "="))
                return true;
        return false;
    }

    /* Where the kernel expression that ends before token `end` begins: name, ns::name,
     * name<arguments>, table[i].run. */
    size_t kernel_begin(size_t end) const
    {
        size_t i = end;
        for (;;) {
            i = before(i);
            if (i == t.size())
                return end;
            if (is(i, ">") || is(i, ">>>") || is(i, "]") || is(i, ")")) {
                i = opening(i);
                if (i == t.size())
                    return end;
                if (is(i, "(") && !(before(i) < t.size() && t[before(i)].kind == word))
                    return i; /* (*kernel) or (kernel) */
                continue;
            }
            if (t[i].kind != word)
                return end;
            size_t link = before(i);
            if (is(link, "::") && before(link) < t.size() && t[before(link)].kind != word &&
                !is(before(link), ">"))
                return link; /* ::name */
            if (!is(link, "::") && !is(link, ".") && !is(link, "->"))
                return i;
            i = link;
        }
    }

    size_t opening(size_t close) const
    {
        const char *pair = is(close, "]") ? "[" : is(close, ")") ? "(" : "<";
        int level = 0;
        for (size_t i = close;; i = before(i)) {
            if (i == t.size())
                return i;
            if (t[i].kind != punctuation)
                continue;
            if (*pair == '<') {
                /* Template arguments: >>> closes three; parentheses inside hold whatever they
                 * like. */
                if (is(i, ")") || is(i, "]"))
                    i = opening(i);
                else if (is(i, ">>>"))
                    level += 3;
                else
                    level += is(i, ">") - is(i, "<");
                if (is(i, ";") || is(i, "{"))
                    return t.size();
            } else {
                level += (t[i].spelling == t[close].spelling) - (t[i].spelling == pair);
            }
            if (level == 0)
                return i;
        }
    }

    static string quoted(const string &plain)
    {
        string out = "\"";
        for (char c : plain) {
            if (c == '"' || c == '\\')
                out += '\\';
            out += c;
        }
        return out + "\"";
    }

    void translate_launch(size_t open)
    {
        size_t begin = kernel_begin(open);
        size_t close = open + 1;
        int level = 0;
        for (; close < t.size(); close++) {
            if (t[close].kind == punctuation)
                level += (is(close, "(") || is(close, "{")) - (is(close, ")") || is(close, "}"));
            if (is(close, ">>>") && level == 0)
                break;
        }
        if (begin == open || close == t.size() || !is(after(close), "("))
            return; /* no launch, or one that g++ will complain about */
        string kernel = spelled(begin, open);
        string name = kernel.substr(0, kernel.find('<'));
        size_t colon = name.rfind(':');
        auto known = template_kernels.find(colon == string::npos ? name : name.substr(colon + 1));
        bool deduced =
            known != template_kernels.end() && given_arguments(begin, open) < known->second;
        string call;
        if (device_depth >= 0)
            call = "simt::simt_kernel_in_device_code(0)";
        else if (deduced)
            call = "simt::simt_deduced_kernel(" + quoted(kernel) +
                   ", [](auto... simt_arguments) { " + kernel + "(simt_arguments...); })";
        else
            call = "simt::simt_kernel(" + quoted(kernel) + ", " + kernel + ")";
        erase(begin, open);
        replace(open, call + ".simt_configure(");
        replace(close, ")");
    }

    /* ------------------------------------------------------------------------------------------ */

    void translate_shared(size_t i)
    {
        size_t previous = before(i);
        if (is(previous, "static")) {
            erase(previous, i);
            previous = before(i);
        }
        size_t next = after(i);
        if (is(next, "alignas"))
            replace(next, "__align__");
        else if (is(next, "static"))
            erase(next, next + 1);
        else if (is(next, "extern"))
            translate_dynamic_shared(next, i);
        while (previous < t.size() && t[previous].kind == word && !is(previous, "extern"))
            previous = before(previous); /* extern volatile TYPE __shared__ name[] */
        if (is(previous, "extern"))
            translate_dynamic_shared(previous, i);
    }

    /* From extern to [] or ;, with __shared__ at `shared`. */
    void translate_dynamic_shared(size_t begin, size_t shared)
    {
        size_t bracket = begin, end = begin;
        while (end < t.size() && !is(end, ";"))
            end++;
        while (bracket < end && !is(bracket, "["))
            bracket++;
        size_t name = before(bracket);
        if (end == t.size() || bracket == end || t[name].kind != word || !is(after(bracket), "]"))
            fail(file, t[begin].line, "expected extern __shared__ TYPE name[];");
        string dimensions = spelled(after(after(bracket)), end); /* of name[][N]: the N */
        erase(begin, begin + 1);
        erase(shared, shared + 1);
        string type = element_type(begin, name);
        string variable = t[name].spelling;
        erase(begin, end);
        if (device_depth < 0)
            /* Outside of any function it cannot be a pointer: that would be set once, not once per
             * worker. */
            replace(begin, "extern __thread " + type + " " + variable + "[]" + dimensions +
                               " __asm__(\"simt_dynamic_shared\")");
        else
            replace(begin, "simt::pointer_to<" + type + dimensions + "> const " + variable +
                               " = simt::dynamic_shared<" + type + dimensions + ">()");
        t[begin].kind = word;
    }

    /* The declared type without alignment, which dynamic shared memory always has. */
    string element_type(size_t from, size_t to) const
    {
        string type;
        for (size_t i = from; i < to; i++) {
            if (is(i, "alignas") || is(i, "__align__") || is(i, "__attribute__")) {
                i = closing(after(i));
                continue;
            }
            type += t[i].kind == blank ? " " : t[i].spelling;
        }
        size_t begin = type.find_first_not_of(' '), end = type.find_last_not_of(' ');
        return begin == string::npos ? "" : type.substr(begin, end - begin + 1);
    }

    /* ------------------------------------------------------------------------------------------ */

    void translate_asm(size_t i)
    {
        size_t open = i;
        while (open < t.size() && !is(open, "(") && !is(open, ";"))
            open = after(open);
        if (!is(open, "(") || depth == 0)
            return;
        size_t close = closing(open);
        erase(i, close + 1);
        replace(i, "static_assert(false, \"inline PTX assembly is not supported by the CPU backend "
                   "(simt)\")");
        t[i].kind = word;
    }

    /* cudaLaunchCooperativeKernel((void *)kernel, ...): the cast would hide the kernel's parameter
     * types. */
    void translate_untyped_kernel(size_t i)
    {
        const string &w = t[i].spelling;
        if (w != "cudaLaunchKernel" && w != "cudaLaunchCooperativeKernel")
            return;
        size_t open = after(i), cast = after(open);
        if (!is(open, "(") || !is(cast, "("))
            return;
        size_t inside = after(cast);
        if (is(inside, "const"))
            inside = after(inside);
        size_t close = after(after(inside));
        if (is(inside, "void") && is(after(inside), "*") && is(close, ")"))
            erase(cast, close + 1);
    }

    /* ------------------------------------------------------------------------------------------ */

    void translate_directive(size_t i)
    {
        const string &line = t[i].spelling;
        size_t name = line.find_first_not_of(" \t", 1);
        if (name == string::npos)
            return;
        if (line.compare(name, 2, "if") == 0)
            depth_at_if.push_back(depth);
        else if (line.compare(name, 2, "el") == 0 && !depth_at_if.empty())
            depth = depth_at_if.back();
        else if (line.compare(name, 5, "endif") == 0 && !depth_at_if.empty())
            depth_at_if.pop_back();
        else if (line.compare(name, 7, "include") == 0)
            translate_include(i, name);
    }

    void translate_include(size_t i, size_t name)
    {
        const string &line = t[i].spelling;
        size_t open = line.find_first_of("\"<", name);
        if (open == string::npos)
            return;
        size_t close = line.find(line[open] == '"' ? '"' : '>', open + 1);
        if (close == string::npos)
            return;
        string header = line.substr(open + 1, close - open - 1);
        string found = find_header(header, line[open] == '"');
        if (found.empty())
            return;
        string copy = translate_file(found, true);
        if (copy != found || line[open] == '"')
            replace(i, "#include \"" + copy + "\"" + line.substr(close + 1));
    }

    string find_header(const string &header, bool beside) const
    {
        if (header[0] == '/')
            return exists(header) ? header : "";
        if (beside && exists(directory_of(file) + header))
            return directory_of(file) + header;
        if (exists(cuda_include_dir + "/" + header))
            return "";
        for (const string &dir : include_dirs)
            if (exists(dir + "/" + header))
                return dir + "/" + header;
        return "";
    }
};

/*
 * The name to include instead of `source`. A header that holds nothing to rewrite, nor includes
 * such a header, stays where it is.
 */
string translate_file(const string &source, bool is_header)
{
    auto known = copies.find(source);
    if (known != copies.end())
        return known->second;
    copies[source] = source; /* a header that includes itself finds this */
    Translator translator(source, read_file(source));
    string rewritten = translator.run();
    if (is_header && !translator.changed())
        return source;
    size_t slash = source.rfind('/');
    string base = slash == string::npos ? source : source.substr(slash + 1);
    string copy = output_dir + "/" + std::to_string(copies.size()) + "_" + base;
    std::ofstream out(copy);
    out << "#line 1 " << '"' << source << "\"\n" << rewritten;
    if (!out.flush()) {
        std::cerr << "simt-translate: cannot write " << copy << "\n";
        exit(1);
    }
    std::ofstream(output_dir + "/sources", std::ios::app) << copy << ' ' << source << '\n';
    copies[source] = copy;
    return copy;
}

} /* namespace */

int main(int argc, char **argv)
{
    if (argc < 4) {
        std::cerr << "usage: simt-translate FILE.cu OUTPUT_DIR CUDA_INCLUDE_DIR [-I DIR]...\n";
        return 2;
    }
    output_dir = argv[2];
    cuda_include_dir = argv[3];
    for (int i = 4; i + 1 < argc; i += 2)
        include_dirs.push_back(argv[i + 1]);
    if (!exists(argv[1])) {
        std::cerr << "simtcc: error: cannot read " << argv[1] << "\n";
        return 1;
    }
    std::cout << translate_file(argv[1], false) << "\n";
    return 0;
}
