"""The system calls that a container may make, as a seccomp profile. Pure.

What is not named here is refused. Besides plain computing there is what the runner needs to make worlds (mounts and
namespaces, which the kernel refuses to programs because they have no capability). Left out on purpose: every socket
family but local ones, io_uring, tracing and reading other processes, performance events, key rings, kernel modules and
BPF, user namespaces, setting clocks, and whatever reaches beyond the container.
"""

import json

NO_SUCH_CALL, NO_SUCH_FAMILY = 38, 97
LOCAL_SOCKETS = 1
NEW_USERS = 0x1000_0000
PLAIN_LAYOUT = (0x0, 0x0040000, 0xFFFF_FFFF)
DONT_NEED = 4

FILES = """
access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 epoll_create epoll_create1 epoll_ctl
epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 faccessat faccessat2 fallocate fchdir fchmod fchmodat
fchmodat2 fchown fchownat fcntl fdatasync fgetxattr flistxattr flock fremovexattr fsetxattr fstat fstatfs fsync
ftruncate futimesat getcwd getdents getdents64 getxattr inotify_add_watch inotify_init inotify_init1
inotify_rm_watch ioctl lchown lgetxattr link linkat listxattr llistxattr lremovexattr lseek lsetxattr lstat
memfd_create mkdir mkdirat mknod mknodat newfstatat open openat openat2 pipe pipe2 poll ppoll pread64 preadv preadv2
pselect6 pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv removexattr rename renameat renameat2
rmdir select sendfile setxattr splice stat statfs statx symlink symlinkat sync sync_file_range syncfs tee truncate
umask unlink unlinkat utime utimensat utimes vmsplice write writev
"""
PROCESSES = """
arch_prctl capget capset execve execveat exit exit_group fork futex futex_waitv get_robust_list getcpu getegid
geteuid getgid getgroups getpgid getpgrp getpid getppid getpriority getresgid getresuid getrlimit getrusage getsid
gettid getuid ioprio_get kill membarrier pause pidfd_open pidfd_send_signal prctl prlimit64 restart_syscall rseq
rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait
rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam
sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler
sched_yield seccomp set_robust_list set_tid_address set_thread_area setfsgid setfsuid setgid setgroups setpgid
setpriority setregid setresgid setresuid setreuid setrlimit setsid setuid sigaltstack signalfd signalfd4 sysinfo
tgkill times tkill uname vfork wait4 waitid
"""
MEMORY = """
brk get_mempolicy madvise mincore mlock mlock2 mlockall mmap mprotect mremap msync munlock munlockall munmap
pkey_alloc pkey_free pkey_mprotect remap_file_pages
"""
TIME = """
alarm clock_getres clock_gettime clock_nanosleep getitimer gettimeofday nanosleep setitimer time timer_create
timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime
"""
MESSAGES = """
accept accept4 bind connect getpeername getsockname getsockopt getrandom listen mq_getsetattr mq_notify mq_open
mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd recvfrom recvmmsg recvmsg semctl semget semop
semtimedop sendmmsg sendmsg sendto setsockopt shmat shmctl shmdt shmget shutdown
"""
# For the runner. The kernel refuses these to whoever lacks the capability, which is every program.
WORLDS = "mount umount2 setns"


def _allowed(*names: str, arguments: list[dict[str, object]] | None = None) -> dict[str, object]:
    """Build a rule that lets these calls through, where given only with matching arguments."""
    return {"names": list(names), "action": "SCMP_ACT_ALLOW", "args": arguments or []}


def _refused(*names: str, number: int, arguments: list[dict[str, object]] | None = None) -> dict[str, object]:
    """Build a rule that makes these calls fail with an error number of our choice; 0 lets them do nothing."""
    return {"names": list(names), "action": "SCMP_ACT_ERRNO", "errnoRet": number, "args": arguments or []}


def _differs(index: int, value: int) -> list[dict[str, object]]:
    """Match a call whose argument at `index` is not `value`."""
    return [{"index": index, "value": value, "op": "SCMP_CMP_NE"}]


def _equals(index: int, value: int) -> list[dict[str, object]]:
    """Match a call whose argument at `index` is `value`."""
    return [{"index": index, "value": value, "op": "SCMP_CMP_EQ"}]


def _lacks(index: int, bits: int) -> list[dict[str, object]]:
    """Match a call whose argument at `index` has none of `bits` set."""
    return [{"index": index, "value": bits, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]


def _family_refused(name: str) -> dict[str, object]:
    """Build a rule that refuses sockets of every family but local ones, as a kernel without the family would."""
    return _refused(name, number=NO_SUCH_FAMILY, arguments=_differs(0, LOCAL_SOCKETS))


def profile() -> str:
    """Return the seccomp profile as JSON, the form in which the engine takes it as a security option.

    It holds for the runner as well as for programs. A call that no rule names fails with EPERM; `clone3` and
    `io_uring_setup` fail with ENOSYS, so that libraries fall back to calls whose arguments can be inspected.
    """
    plain = " ".join((FILES, PROCESSES, MEMORY, TIME, MESSAGES, WORLDS)).split()
    rules = [
        _allowed(*plain),
        _allowed("socket", arguments=_equals(0, LOCAL_SOCKETS)),
        _allowed("socketpair", arguments=_equals(0, LOCAL_SOCKETS)),
        _family_refused("socket"),
        _family_refused("socketpair"),
        _allowed("clone", arguments=_lacks(0, NEW_USERS)),
        _allowed("unshare", arguments=_lacks(0, NEW_USERS)),
        # A hint that would take files of the image out of memory, and so slow the next program down.
        _allowed("fadvise64", arguments=_differs(3, DONT_NEED)),
        _refused("fadvise64", number=0, arguments=_equals(3, DONT_NEED)),
        *(_allowed("personality", arguments=_equals(0, value)) for value in PLAIN_LAYOUT),
        # A filter cannot read the structure that clone3 takes; libraries that lack it use clone, filtered above.
        _refused("clone3", "io_uring_setup", number=NO_SUCH_CALL),
    ]
    architectures = ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"]
    # Old engines do not know a field for the default error number; theirs is 1, "not permitted".
    return json.dumps({"defaultAction": "SCMP_ACT_ERRNO", "architectures": architectures, "syscalls": rules})
