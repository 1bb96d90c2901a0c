/*
 * simt-translate rewrites what g++ cannot parse in CUDA source, token by token and line by line. It
 * reads preprocessed text (g++ -E), in which headers and macros are as plain as the source itself
 * and every line says where it comes from. So messages and debuggers name the author's lines.
 *
 *     k<16><<<g, b>>>(x)           simt::simt_kernel("k<16>", ..., g, b)(x)
 *     __shared__ T s               STORAGE T s
 *     extern __shared__ T s[];     simt::pointer_to<T> const s = simt::dynamic_shared<T, 16>();
 *     __global__, __device__, __host__      nothing
 *     __device__ int n;            static int n;     each file has its own, unless --relocatable
 *     __launch_bounds__(n)         simt_launch_bounds(n), the kernel's first statement
 *     cudaMemcpy(...);             simt::not_looked_at("cudaMemcpy"), cudaMemcpy(...);
 *
 * and, in device code only,
 *
 *     clock(), malloc(n), free(p), new T    simt_device_clock(), ..., new (simt::device_heap) T
 *
 *     simt-translate STORAGE [--flat] [--relocatable] [TOKENS] < PREPROCESSED > REWRITTEN
 *
 * --flat asks the compiler to put the functions that a kernel calls in their callers' place.
 *
 * The file TOKENS gets what was read outside the system's headers: a line for each token, each
 * directive and each line marker. Literals are only "" or 0 there.
 */
#include <cstdint>
#include <algorithm>
#include <cctype>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

using std::string;

namespace
{

enum Kind { blank, word, literal, punctuation };

struct Token {
    Kind kind;
    string lead; /* what stands before it: white space, directives, headers of the system */
    string spelling;
    size_t at = 0, marker = 0; /* where it is in the text, and the last line marker before it */
};

struct Lexer {
    const string s;
    size_t at = 0, marker = 0;
    std::vector<std::pair<size_t, string>> directives =
        {}; /* and line markers, with their places */

    std::vector<Token> all()
    {
        std::vector<Token> tokens(1); /* the first and the last stand for nothing */
        for (size_t begin = at, end = 0; at < s.size(); begin = at) {
            Kind kind = next();
            if (kind == blank && at < s.size())
                continue;
            tokens.push_back(
                {kind, s.substr(end, begin - end), s.substr(begin, at - begin), begin, marker});
            end = at;
        }
        tokens.push_back({blank, "", "", s.size(), marker});
        return tokens;
    }

    /* What is outside ASCII, and a universal character name, belong to names. So does $. */
    bool in_name(size_t i) const
    {
        const unsigned char c = i < s.size() ? uint8_t(s[i]) : ' ';
        const bool universal =
            c == '\\' && i + 1 < s.size() && (s[i + 1] == 'u' || s[i + 1] == 'U');
        return isalnum(c) || c == '_' || c == '$' || c >= 0x80 || universal;
    }

    void skip_name()
    {
        while (in_name(at))
            at++;
    }

    /* Skips what the program may define behind a literal: "..."_name. */
    void skip_suffix()
    {
        if (at < s.size() && !isdigit(uint8_t(s[at])))
            skip_name();
    }

    /* Skips "..." or '...' at `at`, or R"end(...)end". */
    void skip_quoted(bool raw)
    {
        const char quote = s[at];
        if (raw) {
            const size_t open = s.find('(', at), length = open - at - 1;
            const string end = open == string::npos ? "" : ")" + s.substr(at + 1, length) + quote;
            const size_t last = open == string::npos ? open : s.find(end, open);
            at = last == string::npos ? s.size() : last + end.size();
            return;
        }
        for (at++; at < s.size() && s[at] != quote && s[at] != '\n';)
            at += s[at] == '\\' ? 2 : 1;
        at = std::min(at + 1, s.size());
    }

    bool looking_at(const char *what) const
    {
        return s.compare(at, string(what).size(), what) == 0;
    }

    void skip_line() { at = std::min(s.find('\n', at), s.size()); }

    /* Returns the flags of the line marker at `marker`, # 12 "file.h" FLAGS: 1 where a file
     * begins, 2 where one goes on, 3 if it is the system's; "" at another directive. */
    string flags_at(size_t marker) const
    {
        const size_t quote = s.rfind('"', std::min(s.find('\n', marker), s.size()));
        const bool is_marker = quote != string::npos && quote > marker && isdigit(s[marker + 2]);
        return is_marker ? s.substr(quote, s.find('\n', quote) - quote) : "";
    }

    void skip_directive()
    {
        const string flags = flags_at(at);
        marker = flags.empty() ? marker : at;
        const auto goes_on_elsewhere = [](const string &after) {
            return after.find('2') != string::npos && after.find('3') == string::npos;
        };
        const size_t begin = at;
        skip_line();
        directives.emplace_back(begin, s.substr(begin, at - begin));
        if (flags.find('3') == string::npos || flags.find_first_of("12") == string::npos)
            return;
        while (at < s.size() && !(looking_at("\n# ") && goes_on_elsewhere(flags_at(at + 1)))) {
            at++;
            skip_line();
        }
    }

    void skip_while(bool (*belongs)(unsigned char))
    {
        while (at < s.size() && belongs(uint8_t(s[at])))
            at++;
    }

    Kind next()
    {
        unsigned char c = uint8_t(s[at]);
        if (c == '#' && (at == 0 || s[at - 1] == '\n')) {
            skip_directive();
            return blank;
        }
        if (isspace(c)) {
            skip_while([](unsigned char d) { return isspace(d) != 0; });
            return blank;
        }
        if (c == '"' || c == '\'') {
            skip_quoted(false);
            skip_suffix();
            return literal;
        }
        if (in_name(at) && !isdigit(c)) {
            const size_t begin = at;
            skip_name();
            const string name = s.substr(begin, at - begin);
            static const std::set<string> raw = {"R", "LR", "uR", "UR", "u8R"};
            static const std::set<string> prefixes = {"L", "u", "U", "u8"};
            const bool string_follows = at < s.size() && s[at] == '"';
            if (!(raw.count(name) && string_follows) &&
                !(prefixes.count(name) && (string_follows || looking_at("'"))))
                return word;
            skip_quoted(raw.count(name) != 0);
            skip_suffix();
            return literal;
        }
        if (isdigit(c) || (c == '.' && at + 1 < s.size() && isdigit(uint8_t(s[at + 1])))) {
            /* 1e-3, 0x1p+4, 1'000'000; a quotation mark before anything else begins a character */
            for (at++; at < s.size(); at++) {
                const unsigned char d = uint8_t(s[at]), before = uint8_t(s[at - 1]);
                const bool sign =
                    (d == '+' || d == '-') && (tolower(before) == 'e' || tolower(before) == 'p');
                const bool separator = d == '\'' && at + 1 < s.size() &&
                                       (isalnum(uint8_t(s[at + 1])) || s[at + 1] == '_');
                if (!in_name(at) && d != '.' && !sign && !separator)
                    break;
            }
            return literal;
        }
        at += looking_at("<<<") || looking_at(">>>")                     ? 3
              : looking_at("<<") || looking_at("::") || looking_at("->") ? 2
                                                                         : 1;
        return punctuation;
    }
};

struct Translator {
    const string storage;   /* what a static __shared__ variable is declared as */
    const bool flat;        /* Functions come in their callers' place. */
    const bool relocatable; /* Files share their __device__ variables. */
    const string &text;
    std::vector<Token> t;
    int depth = 0;               /* of braces */
    int namespaces = 0;          /* how many of the outer ones are those of namespaces */
    int device_depth = -1;       /* at which the current device function's body begins, or -1 */
    bool device_heading = false; /* a __global__ or __device__ came by since the last ; or } */
    bool host_heading = false;
    string launch_bounds = ""; /* of the kernel whose heading this is */
    string names = "";         /* calls that say what the kernels' parameters are called */
    std::set<string> kernels = {};
    size_t main_end = 0;                /* where the body of main() ends, while it is read */
    std::set<size_t> headings = {};     /* where the names of kernels are declared */
    std::set<string> only_kernels = {}; /* names that nothing else has */

    /* Returns the rewritten text. */
    string run()
    {
        for (size_t i = 0; i < t.size(); i++)
            if (is(i, "__global__") || (is(i, "global") && is(i - 3, "__attribute__")))
                note_kernel(i + 1);
        for (size_t name : headings)
            only_kernels.insert(t[name].spelling);
        for (size_t i = 1; i < t.size(); i++)
            if (t[i].kind == word && t[i - 1].kind == word && !headings.count(i) &&
                !is(i - 1, "else", "do", "return"))
                only_kernels.erase(t[i].spelling);
        for (size_t i = 0; i < t.size(); i++)
            if (t[i].kind == punctuation)
                translate_punctuation(i);
            else if (t[i].kind == word)
                translate_word(i);
        string out;
        for (const Token &token : t)
            out += token.lead + token.spelling;
        /* Everything behind this line is the translator's own. */
        out += "\n# 1 \"simt-translate\"\n";
        if (depth != 0)
            out += restart(t.size() - 1); /* where the compiler misses a brace */
        else if (!names.empty())
            out += "namespace { __attribute__((constructor)) void simt_name_all_parameters() {" +
                   names + " } }\n";
        return out;
    }

    /* Returns whether a token is one of these. */
    template <class... Spelling> bool is(size_t i, Spelling... spelling) const
    {
        return i < t.size() && t[i].kind != literal && ((t[i].spelling == spelling) || ...);
    }

    void replace(size_t i, const string &spelling)
    {
        t[i].spelling = spelling;
        t[i].kind = literal; /* and as it shall be */
    }

    /* Removes tokens but leaves the line breaks between them. */
    void erase(size_t from, size_t to)
    {
        for (size_t i = from; i < to; i++)
            replace(i, "");
    }

    /* Returns the tokens [from, to) with a blank where there was some space. */
    string spelled(size_t from, size_t to) const
    {
        string out;
        for (size_t i = from; i < to; i++)
            out += (i == from || t[i].lead.empty() ? "" : " ") + t[i].spelling;
        return out;
    }

    /* Returns the bracket that closes the one at `open`; t.size() when none does. */
    size_t closing(size_t open) const
    {
        int level = 0;
        for (size_t i = open; i < t.size(); i++) {
            level += is(i, "(", "[", "{") - is(i, ")", "]", "}");
            if (level == 0)
                return i;
        }
        return t.size();
    }

    /* Returns the bracket that the one at `close` closes; 0 when there is none. */
    size_t opening(size_t close) const
    {
        int level = 0;
        for (size_t i = close; i > 0 && !is(i, ";", "{"); i--) {
            if (!is(close, ">", ">>>"))
                level += is(i, ")", "]") - is(i, "(", "[");
            else if (is(i, ")", "]")) /* inside, < and > are what they like */
                i = opening(i);
            else
                level += is(i, ">>>") ? 3 : is(i, ">") - is(i, "<");
            if (level == 0)
                return i;
        }
        return 0;
    }

    void translate_punctuation(size_t i)
    {
        if (is(i, "<<<", "<<")) {
            translate_launch(i);
        } else if (is(i, "{")) {
            if (device_heading && !host_heading && device_depth < 0)
                device_depth = depth;
            if (!launch_bounds.empty())
                t[i + 1].lead.insert(0, " simt_launch_bounds(" + launch_bounds + ");");
            if (depth == namespaces && statement_has(i, "namespace", "extern") && !is(i - 1, ")"))
                namespaces++;
            depth++;
        } else if (is(i, "}")) {
            namespaces = std::min(namespaces, --depth);
            if (depth == device_depth)
                device_depth = -1;
        }
        if (is(i, "{", "}", ";")) {
            device_heading = host_heading = false;
            launch_bounds.clear();
        }
    }

    /* Returns whether one of the words stands before the token in its statement. */
    template <class... Word> bool statement_has(size_t i, Word... words) const
    {
        while (--i > 0 && !is(i, ";", "{", "}"))
            if (is(i, words...))
                return true;
        return false;
    }

    /* Returns what a variable's __device__, __constant__ or __managed__ at `i` becomes. */
    string linkage(size_t i) const
    {
        size_t end = i;
        while (!is(end, ";", "=", "{", "(") && end < t.size()) {
            if (end > i && is(end, "__device__", "__constant__", "__managed__"))
                return ""; /* that one says it */
            end = is(end + 1, "(") && is(end, "alignas", "__attribute__") ? closing(end + 1) + 1
                                                                          : end + 1;
        }
        const bool own =
            !relocatable && depth == namespaces && !is(end, "(") && end < t.size() &&
            !statement_has(end, "extern", "static", "inline", "template", "operator") &&
            !(is(end, "{") && statement_has(end, "struct", "class", "union"));
        return own ? "static __attribute__((unused))" : "";
    }

    /* Returns "A,B,N" for the parameters between the parentheses; "" where one has no name. */
    string parameter_names(size_t open) const
    {
        string list, name;
        bool named = false; /* what follows = or [ is no name */
        const size_t end = closing(open);
        for (size_t i = open + 1; i <= end && i < t.size(); i++) {
            if (is(i, ",") || i == end) {
                if (name.empty())
                    return "";
                list += (list.empty() ? "" : ",") + name;
                name.clear();
                named = false;
            } else if (is(i, "=")) {
                named = true;
            } else if (is(i, "(", "[", "{")) {
                i = closing(i);
                named = true;
            } else if (is(i, "<")) { /* template arguments; a comma there is not ours */
                for (int level = 1; level > 0 && ++i < end;)
                    level += is(i, "<") - is(i, ">") - 3 * is(i, ">>>");
            } else if (t[i].kind == word && !named) {
                name = t[i].spelling;
            }
        }
        return list;
    }

    /* A kernel's heading begins at `i`. One of the names before a parenthesis, or alone in a pair
     * of them, is the kernel's. */
    void note_kernel(size_t i)
    {
        for (bool seen = false; i < t.size() && !is(i, ";", "}") && !(seen && is(i, "{")); i++)
            if (is(i, "(", "{")) {
                seen = seen || is(i, "(");
                kernels.insert({t[i - 1].spelling, t[i + 1].spelling});
                if (t[i - 1].kind == word && is(closing(i) + 1, "{", ";"))
                    headings.insert(i - 1);
                i = closing(i);
            }
    }

    /* A kernel's heading begins at `i`: if its body follows, reports can name its parameters. */
    void note_parameters(size_t i)
    {
        for (; i < t.size() && !is(i, ";", "{", "}"); i++) {
            if (!is(i, "("))
                continue;
            const size_t end = closing(i);
            if (t[i - 1].kind == word && is(end + 1, "{") && end > i + 1) {
                const string list = parameter_names(i);
                if (!list.empty())
                    names += " simt_name_parameters(" + quoted(t[i - 1].spelling) + ", " +
                             quoted(list) + ");";
                return;
            }
            i = end;
        }
    }

    /* Returns the parenthesis that the one at `close` closes, with whatever between them. */
    size_t parenthesis(size_t close) const
    {
        for (int level = 0; close > 1; close--)
            if ((level += is(close, ")") - is(close, "(")) == 0)
                break;
        return close;
    }

    /* Returns whether a statement begins at a token, as far as that can be told. */
    bool begins_statement(size_t i) const
    {
        size_t before = i - 2; /* a label's colon */
        while (is(i - 1, ":") && !is(before, ";", "{", "}", ":", "?"))
            before--;
        return is(i - 1, ";", "{", "}", "else", "do") ||
               (is(i - 1, ":") && is(before + 1, "case", "default")) ||
               (is(i - 1, ")") && is(parenthesis(i - 1) - 1, "if", "for", "while", "constexpr"));
    }

    /* One of CUDA's functions is called. In a statement, nobody looks at what it returns. */
    void translate_call(size_t i)
    {
        /* With (void *)kernel as the first argument, the cast would hide the parameters' types. */
        const size_t type = is(i + 3, "const") ? i + 4 : i + 3, end = closing(i + 1);
        if (is(i, "cudaLaunchKernel", "cudaLaunchCooperativeKernel") && is(i + 2, "(") &&
            is(type, "void") && is(type + 1, "*") && is(type + 2, ")"))
            erase(i + 2, type + 3);
        if (device_depth >= 0 || depth == 0 || !is(end + 1, ";") || !begins_statement(i))
            return;
        replace(i, "simt::not_looked_at(" + quoted(t[i].spelling) + "), " + restart(i) +
                       t[i].spelling);
    }

    /* The statement is a call of a kernel, without <<<>>>, whose name ends at `name`. */
    void refuse_plain_call(size_t name)
    {
        size_t begin = name, open = name + 1;
        while (is(begin - 1, "::") && t[begin - 2].kind == word)
            begin -= 2;
        for (int level = 0; is(name + 1, "<") && open < t.size() && !is(open, ";");)
            if (level += is(open, "<") - is(open, ">"); open++, level == 0)
                break;
        const string kernel = t[name].spelling;
        if (!is(open, "(") || !is(closing(open) + 1, ";") || !begins_statement(begin))
            return;
        const string place = restart(begin);
        erase(begin, closing(open) + 1);
        replace(begin, "static_assert(" + place +
                           "false, \"a __global__ function call must be configured: " + kernel +
                           "<<<grid, block>>>(...)\")");
    }

    /* Returns whether a function within main() has a token. */
    bool in_inner_function(size_t i) const
    {
        for (int level = 0, around = depth; around > 0; i--) {
            level += is(i, "}") - is(i, "{");
            if (level >= 0)
                continue;
            size_t before = i - 1; /* what may stand behind the parameters */
            while (t[before].kind == word || is(before, "->", "*", "&", "::"))
                before--;
            if (is(before, "]") ||
                (is(before, ")") && !is(parenthesis(before) - 1, "if", "for", "while", "switch",
                                        "catch", "constexpr", "main")))
                return true;
            level = 0;
            around--;
        }
        return false;
    }

    void translate_word(size_t i)
    {
        if (is(i, "__constant__", "__managed__")) {
            replace(i, linkage(i));
        } else if (is(i, "__device__") && !linkage(i).empty()) {
            replace(i, linkage(i));
        } else if (is(i, "__global__", "__device__", "__host__")) {
            (is(i, "__host__") ? host_heading : device_heading) = true;
            if (is(i, "__global__"))
                note_parameters(i + 1);
            replace(i, flat && !is(i, "__host__") ? "__attribute__((flatten))"
                                                  : string(t[i].spelling.size(), ' '));
        } else if (is(i, "__launch_bounds__") && is(i + 1, "(")) {
            launch_bounds = spelled(i + 2, closing(i + 1));
            erase(i, closing(i + 1) + 1);
        } else if (device_depth >= 0 && is(i, "clock", "malloc", "free") && !is(i - 1, ".", "->") &&
                   is(i + 1, "(")) {
            if (is(i - 1, "::") && is(i - 2, "std"))
                erase(i - 2, i);
            replace(i, "simt_device_" + t[i].spelling);
        } else if (device_depth >= 0 && is(i, "new") && !is(i + 1, "(") && !is(i - 1, "operator")) {
            replace(i, "new (simt::device_heap)");
        } else if (is(i, "__shared__")) {
            translate_shared(i);
        } else if (is(i, "asm", "__asm__", "__asm") && device_depth >= 0) {
            const size_t open = is(i + 1, "volatile") || is(i + 1, "__volatile__") ? i + 2 : i + 1;
            /* This is no instruction: it only restrains the compiler. */
            if (t[open + 1].spelling == "\"\"")
                return;
            erase(i, closing(open) + 1);
            replace(i, "static_assert(false, \"inline PTX assembly is not supported by the CPU "
                       "backend (simt)\")");
        } else if (is(i, "__noinline__") && !is(i - 1, "(")) {
            /* As a macro it would break the C++ library's own use. */
            replace(i, flat ? "" : "__attribute__((__noinline__))");
        } else if (is(i, "main") && depth == 0 && is(i - 1, "int") && is(i + 1, "(")) {
            main_end = closing(closing(i + 1) + 1);
        } else if (is(i, "return") && is(i + 1, ";") && i < main_end && !in_inner_function(i)) {
            t[i].spelling += " 0"; /* nvcc warns */
        } else if (only_kernels.count(t[i].spelling) && depth > 0 && !headings.count(i)) {
            refuse_plain_call(i);
        } else if (t[i].spelling.compare(0, 4, "cuda") == 0 && is(i + 1, "(")) {
            translate_call(i);
        }
    }

    /* Returns where the kernel expression that ends before token `end` begins: name, ns::name,
     * name<arguments>, table[i].run, (*kernel). */
    size_t kernel_begin(size_t end) const
    {
        for (size_t i = end - 1;; i -= 2) {
            while (is(i, ">", ">>>", "]", ")")) {
                i = opening(i);
                if (i == 0 || (is(i, "(") && t[i - 1].kind != word && !is(i - 1, ">")))
                    return i == 0 ? end : i;
                i--;
            }
            if (t[i].kind != word)
                return end;
            if (is(i - 1, "::") && t[i - 2].kind != word && !is(i - 2, ">"))
                return i - 1; /* ::name */
            if (!is(i - 1, "::", ".", "->"))
                return i;
        }
    }

    static string quoted(const string &plain)
    {
        string out = "\"";
        for (char c : plain)
            out += c == '"' || c == '\\' ? string("\\") + c : string(1, c);
        return out + "\"";
    }

    /* Returns what makes a token appear at its place in the author's file. */
    string restart(size_t i) const
    {
        const size_t marker = t[i].marker, first = text.find('\n', marker) + 1;
        const size_t name = text.find('"', marker), begin = text.rfind('\n', t[i].at - 1) + 1;
        const long line =
            stol(text.substr(marker + 2)) + std::count(&text[first], &text[begin], '\n');
        return "\n# " + std::to_string(line) + " " +
               text.substr(name, text.rfind('"', first) + 1 - name) + "\n" +
               string(t[i].at - begin, ' ');
    }

    /* Some editors write << < and >> >, which can mean nothing else. */
    void translate_launch(size_t open)
    {
        const bool spaced = is(open, "<<");
        const size_t begin = kernel_begin(open), first = open + (spaced ? 2 : 1);
        size_t close = first, last = close;
        if (begin == open || (spaced && !is(open + 1, "<")))
            return;
        for (;; close++) {
            if (close >= t.size() || is(close, ";"))
                return; /* no launch, or one that g++ will complain about */
            if (is(close, "(", "[", "{"))
                close = closing(close);
            last = is(close, ">>>") ? close : close + 2;
            if ((is(close, ">>>") || (is(close, ">") && is(close + 1, ">") && is(last, ">"))) &&
                is(last + 1, "("))
                break;
        }
        size_t name = begin; /* the last of ns::name, before template arguments */
        while (is(name, "::") || is(name + 1, "::"))
            name++;
        const string plain = spelled(begin, open), place = restart(begin), kernel = place + plain;
        string label = quoted(plain);
        if (!kernels.count(t[name].spelling))
            label = "[&] { static_assert(" + place + "simt::simt_may_be_launched<decltype(" +
                    kernel + ")>, \"only a __global__ function can be launched\"); return " +
                    label + "; }()";
        erase(begin, first);
        replace(begin, device_depth >= 0
                           ? "simt::simt_kernel_in_device_code("
                           : "simt::simt_kernel(" + label +
                                 ", [&](auto simt_take) -> decltype(simt_take(" + kernel +
                                 ")) { return simt_take(" + kernel +
                                 "); }, [&](auto... simt_arguments) -> decltype(auto) { return " +
                                 kernel + "(simt_arguments...); }" + (first == close ? "" : ", "));
        t[first].lead = restart(first);
        erase(close, last);
        replace(last, ")");
    }

    /* `static` and `extern` may stand on either side, and `extern` before the type. */
    void translate_shared(size_t i)
    {
        size_t begin = is(i + 1, "extern") ? i + 1 : i - 1;
        while (t[begin].kind == word && !is(begin, "extern"))
            begin--;
        if (is(begin, "extern"))
            return translate_dynamic_shared(begin, i);
        for (size_t side : {i - 1, i + 1})
            if (is(side, "static"))
                replace(side, "");
        if (is(i + 1, "alignas")) {
            replace(closing(i + 2), ")))");
            replace(i + 1, "__attribute__((aligned");
        }
        replace(i, storage);
    }

    /* Rewrites from extern to [] or ;, with __shared__ at `shared`. */
    void translate_dynamic_shared(size_t begin, size_t shared)
    {
        size_t bracket = begin, end = begin;
        while (end < t.size() && !is(end, ";"))
            end++;
        while (bracket < end && !is(bracket, "["))
            bracket++;
        if (end == t.size() || bracket == end || !is(bracket + 1, "]"))
            return replace(begin,
                           "static_assert(false, \"expected extern __shared__ TYPE name[];\");");
        replace(begin, "");
        replace(shared, "");
        string alignment = "16";
        for (size_t i = begin; i < bracket; i++)
            if (is(i, "alignas", "__attribute__")) {
                const size_t open = is(i, "alignas") ? i + 1 : i + 4; /* __attribute__((aligned( */
                if (is(open, "("))
                    alignment = spelled(open + 1, closing(open));
                erase(i, closing(i + 1) + 1);
            }
        const string type = spelled(begin, bracket - 1), name = t[bracket - 1].spelling;
        const string dimensions = spelled(bracket + 2, end); /* of name[][N]: the N */
        erase(begin, end);
        if (device_depth < 0)
            /* Outside functions this is no pointer, which would be set once, not once per worker.
             */
            replace(begin, "extern __thread " + type + " " + name + "[]" + dimensions +
                               " __asm__(\"simt_dynamic_shared\")");
        else
            replace(begin, "simt::pointer_to<" + type + dimensions + "> const " + name +
                               " = simt::dynamic_shared<" + type + dimensions + ", (" + alignment +
                               ")>()");
    }
};

} /* namespace */

/* Writes what was read, for programs that judge it: they need no reader of their own. */
static bool write_tokens(const string &path, const Lexer &lexer, const std::vector<Token> &tokens)
{
    std::ofstream out(path);
    auto directive = lexer.directives.begin();
    for (const Token &token : tokens) {
        for (; directive != lexer.directives.end() && directive->first < token.at; directive++)
            out << directive->second << '\n';
        if (token.kind == literal)
            out << (isdigit(uint8_t(token.spelling[0])) || token.spelling[0] == '.' ? "0" : "\"\"")
                << '\n';
        else if (token.kind != blank)
            out << token.spelling << '\n';
    }
    return bool(out.flush());
}

int main(int argc, char **argv)
{
    std::vector<string> arguments(argv + 1, argv + argc);
    const auto has = [&](const char *option) {
        const auto at = std::find(arguments.begin(), arguments.end(), option);
        const bool there = at != arguments.end();
        if (there)
            arguments.erase(at);
        return there;
    };
    const bool flat = has("--flat"), relocatable = has("--relocatable");
    if (arguments.empty() || arguments.size() > 2) {
        std::cerr
            << "usage: simt-translate STORAGE [--flat] [--relocatable] [TOKENS] < PREPROCESSED > "
               "REWRITTEN\n";
        return 2;
    }
    std::ios::sync_with_stdio(false);
    Lexer lexer{{std::istreambuf_iterator<char>(std::cin), {}}};
    const std::vector<Token> tokens = lexer.all();
    if (arguments.size() == 2 && !write_tokens(arguments[1], lexer, tokens))
        return 1;
    std::cout << Translator{arguments[0], flat, relocatable, lexer.s, tokens}.run();
    return std::cout.flush() ? 0 : 1;
}
