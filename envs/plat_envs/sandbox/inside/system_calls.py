"""The calls of Linux that an untrusted program may make, with their numbers on x86_64.

Everything that is not listed here or checked in `seccomp` is refused: fork, exec, sockets, ptrace, signals to others,
namespaces, mounts, keys, io_uring, and each call that a later kernel adds.
"""

from __future__ import annotations

AUDIT_ARCH_X86_64 = 0xC000003E

# fmt: off
ALWAYS = {
    # bytes, files and folders that are read
    "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "lseek": 8, "pread64": 17,
    "pwrite64": 18, "readv": 19, "writev": 20, "access": 21, "pipe": 22, "dup": 32, "dup2": 33, "sendfile": 40,
    "flock": 73, "fsync": 74, "fdatasync": 75, "ftruncate": 77, "getdents": 78, "getcwd": 79, "chdir": 80,
    "fchdir": 81, "readlink": 89, "umask": 95, "statfs": 137, "fstatfs": 138, "getdents64": 217, "openat": 257,
    "newfstatat": 262, "readlinkat": 267, "faccessat": 269, "dup3": 292, "pipe2": 293, "preadv": 295, "pwritev": 296,
    "statx": 332, "close_range": 436, "faccessat2": 439,
    # memory
    "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12, "mremap": 25, "msync": 26, "madvise": 28,
    # signals of its own
    "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "pause": 34, "rt_sigpending": 127,
    "rt_sigtimedwait": 128, "rt_sigsuspend": 130, "sigaltstack": 131, "restart_syscall": 219,
    # waiting and time
    "poll": 7, "select": 23, "sched_yield": 24, "nanosleep": 35, "getitimer": 36, "alarm": 37, "setitimer": 38,
    "gettimeofday": 96, "times": 100, "time": 201, "epoll_create": 213, "clock_gettime": 228, "clock_getres": 229,
    "clock_nanosleep": 230, "epoll_wait": 232, "epoll_ctl": 233, "pselect6": 270, "ppoll": 271, "epoll_pwait": 281,
    "eventfd": 284, "eventfd2": 290, "epoll_create1": 291, "epoll_pwait2": 441,
    # threads
    "futex": 202, "set_tid_address": 218, "set_robust_list": 273, "membarrier": 324, "rseq": 334, "futex_waitv": 449,
    # what it is, and its end
    "getpid": 39, "recvfrom": 45, "exit": 60, "wait4": 61, "uname": 63, "getrlimit": 97, "getrusage": 98,
    "sysinfo": 99, "getuid": 102, "getgid": 104, "geteuid": 107, "getegid": 108, "getppid": 110, "getpgrp": 111,
    "getgroups": 115, "getresuid": 118, "getresgid": 120, "getpgid": 121, "getsid": 124, "getpriority": 140,
    "sched_getparam": 143, "sched_getscheduler": 145, "sched_get_priority_max": 146, "sched_get_priority_min": 147,
    "arch_prctl": 158, "setrlimit": 160, "gettid": 186, "sched_getaffinity": 204, "exit_group": 231, "getcpu": 309,
    "getrandom": 318,
}
# Only where the program has a folder of its own. Landlock does not cover all of them. Times of files are not set: the
# devices are those of the machine, and their times would tell the next test what the last one did.
IN_OWN_FOLDER = {
    "truncate": 76, "rename": 82, "mkdir": 83, "rmdir": 84, "creat": 85, "link": 86, "unlink": 87, "symlink": 88,
    "chmod": 90, "fchmod": 91, "mkdirat": 258, "unlinkat": 263, "renameat": 264,
    "linkat": 265, "symlinkat": 266, "fchmodat": 268, "renameat2": 316,
}
# Allowed with some arguments only.
CHECKED = {
    "ioctl": 16, "sendto": 44, "socketpair": 53, "clone": 56, "kill": 62, "fcntl": 72, "prctl": 157, "tkill": 200,
    "tgkill": 234, "prlimit64": 302, "clone3": 435,
}
# fmt: on
