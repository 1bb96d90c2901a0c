/*
 * Runs a program so that it can compute and do little else:
 *
 *     confine SECONDS MEGABYTES FILE_BYTES PROGRAM [ARGUMENT...]
 *
 * No environment; limits on processor time, on memory that it can write to, on the size of files;
 * as user and group 65534 ("nobody") when started as root; and a filter on system calls: no new
 * process, no other program, no file opened for writing, created, renamed or removed, no network,
 * no look into other processes. It ends with the program's status.
 *
 * LABS_CONFINE=device leaves out what a GPU's driver needs: files may be opened for writing and
 * removed (the user may not write anywhere of worth), a local socket may be made and named, though
 * not connected, and there is no limit on memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NOBODY = 65534, CANNOT = 125 };

#if defined(__x86_64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "confine knows the system calls of x86-64 and of aarch64"
#endif

#define LOW(argument) (offsetof(struct seccomp_data, args) + 8 * (argument))
#define LOAD(where) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (where))
#define IF_EQUAL(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), (yes), (no))
#define IF_ANY(bits, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (uint32_t)(bits), (yes), (no))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define DENY(error) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))

/* Refused whatever their arguments. */
static const int refused[] = {
    SYS_execveat,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kill,
    SYS_tkill,
    SYS_socketpair,
    SYS_connect,
    SYS_renameat2,
    SYS_linkat,
    SYS_symlinkat,
    SYS_mkdirat,
    SYS_mknodat,
    SYS_fchmodat,
    SYS_fchmod,
    SYS_fchownat,
    SYS_fchown,
    SYS_truncate,
    SYS_mount,
    SYS_umount2,
    SYS_bpf,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_keyctl,
    SYS_add_key,
    SYS_setsid,
    SYS_unshare,
    SYS_setns,
    SYS_shmget,
    SYS_msgget,
    SYS_semget,
    SYS_mq_open,
    SYS_setxattr,
    SYS_open_by_handle_at,
    SYS_pidfd_open,
    SYS_pidfd_send_signal,
    SYS_utimensat,
    SYS_chroot,
    SYS_openat2,
    SYS_perf_event_open,

#if defined(__x86_64__)
    SYS_fork,
    SYS_vfork,
    SYS_rename,
    SYS_renameat,
    SYS_link,
    SYS_symlink,
    SYS_mkdir,
    SYS_rmdir,
    SYS_mknod,
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
    SYS_creat,
    SYS_utime,
    SYS_utimes,
#endif
};

/* Refused unless there is a device, whose driver (CUDA 13's, for one) does not start without
 * them. */
static const int refused_without_device[] = {
    SYS_bind,
    SYS_unlinkat,
#if defined(__x86_64__)
    SYS_unlink,
#endif
};

static struct sock_filter program[256];
static unsigned short length;

static void add(struct sock_filter instruction)
{
    program[length++] = instruction;
}

#define ADD(...) add((struct sock_filter)__VA_ARGS__)

static int install_filter(const char *path, int device)
{
    ADD(LOAD(offsetof(struct seccomp_data, arch)));
    ADD(IF_EQUAL(THIS_ARCHITECTURE, 1, 0));
    ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
    ADD(LOAD(offsetof(struct seccomp_data, nr)));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        ADD(IF_EQUAL(refused[i], 0, 1));
        ADD(DENY(EPERM));
    }
    for (size_t i = 0;
         !device && i < sizeof refused_without_device / sizeof *refused_without_device; i++) {
        ADD(IF_EQUAL(refused_without_device[i], 0, 1));
        ADD(DENY(EPERM));
    }
    ADD(IF_EQUAL(SYS_socket, 0, 4));
    ADD(LOAD(LOW(0)));
    ADD(IF_EQUAL(AF_UNIX, 0, 1));
    if (device)
        ADD(ALLOW);
    else
        ADD(DENY(EPERM));
    ADD(DENY(EPERM));
    /* Threads yes, processes no. The flags of clone3 lie in memory, where no filter sees them:
     * glibc then uses clone. */
    ADD(IF_EQUAL(SYS_clone3, 0, 1));
    ADD(DENY(ENOSYS));
    ADD(IF_EQUAL(SYS_clone, 0, 4));
    ADD(LOAD(LOW(0)));
    ADD(IF_ANY(CLONE_THREAD, 0, 1));
    ADD(ALLOW);
    ADD(DENY(EPERM));
    /* The one execve that starts the program: a path at this very address, which nobody knows
     * afterwards. */
    ADD(IF_EQUAL(SYS_execve, 0, 6));
    ADD(LOAD(LOW(0)));
    ADD(IF_EQUAL((uintptr_t)path, 0, 3));
    ADD(LOAD(LOW(0) + 4));
    ADD(IF_EQUAL((uintptr_t)path >> 32, 0, 1));
    ADD(ALLOW);
    ADD(DENY(EPERM));
    const unsigned writing = device ? 0 : O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;
    ADD(IF_EQUAL(SYS_openat, 0, 4));
    ADD(LOAD(LOW(2)));
    ADD(IF_ANY(writing, 0, 1));
    ADD(DENY(EACCES));
    ADD(ALLOW);
#if defined(__x86_64__)
    ADD(IF_EQUAL(SYS_open, 0, 4));
    ADD(LOAD(LOW(1)));
    ADD(IF_ANY(writing, 0, 1));
    ADD(DENY(EACCES));
    ADD(ALLOW);
    /* The same calls under x32 numbers. */
    ADD(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000u, 0, 1));
    ADD(DENY(ENOSYS));
#endif
    ADD(ALLOW);
    const struct sock_fprog filter = {length, program};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

static void limit(int resource, rlim_t value)
{
    /* A process that runs out of time gets SIGXCPU at the first limit; at the second it would be
     * SIGKILL. */
    const struct rlimit both = {value, resource == RLIMIT_CPU ? value + 2 : value};
    if (setrlimit(resource, &both) != 0) {
        perror("confine: setrlimit");
        exit(CANNOT);
    }
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: confine SECONDS MEGABYTES FILE_BYTES PROGRAM [ARGUMENT...]\n");
        return CANNOT;
    }
    const char *mode = getenv("LABS_CONFINE");
    const int device = mode && strcmp(mode, "device") == 0;
    char *const nothing[] = {NULL};
    const char *path = argv[4];

    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_CPU, (rlim_t)strtoull(argv[1], NULL, 10));
    limit(RLIMIT_FSIZE, (rlim_t)strtoull(argv[3], NULL, 10));
    if (!device)
        limit(RLIMIT_DATA, (rlim_t)strtoull(argv[2], NULL, 10) << 20);
    if (geteuid() == 0 && (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)) {
        perror("confine: cannot become an unprivileged user");
        return CANNOT;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || install_filter(path, device) != 0) {
        perror("confine: no filter on system calls");
        return CANNOT;
    }
    syscall(SYS_execve, path, argv + 4, nothing);
    return CANNOT;
}
