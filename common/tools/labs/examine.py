"""What a submission's file may hold: four readings of what the compiler made of it, each of which refuses by itself.

- `tokens`: the translator's tokens of the submission's own files, behind the preprocessor. What is forbidden there is told in the
  student's words.
- `assembly`: what the compiler hands to the assembler. Assembly of a submission's own is seen here whatever its source looks like,
  and so is which functions kernels reach.
- `calls`: GCC's own statements (-fdump-tree-optimized-raw) of the checked build. What reads or writes memory unwatched is seen here.
- `symbols`: the object file.

Text is written by a submission, but none of these texts: they are the compiler's. It leaves nothing of directives that number
lines, so these are looked for in the files themselves.
"""
import collections
import os
import pathlib
import re
import subprocess

# A file may have this many bytes of each: a kernel has only the memory that it is given. A kernel has at most 48 KiB of shared
# variables; there may be several kernels, and templates.
GLOBAL_VARIABLES, SHARED_VARIABLES = 16 << 10, 512 << 10


class Refused(Exception):
    """The submission does what a kernel has no business doing."""


# ----------------------------------------------------------------------------------------------------------------------
# Lists

# Kernels may call these, beside ptx.cuh's and the CPU backend's DEVICE: they touch no memory but their arguments, which are numbers.
MATHEMATICS = {name + kind for kind in ("", "f") for name in """
    exp exp2 exp10 expm1 log log2 log10 log1p pow sqrt rsqrt cbrt fabs fmax fmin fmod fma floor ceil round rint
    nearbyint trunc tanh erf ldexp scalbn sin cos tan asin acos atan atan2 sinh cosh hypot copysign isnan isinf
    acosh asinh atanh nextafter fmod j0 j1 y0 y1 lround lrint llround llrint remainder logb ilogb fdim erfc tgamma lgamma""".split()}
# What is printed goes nowhere (see deferred_launches_cpu.cpp). simt_mem* and the atomic functions are watched.
DEVICE = MATHEMATICS | set("""
    threadIdx blockIdx blockDim gridDim _GLOBAL_OFFSET_TABLE_ __dso_handle __tls_get_addr __stack_chk_fail
    __gxx_personality_v0 _Unwind_Resume __cxa_guard_acquire __cxa_guard_release __cxa_guard_abort __cxa_pure_virtual
    __cxa_throw_bad_array_new_length __assert_fail _ZdlPv _ZdlPvm _ZSt9terminatev __cxa_begin_catch __cxa_end_catch abort
    memcpy memset memmove simt_memcpy simt_memset simt_memmove simt_dynamic_shared printf puts putchar
    simt_activemask simt_aligned_dynamic_shared simt_atomic simt_atomic_update simt_barrier_arrive simt_barrier_drop
    simt_barrier_init simt_barrier_wait simt_clock simt_fail simt_grid_sync simt_is_cooperative simt_is_local
    simt_is_shared simt_lane simt_launch_bounds simt_match simt_meet simt_reduce simt_shared_address simt_shared_pointer
    simt_shuffle simt_syncthreads simt_syncthreads_reduce simt_syncwarp simt_thread_number simt_threadfence simt_vote
    simt_yield backend_architecture""".split())
DEVICE_PLAIN = re.compile(r"(ptx::\w+|simt::(multiply_fragments|wmma_move))\(")  # demangled
# Launchers may call these, too: no copies, no symbols, no memory of the device, no waiting, no other streams, no files.
HOST = set("""
    simt_run simt_guard simt_not_looked_at simt_name_parameters _ZSt21ios_base_library_initv __cxa_atexit __cxa_throw __cxa_allocate_exception __cxa_free_exception __cxa_rethrow
    __cxa_get_exception_ptr _Znwm _Znam _ZdaPv _ZdaPvm _ZnwmSt11align_val_t _ZdlPvSt11align_val_t _ZdlPvmSt11align_val_t
    __libc_single_threaded
    malloc calloc realloc free abs labs strlen strcmp strncmp memcmp memchr strchr snprintf fprintf fputs fputc fwrite fflush
    stdout stderr cudaGetLastError cudaPeekAtLastError cudaGetErrorString cudaGetErrorName cudaFuncSetAttribute
    cudaFuncSetCacheConfig cudaFuncGetAttributes cudaGetDevice cudaDeviceGetAttribute cudaMemsetAsync cudaLaunchKernel
    cudaLaunchKernelExC cudaLaunchCooperativeKernel cudaOccupancyMaxActiveBlocksPerMultiprocessor
    cudaOccupancyMaxPotentialBlockSize attention_query_rows attention_backward_query_rows attention_backward_key_rows
    matmul_whole_tiles_cost matmul_tiles_cost launch_begins
    launch_ends refusal refusal_clear refuse require_blocks require_device require_disjoint require_pointer require_shared
    require_size tensor_map_of_halves""".split())
# Of the C++ library, demangled, what a launcher may use and what its headers bring along. Nothing starts a thread, opens a file,
# or reads what comes in.
LIBRARY = re.compile(r"""((vtable|VTT|typeinfo|typeinfo\ name)\ for\ )?
    (std::(exception|bad_alloc|bad_cast|bad_array_new_length|bad_function_call|logic_error|runtime_error|invalid_argument|
           out_of_range|length_error|domain_error|range_error|overflow_error|underflow_error|locale|ios_base)\b|std::ctype<char>::|
     __cxxabiv1::|
     std::(__throw_\w+|_Hash_bytes|_Rb_tree_\w+|__detail::_\w+|terminate|uncaught_exceptions?|__cxx11::to_string|__ostream_insert|
           cout|cerr|clog|nothrow|use_facet|has_facet)\b|
     (std::\S+&\ )?std::(endl|flush|operator<<|__ostream_insert|__ostream_fill|__ostream_write)\b.*basic_ostream|
     std::__cxx11::basic_string<char|std::basic_(ostream|ios|streambuf)<char|
     std::__cxx11::(basic_(ostringstream|stringbuf|stringstream)<char)|
     std::(ostream|basic_ostream)::|operator\ (new|delete)|typeinfo\ (name\ )?for\ [a-z\ ]+\*?$)""", re.X)
LIBRARY_NOT = re.compile(r"basic_streambuf.*::(pubsetbuf|setbuf)|ios_base::sync_with_stdio")
# The address of nothing else outside may be taken: a pointer to a function is called where nobody sees by whom.
ADDRESSES = re.compile(r"__gxx_personality_v0|_GLOBAL_OFFSET_TABLE_|__dso_handle|_ZNSt8ios_base4InitD1Ev|_ZT[VITS]\w+|stdout|stderr|"
                       r"__libc_single_threaded|_ZSt4c(out|err|log)|_ZSt7nothrow")
# Code that a table of functions leads to may be a launcher's, too: a kernel that calls these fails or gets nothing from them.
GUARDED = set("""simt_run simt_guard simt_not_looked_at cudaMemsetAsync cudaGetLastError cudaPeekAtLastError cudaFuncSetAttribute cudaFuncSetCacheConfig cudaGetDevice
    cudaLaunchKernel cudaLaunchKernelExC cudaLaunchCooperativeKernel cudaOccupancyMaxActiveBlocksPerMultiprocessor
    attention_query_rows attention_backward_query_rows attention_backward_key_rows
    matmul_whole_tiles_cost matmul_tiles_cost refuse launch_begins launch_ends require_blocks require_device require_disjoint require_pointer require_shared require_size""".split())
PREFIXES = ("__tsan_", "__ubsan_handle_", "_ZTVN10__cxxabiv1")
# nvcc's objects also ask for these.
ON_A_GPU = set("""
    __cudaRegisterFatBinary __cudaRegisterFatBinaryEnd __cudaUnregisterFatBinary __cudaRegisterFunction
    __cudaRegisterVar __cudaPushCallConfiguration __cudaPopCallConfiguration __cudaInitModule
    __cudaLaunchKernel __cudaGetKernel atexit""".split())

ATTRIBUTES = set("""
    aligned packed unused maybe_unused noinline always_inline const pure hot cold may_alias fallthrough nodiscard
    warn_unused_result flatten nothrow leaf noreturn deprecated unavailable used visibility externally_visible malloc
    alloc_size nonnull returns_nonnull format likely unlikely noclone no_unique_address carries_dependency
    access alloc_align format_arg sentinel transparent_union gnu_inline artificial""".split())
# GCC adds these to functions by itself.
IMPLIED = ATTRIBUTES | set("omp declare fn spec no_sanitize type generic abi_tag constructor transaction_pure".split())
BUILTINS = re.compile(r"""__builtin_(assume|assume_aligned|expect|expect_with_probability|unreachable|trap|huge_vall?|huge_valf|inff?|nanf?|
    (popcount|clz|ctz|ffs|parity|clrsb)l{0,2}|bswap(16|32|64)|(sqrt|fabs|fmax|fmin|fma|exp2?|log2?|floor|ceil|round|trunc|copysign)f?|
    isnan|isinf\w*|isfinite|signbit\w*|bit_cast|addressof|launder|offsetof|mem(cpy|set|move)|prefetch|(add|sub|mul)_overflow|va_\w+|FILE|LINE|
    FUNCTION|abs|labs|is_constant_evaluated|powif?|types_compatible_p|choose_expr|shuffle\w*|convertvector)""", re.X)
WORDS = re.compile(r"""(?<!\S)(?:(?P<asm>asm|__asm(?:__)?)|(?P<attribute>__attribute(?:__)?)|
    (?P<brackets>(?:\[|<[ ]:)[ ](?:\[|<[ ]:))|
    (?P<builtin>__builtin_\w+|__seg_\w+|__transaction\w*|thread_local|_Thread_local|__thread|__(?:sync|atomic)_\w*fetch\w*_16)|
    (?P<inside>(?:simt|__simt|__tsan|__ubsan|__asan|__real_|__wrap_|_GLOBAL__)(?:_\w*)?|\w*__tsan\w*|\w*__ubsan\w*)|
    (?P<directive>\#[^\n]*))(?!\S)""", re.X)
PRAGMAS = re.compile(r"#\s*pragma\s+(unroll\b.*|once|nv_\w+.*|(end)?region.*|GCC\s+(unroll|ivdep|diagnostic)\b.*|"
                     r"GCC\s+visibility\s+(push\s*\(\s*default\s*\)|pop)|STDC\b.*|message\b.*)\s*$")


# ----------------------------------------------------------------------------------------------------------------------
# Tokens

MARKER = re.compile(r'^# \d+ "((?:[^"\\]|\\.)*)"((?: [1-4])*)$', re.M)


def own_tokens(name, text, headers, folders, own):
    """
    Returns the tokens of files below the folder `own`, separated by blanks, directives on lines of their own. `headers` is what
    g++ -H says was included: a line marker of the submission's own may not seem to be the beginning of another file.
    """
    included = collections.Counter(re.findall(r"^\.+ (.*)$", headers, re.M))
    included["/usr/include/stdc-predef.h"] += 1  # the compiler's own, before everything else
    roots = (*(f"{folder}/" for folder in folders), "/usr/include/", "/usr/lib/", "/usr/local/include/")
    stack, out = [name], []
    for line in text.splitlines():
        marker = MARKER.fullmatch(line)
        if not marker:
            if (stack[-1] + "/").startswith(f"{own}/") or not stack[-1].startswith("/"):
                out.append(line if not line.startswith("#") else f"\n{line}\n")
            continue
        path, flags = marker[1].replace("\\\\", "\\"), marker[2]
        if "2" in flags and "3" in flags and os.path.normpath(path).startswith(f"{own}/"):
            raise Refused(f"{name} calls itself a header of the system")
        if "1" in flags:
            included[path] -= 1
            if included[path] < 0 and path.startswith("/"):
                raise Refused(f"{name} says that lines of its own are {path[:100]}")
            if path.startswith("/") and not (os.path.normpath(path) + "/").startswith(roots):
                raise Refused(f"{name} includes {path[:100]}, which is no part of the project")
            if path.endswith((".c", ".cu", ".cpp")) and not os.path.normpath(path).endswith("/" + name):
                raise Refused(f"{name} includes {os.path.basename(path)[:100]}, which is compiled by itself; what files share goes into a header")
            stack.append(path if path.startswith("/") else name)
        elif "2" in flags:
            if len(stack) < 2:
                raise Refused(f"{name} has line markers of its own")
            stack.pop()
    return " ".join(out)


# #line 12, # 12 "file" and what may become one. Comments and strings are not told apart: whoever reads them otherwise than the
# compiler misses one. Before this, lines that are continued are put together.
BLANK = r"[ \t\f\v\r\0]*"
CONTINUED = re.compile(rf"\\{BLANK}\n")
PLACE = re.compile(rf"""(?:^|\*/){BLANK}(?:\#|%:){BLANK}(?:line\b|/\*|[\d']+{BLANK}(?:R?"|/[/*]|$))""", re.M)


def examine_places(name, headers, own):
    """Refuses a file below the folder `own`, and those there that it includes, where lines are given other numbers: what is reported
    at a line could then tell a number of the submission's choice."""
    paths = {os.path.normpath(path) for path in re.findall(r"^\.+ (.*)$", headers, re.M)}
    for path in (own / name, *sorted(path for path in paths if path.startswith(f"{own}/"))):
        if PLACE.search(CONTINUED.sub("", pathlib.Path(path).read_text("utf-8-sig", "replace"))):
            raise Refused(f"{os.path.relpath(path, own)} has a directive like #line, or # with a line's number, which a submission may not")


def examine_tokens(name, own):
    """Refuses what blinds the checked build or escapes from C, where it stands in plain sight behind all macros."""
    for found in WORDS.finditer(own):
        if found["asm"]:
            raise Refused(f"{name} uses inline assembly, which a submission may not")
        if found["builtin"] and not BUILTINS.fullmatch(found["builtin"]):
            raise Refused(f"{name} uses {found['builtin'][:60]}, which CUDA does not have")
        if found["inside"]:
            raise Refused(f"{name} uses {found['inside'][:60]}, which is inside the CPU backend")
        if found["directive"] and not PRAGMAS.fullmatch(found["directive"].rstrip()):
            raise Refused(f"{name} uses {found['directive'][:50]}, which a submission may not")
        if found["attribute"] or found["brackets"]:
            for attribute in attribute_names(own, found.end(), bool(found["attribute"])):
                if attribute.strip("_") not in ATTRIBUTES:
                    raise Refused(f"{name} uses the attribute {attribute[:40]}, which a submission may not")


def attribute_names(source, begin, parenthesised):
    """Returns the attributes' names in `( ( aligned ( 16 ) , unused ) ) int x` or `gnu :: unused , nodiscard ] ] int x` behind
    `begin`."""
    while source[begin:begin + 1].isspace():
        begin += 1
    depth, end = 0, begin
    while end < len(source):
        depth += (source[end] in "([{") - (source[end] in ")]}")
        if depth < (1 if parenthesised else 0):
            break
        end += 1
    if parenthesised and end == begin:
        return [source[begin:begin + 40]]
    text = source[begin:end].lstrip("( \n\t") if parenthesised else source[begin:end]
    while re.search(r"\([^()]*\)", text):
        text = re.sub(r"\([^()]*\)", "", text)
    text = re.sub(r"^\s*using\s+\w+\s*:", "", text)
    return [name.split("::")[-1].strip() for name in re.split(r"[,()]", text) if name.strip()]


# ----------------------------------------------------------------------------------------------------------------------
# Assembly

# The compiler's directives. Any other was brought by a name or a section of the submission's.
DIRECTIVES = set("""
    align ascii base64 bss byte cfi_def_cfa cfi_def_cfa_offset cfi_def_cfa_register cfi_endproc cfi_escape cfi_lsda cfi_offset
    cfi_personality cfi_restore cfi_restore_state cfi_remember_state cfi_startproc cfi_sections cfi_undefined cfi_window_save
    cfi_negate_ra_state cfi_val_offset cfi_adjust_cfa_offset comm data file globl global hidden ident 2byte 4byte 8byte hword
    internal loc local long octa p2align quad section set size sleb128 string text type uleb128 value weak word xword zero arch cpu
    arch_extension tlsdesccall protected short""".split())
SECTIONS = re.compile(r"\.(text|data|bss|tbss|tdata|rodata|init_array|fini_array|debug|gcc_except_table|note\.GNU-stack|note\.gnu\.property|"
                      r"eh_frame|comment|gnu\.linkonce)[\w.$,@%\"\- ]*$")
LIBRARY_INIT = re.compile(r"^#APP\n(?:#.*\n)*\t\.globl _ZSt21ios_base_library_initv\n(?:#.*\n)*#NO_APP\n", re.M)  # GCC 13's <iostream>
SYSTEM = re.compile(r"(syscall|sysenter|sysret\w*|int\d?|into|iret\w*|in[bwl]?|out[bwl]?|svc|hvc|smc|hlt|rd(fs|gs)base|wr(fs|gs)base|"
                    r"v?movnt\w*|v?maskmov\w*|v?gather\w*|v?scatter\w*|rep\w*|lods\w?|stos\w?|movs[bwlq]|cmps[bwlq]|scas\w?|xsave\w*|"
                    r"fxsave\w*|xrstor\w*|fxrstor\w*|clflush\w*|lar|lsl|str|sidt|sgdt|wrpkru|rdpkru|enqcmd|movdir\w*)$")
COPIES = re.compile(r"(rep\w*|lods\w?|stos\w?|movs[bwlq]|cmps[bwlq]|scas\w?|int\d?|str|lsl)$")  # GCC's own copies; arm64's str and lsl
CALLS = re.compile(r"(call\w?|jmp\w?|j\w{1,3}|bl|b|b\.\w+|cbn?z|tbn?z)$")


class Assembly:
    """The functions of an assembly file, and what each mentions: {function: {name: whether only called}}."""

    def __init__(self, name, text):
        self.mentions, self.taken = collections.defaultdict(dict), set()
        text = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)
        text = LIBRARY_INIT.sub("", text)
        if "#APP" in text or ";" in text or re.search(r"\.\s*inc(lude|bin)\b", text):  # a compiler writes one statement on a line
            raise Refused(f"{name} uses inline assembly, which a submission may not")
        functions = set(re.findall(r"^\t\.type\t([^,\s]+), [@%]function$", text, re.M))
        current, section = None, ""
        for line in text.splitlines():
            if not line.startswith(("\t", " ")):
                label = line.partition(":")[0]
                if label in functions:
                    current = label
                continue
            word, operands = [*line.split(None, 1), "", ""][:2]
            if word.startswith("."):
                if word[1:] not in DIRECTIVES:
                    raise Refused(f"{name} has {word[:40]} in its assembly, which no compiler writes")
                if word == ".section" and not SECTIONS.match(operands):
                    raise Refused(f"{name} has a section {operands[:40]}")
                if word in (".section", ".text", ".data", ".bss"):
                    section = operands if word == ".section" else word
                elif word == ".size" and current and operands.startswith(f"{current},"):
                    current = None
                elif word == ".set":
                    self.mentions[operands.partition(",")[0].strip()].update(dict.fromkeys(names_in(operands.partition(",")[2]), True))
                elif word in (".quad", ".long", ".xword", ".word", ".8byte", ".4byte", ".value") and \
                        not section.startswith((".debug", ".init_array", ".eh_frame", ".gcc_except_table")):
                    self.taken |= names_in(operands) & functions
                    for outside in names_in(operands) - functions:
                        self.mentions[""].setdefault(outside, False)
                continue
            if SYSTEM.match(word) and not COPIES.match(word) and ("syscall" not in word or current is not None):
                raise Refused(f"{name} has the instruction {word[:20]}, which CUDA does not have")
            called = bool(CALLS.match(word)) and not operands.startswith("*")
            for other in names_in(operands):
                self.mentions[current][other] = self.mentions[current].get(other, True) and called
                if not called and other in functions:
                    self.taken.add(other)
        self.functions = functions

    def reached(self):
        """Returns functions that kernels may reach: all whose address is taken, and whatever those mention."""
        found, new = set(), set(self.taken)
        while new:
            found |= new
            new = {other for function in new for other in self.mentions[function] if other in self.functions} - found
        return found


def names_in(operands):
    found = re.findall(r"(?<![\w.$%@])(?:[^\W\d]|[.$])[\w.$]*", re.sub(r'"[^"]*"|@[A-Za-z]+\w*', " ", operands))
    return {*found, *(name[1:] for name in found if name.startswith("$"))}  # $name is a number or a name


def on_device(symbol, plain):
    return symbol in DEVICE or symbol.startswith(PREFIXES) or bool(DEVICE_PLAIN.match(plain))


def on_host(symbol, plain):
    return on_device(symbol, plain) or symbol in HOST or bool(LIBRARY.match(plain) and not LIBRARY_NOT.search(plain))


def examine_asked(name, asked, more=frozenset()):
    """Refuses symbols that not even host code may use. Returns {symbol: demangled}."""
    plain = dict(zip(asked, demangled(asked)))
    foreign = [symbol for symbol in asked if symbol not in more and not on_host(symbol, plain[symbol])]
    if foreign:
        raise Refused(f"{name} uses {', '.join(plain[symbol][:70] for symbol in foreign[:5])}, which a kernel may not use")
    return plain


def examine_assembly(name, text, asked, others):
    """
    Refuses what kernels may not call: of the symbols that the object file asks for, functions that kernels can reach may use
    DEVICE, and host code may use HOST, LIBRARY and `others`, functions of the step's other files. Returns the Assembly.
    """
    assembly, plain = Assembly(name, text), {**examine_asked(name, asked), **{symbol: symbol for symbol in others}}
    for function in sorted(assembly.reached()):
        foreign = [symbol for symbol in assembly.mentions[function] if symbol in plain and not on_device(symbol, plain[symbol]) and
                   symbol not in GUARDED]
        if foreign:
            raise Refused(f"{name} uses {', '.join(plain[symbol][:70] for symbol in sorted(foreign)[:5])} in {demangled([function])[0][:60]}(), "
                          "which a kernel may not use")
    for mentioned in assembly.mentions.values():
        for symbol, called in mentioned.items():
            if symbol in plain and not called and not on_device(symbol, plain[symbol]) and not ADDRESSES.fullmatch(symbol):
                raise Refused(f"{name} takes the address of {plain[symbol][:70]}")
    return assembly


def demangled(symbols):
    done = subprocess.run(["c++filt"], input="\n".join(symbols), stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


# ----------------------------------------------------------------------------------------------------------------------
# GCC's statements

INVOKE = re.compile(r"simt::Invocation<std::integer_sequence<long unsigned int[^\n<>]*>, [^\n]*>::invoke "
                    r"\(_ZN4simt10InvocationISt16integer_sequenceImJ(?:Lm\d+E)*EE")
# GCC puts these in place of a call. Nothing watches what they read and write.
UNWATCHED = re.compile(r"__builtin_(_*mem|_*str|stp|b(copy|cmp|zero)|r?index|ia32)\w*|"
                       r"(memcmp|memchr|mempcpy|strn?len|strn?cmp|strn?cpy|stpn?cpy|strn?cat|strr?chr|bcmp|bcopy|bzero|r?index)")
WATCHES = re.compile(r"__builtin_(__(tsan|ubsan)_\w+|unreachable|trap|eh_\w+|unwind_resume|stack_\w+|alloca\w*)|\.\w+")
UNIQUE = re.compile(r"D\.\d+")  # behind the name of each variable and function (-uid); no other name ends so
CONSTANT = re.compile(r"""[-+]?[\d.]\S*|[-+]?(Inf|[QS]?Nan|NULL|true|false)|&.*|".*"|'.*'""", re.S)
VALUE = re.compile(r"[^\s,()<>&*\[\]]*_\d+(\(D\))?")  # of GCC's own, in a register


class NotWatched(Refused):
    """A call hands memory over by value. Where the function is put in its callers' place nothing is handed over."""


def examine_calls(name, dump, assembly):
    """Refuses functions that are compiled without watching, assembly, and calls in code that kernels reach that are handed memory
    itself instead of a pointer or a value."""
    reached, functions = assembly.reached(), {f"D.{uid}" for uid in re.findall(r", decl_uid=(\d+), cgraph_uid", dump)}
    for function in ("\n" + dump).split("\n;; Function ")[1:]:
        head, _, body = function.partition("\n  <bb ")
        title, _, declarations = head.partition("\n")
        plain = re.sub(r" \(\S+, funcdef_no.*", "", title)[:80]
        symbol = (re.search(r" \((\S+), funcdef_no", title) or [None, ""])[1]
        launched = bool(INVOKE.match(title))
        for attributes in re.findall(r"^__attribute__\(\((.*)\)\)$", declarations, re.M):
            names = {word.strip("_") for word in re.findall(r"[A-Za-z_]\w*", re.sub(r'"(?:[^"\\]|\\.)*"|\((?:[^()]|\([^()]*\))*\)', "", attributes))}
            if names - IMPLIED or ("no_sanitize" in names and not launched):
                raise Refused(f"{name}: {plain}() has the attribute {', '.join(sorted(names - ATTRIBUTES))[:60]}: the checked build cannot watch it")
        if "\n  gimple_asm" in body:
            raise Refused(f"{name} uses inline assembly, which a submission may not")
        if symbol in assembly.functions and symbol not in reached:
            continue  # host code, to which device memory is closed
        own = set(UNIQUE.findall(re.sub(r"^  static .*$", "", declarations, flags=re.M))) | functions | {"<retval>"}
        for call in re.findall(r"^  gimple_call <(.*)>(?: \[.*\])*$", body, re.M):
            callee, *operands = split_operands(call)
            callee = UNIQUE.sub("", callee)
            if WATCHES.fullmatch(callee):
                continue
            if launched:
                if not VALUE.fullmatch(callee) and not callee.startswith("operator()"):
                    raise Refused(f"{name}: {callee[:60]}() comes between a launch and its kernel")
                operands = [part for part in operands if not is_argument(part, body)]
            if UNWATCHED.fullmatch(callee) or any(is_memory(value, own) for value in operands):
                raise NotWatched(f"{name}: {plain}() hands memory to {callee[:80]}() where the checked build cannot watch it: copy it to "
                                 "a variable first, or pass a pointer")
        if launched:
            for statement in re.findall(r"^  gimple_assign <(.*)>$", body, re.M):
                if any(is_memory(value, own) and not is_argument(value, body) for value in split_operands(statement)[1:]):
                    raise Refused(f"{name}: more than its arguments is read between a launch and its kernel")


def is_argument(value, body):
    """Returns whether this is part of what `self` points to in simt::Invocation::invoke(), whose body this is."""
    base = re.search(r"(?:\)|\*|^)([^\s,()<>&*\[\]]*_\d+)(?:\(D\))?(?:->| \+ \d+B)?", value)
    seen = set()
    while base and not base[1].startswith("self_") and base[1] not in seen:
        seen.add(base[1])
        whence = re.search(rf"^  gimple_assign <(?:addr_expr|nop_expr|ssa_name|pointer_plus_expr), {re.escape(base[1])}, (.*)>$", body, re.M)
        base = whence and re.search(r"(?:\)|\*|^&?)([^\s,()<>&*\[\]]*_\d+)(?:\(D\))?", whence[1])
    return bool(base) and base[1].startswith("self_")


def split_operands(call):
    """Splits `merge<int, 4>, D.1, *_4, "a, b"` at the commas outside brackets and strings."""
    parts, depth, last, quoted = [], 0, 0, False
    for at, letter in enumerate(call):
        if letter == '"' and (at == 0 or call[at - 1] != "\\"):
            quoted = not quoted
        elif not quoted:
            depth += (letter in "([{<") - (letter in ")]}") - (letter == ">" and call[at - 1] != "-" and depth > 0)
            if letter == "," and depth == 0 and call[at + 1:at + 2] == " ":
                parts.append(call[last:at].strip())
                last = at + 2
    return parts + [call[last:].strip()]


def is_memory(value, own):
    """Returns whether an operand is memory that kernels share: what a pointer points to, or a variable that is none of the function's
    `own`."""
    if VALUE.fullmatch(value) or CONSTANT.fullmatch(value) or value.startswith("{"):
        return False
    if re.search(r"\*|->|\bMEM\b|\bTARGET_MEM_REF\b", value):
        target = re.search(r"&(?:[^\s,()<>&*\[\]]*?(D\.\d+)|(<retval>))", value)
        return not target or (target[1] or target[2]) not in own
    base = UNIQUE.search(value)  # a name without a number is a constant
    return bool(base) and base[0] not in own


# ----------------------------------------------------------------------------------------------------------------------
# The object file

def examine_variables(size, kind, most):
    if size > most:
        raise Refused(f"{size} bytes of {kind} variables; a kernel's memory is what it is given")
