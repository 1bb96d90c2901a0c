"""
Runs a program that is not trusted: a compiler on a submission's files, or the submission itself.

Bubblewrap gives it namespaces of its own (users, processes, mounts, network, IPC) that hold only what it is told to see;
a filter by libseccomp lets it make the system calls of a list and no others; limits hold for time, memory, processes,
files and output. Where the machine allows no namespaces the filter stays, as root with a user of its own for every
grading and, for submissions, a root directory that holds nothing but the program. `Sandbox.protection` says which.
"""
import ctypes
import ctypes.util
import errno
import fcntl
import os
import pathlib
import resource
import select
import shutil
import signal
import socket
import subprocess
import time

# A program that was started, has threads and allocates memory needs at least these; wait4 is bubblewrap's.
RUN = """execve brk mmap munmap mprotect mremap madvise read readv pread64 write writev pwrite64 lseek close dup dup2 dup3
    openat open fstat stat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat fcntl ftruncate
    arch_prctl set_tid_address set_robust_list rseq prlimit64 getrlimit getrandom sysinfo uname sched_getaffinity
    sched_yield futex clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday rt_sigaction rt_sigprocmask
    rt_sigreturn sigaltstack restart_syscall wait4 getpid gettid getuid geteuid getgid getegid exit exit_group""".split()
# Compilers, a shell and make also need these.
BUILD = RUN + """fork vfork clone clone3 wait4 waitid pipe pipe2 unlink unlinkat rename renameat renameat2 mkdir mkdirat
    rmdir chmod fchmod fchmodat umask utimensat getdents64 getcwd chdir fchdir ioctl poll ppoll select pselect6 kill
    tgkill tkill getppid getpgrp setpgid getpgid getsid flock fadvise64 fallocate copy_file_range sendfile splice
    symlink symlinkat link linkat statfs fstatfs times getrusage alarm setitimer prctl sched_setaffinity sched_getparam
    sched_getscheduler sched_get_priority_max sched_get_priority_min getgroups getresuid getresgid capget ftruncate
    truncate fsync fdatasync membarrier sysfs umask get_mempolicy""".split()
# A GPU's driver also needs these when it starts.
DEVICE = BUILD + """socket bind listen connect socketpair sendmsg recvmsg mknod mlock munlock mincore set_mempolicy mbind
    eventfd2 epoll_create1 epoll_ctl epoll_wait memfd_create shmget shmat shmdt shmctl setrlimit sched_setscheduler
    chown lchown fchown fchownat""".split()
SYSTEM_CALLS = {"run": RUN, "build": BUILD, "device": DEVICE}
CLONE_THREAD, WRITING = 0x10000, os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
ALLOW, REFUSE, NO_SUCH_CALL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
MASKED_EQUAL = 7
FIRST_USER, USERS = 20000, 40000
BUBBLEWRAP = shutil.which("bwrap") or "bwrap"  # as found here: a submission's environment may name no folders


class Unable(Exception):
    """The grader itself, or this machine, cannot do it."""


class Comparison(ctypes.Structure):
    _fields_ = [("argument", ctypes.c_uint), ("operation", ctypes.c_int), ("mask", ctypes.c_uint64),
                ("value", ctypes.c_uint64)]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


def seccomp_library():
    name = ctypes.util.find_library("seccomp") or "libseccomp.so.2"
    try:
        library = ctypes.CDLL(name)
    except OSError:
        return None
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_rule_add_array.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint,
                                               ctypes.POINTER(Comparison)]
    library.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.seccomp_release.argtypes = [ctypes.c_void_p]
    return library


def make_filter(kind):
    """Builds the filter as the kernel wants it: an allow list, with conditions for `run`. Returns None without libseccomp."""
    library = seccomp_library()
    if not library:
        return None
    context = library.seccomp_init(REFUSE)

    def add(action, name, *conditions):
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:  # other architectures lack some calls
            array = (Comparison * len(conditions))(*conditions)
            if library.seccomp_rule_add_array(context, action, number, len(conditions), array) != 0:
                raise Unable(f"libseccomp does not take a rule for {name}")

    # Programs start threads but no processes, and open files only to read them. The flags of clone3 are in memory, where no
    # filter sees them. Without clone3 the C library uses clone.
    conditions = {"clone": Comparison(0, MASKED_EQUAL, CLONE_THREAD, CLONE_THREAD),
                  "openat": Comparison(2, MASKED_EQUAL, WRITING, 0), "open": Comparison(1, MASKED_EQUAL, WRITING, 0)}
    for name in SYSTEM_CALLS[kind]:
        add(ALLOW, name, *([conditions[name]] if kind == "run" and name in conditions else []))
    if kind == "run":
        add(ALLOW, "clone", conditions["clone"])
        add(NO_SUCH_CALL, "clone3")
    descriptor = os.memfd_create("filter")
    try:
        if library.seccomp_export_bpf(context, descriptor) != 0:
            raise Unable("libseccomp makes no filter")
        return os.pread(descriptor, 1 << 20, 0)
    finally:
        os.close(descriptor)
        library.seccomp_release(context)


class Limits:
    """Each process has `seconds` of processor time, `megabytes` of memory, and `file_bytes` per file. All together have `wall`
    seconds by the clock, `processes`, and `output` bytes that are read. Exceeding the latter ends the program."""

    def __init__(self, seconds, wall, megabytes, file_bytes=64 << 20, processes=64, output=1 << 16):
        self.seconds, self.wall, self.megabytes = max(int(seconds), 1), wall, megabytes
        self.file_bytes, self.processes, self.output = file_bytes, processes, output

    def apply(self, kind):
        # A process that runs out of time gets SIGXCPU at the first limit. The CPU backend and a GPU's driver reserve far more
        # addresses than they use, so for them only writable memory counts.
        memory = {"build": resource.RLIMIT_AS, "run": resource.RLIMIT_DATA}.get(kind)
        limits = {resource.RLIMIT_CPU: (self.seconds, self.seconds + 2), resource.RLIMIT_CORE: (0, 0),
                  resource.RLIMIT_FSIZE: (self.file_bytes,) * 2, resource.RLIMIT_NPROC: (self.processes,) * 2,
                  resource.RLIMIT_NOFILE: (256, 256)}
        if memory is not None:
            limits[memory] = (self.megabytes << 20,) * 2
        for name, (soft, hard) in limits.items():
            most = resource.getrlimit(name)[1]
            if most != resource.RLIM_INFINITY:
                soft, hard = min(soft, most), min(hard, most)
            resource.setrlimit(name, (soft, hard))


class Ending:
    """Says how a program ended: `status` is as a shell has it (128 + signal), or None when it ran out of time by the clock."""

    def __init__(self, status, output):
        self.status, self.output = status, output

    @property
    def timed_out(self):
        return self.status in (None, 128 + signal.SIGXCPU)


class Sandbox:
    def __init__(self, locks, mode=None):
        """`locks` is a folder in which gradings of this machine see which users the others have taken."""
        self.user = self._take_user(locks) if os.geteuid() == 0 else None
        self.filters = {kind: make_filter(kind) for kind in SYSTEM_CALLS}
        self.libc = ctypes.CDLL(None, use_errno=True)
        modes = [mode] if mode else ["namespaces", "namespaces of root"] if self.user else ["namespaces"]
        for self.mode in modes + ([] if mode else ["filter"]):
            if self._works():
                break
        else:
            raise Unable("neither bubblewrap nor libseccomp can confine a program here: apt-get install bubblewrap libseccomp2")

    @property
    def protection(self):
        user = f"user {self.user}, alone" if self.user and self.mode != "namespaces of root" else \
            "the grader's own user" if self.mode == "filter" else f"user {os.geteuid()}"
        call_filter = "a list of allowed system calls" if self.filters["run"] else "NO filter of system calls (libseccomp is missing)"
        if self.mode == "filter":
            return f"{call_filter}, {user}, limits; NO namespaces (bubblewrap is missing or this machine forbids it)"
        return f"bubblewrap's namespaces, {call_filter}, {user}, limits"

    def _take_user(self, locks):
        """Takes a user that no other grading has now, so that it can see and kill nobody else's processes."""
        folder = pathlib.Path(locks)
        folder.mkdir(mode=0o700, exist_ok=True)
        for step in range(USERS):
            user = FIRST_USER + (os.getpid() + step) % USERS
            self._user_lock = open(folder / str(user), "w")
            try:
                fcntl.flock(self._user_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return user
            except BlockingIOError:
                self._user_lock.close()
        raise Unable("no user is left for this grading")

    def _works(self):
        if self.mode == "filter" and not self.filters["run"]:
            return False
        try:
            return self.run(["/usr/bin/true"], "build", Limits(5, 20, 512)).status == 0
        except (OSError, Unable):
            return False

    def own(self, folder):
        """Gives a folder to the confined program."""
        if self.user:
            os.chown(folder, self.user, self.user)

    # ------------------------------------------------------------------------------------------------------------------

    def run(self, command, kind, limits, see=(), write=None, cwd="/", environment=None, stdin=None, stdout=None):
        """
        Runs the command and returns its Ending. It may read `see`, and write to the folder `write`, both under their own names. A
        program of the kind `run` sees nothing but itself. Without `stdout`, its output is read. The contents of the file `stdin` are
        sent when the program asks for them by a byte: until then it has nothing to read.
        """
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", **(environment or {})} if kind != "run" else {}
        code, jail, passed = self.filters[kind], None, ()
        if self.mode != "filter":
            inner, command = command, [BUBBLEWRAP, *self._mounts(command, kind, see, write), "--chdir", cwd]
            if code:
                descriptor = os.memfd_create("filter")
                os.write(descriptor, code)
                os.lseek(descriptor, 0, os.SEEK_SET)
                passed = (descriptor,)
                command += ["--seccomp", str(descriptor)]
            command += ["--", *(["/runner", *inner[1:]] if kind == "run" else inner)]
        elif kind == "run" and self.user:
            jail = self._jail(command[0])
            command, cwd = ["/runner", *command[1:]], "/"
        user = None if self.mode == "namespaces of root" else self.user
        if code:
            array = ctypes.create_string_buffer(code, len(code))
            program = Program(len(code) // 8, ctypes.addressof(array))

        def confine():
            limits.apply(kind)
            if jail:
                os.chroot(jail)
                os.chdir("/")
            if user:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            if self.mode == "filter":
                if self.libc.prctl(38, 1, 0, 0, 0) != 0 or \
                        self.libc.prctl(22, 2, ctypes.byref(program), 0, 0) != 0:  # no new privileges; then the filter
                    raise OSError(ctypes.get_errno(), "no filter")

        ours, theirs = socket.socketpair() if stdin else (None, None)
        try:
            process = subprocess.Popen(command, cwd=None if jail or self.mode != "filter" else cwd, env=environment,
                                       stdin=theirs or subprocess.DEVNULL, stdout=stdout or subprocess.PIPE,
                                       stderr=subprocess.DEVNULL if stdout else subprocess.STDOUT, pass_fds=passed,
                                       start_new_session=True, preexec_fn=confine)
        except subprocess.SubprocessError as problem:
            raise OSError(str(problem)) from None
        finally:
            for descriptor in passed:
                os.close(descriptor)
            if theirs:
                theirs.close()
        ending = self._wait(process, limits, stdin, ours)
        # On a full machine bubblewrap gets no namespace. That is not the submission's fault, of which nothing has begun.
        if kind == "build" and ending.status == 1 and ending.output.startswith(b"bwrap: "):
            raise Unable(f"bubblewrap did not start: {ending.output.decode(errors='replace').strip()[:200]}")
        return ending

    @staticmethod
    def _send(file, asked, deadline):
        """Sends the file's contents when asked for them. Stops where nobody asks or reads any more."""
        try:
            asked.settimeout(max(deadline - time.monotonic(), 0.01))
            if asked.recv(1):
                asked.sendfile(file)
        except OSError:  # out of time included
            pass

    def _wait(self, process, limits, stdin=None, asked=None):
        output, deadline, late = b"", time.monotonic() + limits.wall, False
        try:
            if stdin:
                self._send(stdin, asked, deadline)
            while process.stdout:
                left = deadline - time.monotonic()
                if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                    late = True
                    break
                piece = os.read(process.stdout.fileno(), 1 << 16)
                output += piece
                if not piece or len(output) > limits.output:
                    break
            if len(output) <= limits.output and not late:
                process.wait(timeout=max(deadline - time.monotonic(), 0.01))
        except subprocess.TimeoutExpired:
            late = True
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            status = process.wait()
            if asked:
                asked.close()
            if process.stdout:
                process.stdout.close()
        return Ending(None if late else 128 - status if status < 0 else status, output[:limits.output])

    def _mounts(self, command, kind, see, write):
        arguments = ["--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts",
                     "--unshare-cgroup-try", "--die-with-parent", "--new-session", "--proc", "/proc"]
        if kind == "run":
            return arguments + ["--ro-bind", command[0], "/runner"]
        for name in ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin"):
            if os.path.islink(name):
                arguments += ["--symlink", os.readlink(name), name]
            elif os.path.isdir(name):
                arguments += ["--ro-bind", name, name]
        for name in ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/opt/nvidia"):
            arguments += ["--ro-bind-try", name, name]
        arguments += ["--dev", "/dev", "--size", str(512 << 20), "--tmpfs", "/tmp"]
        if kind == "device":
            arguments += ["--ro-bind-try", "/sys", "/sys", "--ro-bind-try", "/etc", "/etc"]
            for name in sorted(pathlib.Path("/dev").glob("nvidia*")):
                arguments += ["--dev-bind", str(name), str(name)]
        project = str(pathlib.Path(__file__).resolve().parents[3])
        if project.startswith("/usr/"):
            arguments += ["--tmpfs", project]
        for name in see:
            arguments += ["--ro-bind", str(name), str(name)]
        if write:
            arguments += ["--bind", str(write), str(write)]
        return arguments

    @staticmethod
    def _jail(program):
        """Makes a root directory with only the program, which the CPU backend reads as /proc/self/exe."""
        jail = pathlib.Path(program + ".jail")
        if not jail.exists():
            (jail / "proc/self").mkdir(parents=True)
            shutil.copy2(program, jail / "runner")
            os.link(jail / "runner", jail / "proc/self/exe")
            for path in (jail, jail / "proc", jail / "proc/self", jail / "runner"):
                path.chmod(0o755)
        return jail
