/* Checks that a rollback gives back everything that a process has: once a checkpoint was taken, all of it
 * is checked, changed, and rolled back, as often as the supervisor likes. Prints "image ok after N".
 *
 * It asks its supervisor by kill(COMMAND, what): 1 take a checkpoint, 2 roll back, 3 discard it. The first
 * tells how often it was rolled back; the second returns when the supervisor has had enough. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/rseq.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COMMAND 0x5bec0000L
#define PAGES(n) ((n) * 4096L)

static long ask(long what) { return syscall(SYS_kill, COMMAND, what); }

static unsigned long sum(const void *start, size_t length) {
    unsigned long hash = 1469598103934665603UL;
    for (const unsigned char *at = start; length--; at++)
        hash = (hash ^ *at) * 1099511628211UL;
    return hash;
}

static int errors;
#define CHECK(what)                                                                                          \
    do {                                                                                                     \
        if (!(what)) {                                                                                       \
            printf("round %ld: not so: %s\n", round, #what);                                                 \
            errors = 1;                                                                                      \
        }                                                                                                    \
    } while (0)

static int global = 7;
static char zeros[300000];
static void handler(int signal) { (void)signal; }
static void go_back(int signal) { ask(signal == SIGWINCH ? 2 : 0); }

/* Has the kernel write where a thread runs into memory that a rollback takes away. */
static void register_elsewhere(void) {
    const unsigned signature = 0x53053053, size = 32;
    char *area = (char *)__builtin_thread_pointer() + __rseq_offset;
    if (!__rseq_size || syscall(SYS_rseq, area, size, 1, signature))
        return;
    char *other = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    syscall(SYS_rseq, other, size, 0, signature);
}

int main(void) {
    char path[] = P_tmpdir "/image.XXXXXX", buffer[100];
    int file = mkstemp(path);
    for (int i = 0; i < 4096; i++)
        dprintf(file, "%07d\n", i);
    lseek(file, 100, SEEK_SET);
    int copy = dup(file), other = open(path, O_RDONLY);
    fcntl(other, F_SETFD, FD_CLOEXEC);
    fcntl(file, F_SETFL, O_NONBLOCK);
    char *heap = malloc(100000);
    memset(heap, 5, 100000);
    int both = PROT_READ | PROT_WRITE, own = MAP_PRIVATE | MAP_ANONYMOUS;
    char *memory = mmap(0, PAGES(256), both, own, -1, 0);
    memset(memory, 9, PAGES(256));
    char *fresh = mmap(0, PAGES(256), both, own, -1, 0);
    volatile char seen = fresh[PAGES(9)]; /* The page of zeros. */
    char *mapped = mmap(0, PAGES(4), both, MAP_PRIVATE, other, 0);
    char *text = mmap(0, PAGES(2), PROT_READ, MAP_PRIVATE, other, 0);
    char *reserved = mmap(0, 64L << 30, PROT_NONE, own | MAP_NORESERVE, -1, 0);
    char *locked = mmap(0, PAGES(4), both, own, -1, 0);
    mlock(locked, PAGES(4));
    memset(locked, 3, PAGES(4));
    mapped[0] = '!';
    unlink(path);
    chdir("/usr");
    umask(027);
    struct rlimit limit, limit_now;
    getrlimit(RLIMIT_STACK, &limit);
    static int first_place, second_place;
    syscall(SYS_set_tid_address, &first_place);
    static char first_stack[1 << 15], second_stack[1 << 15];
    stack_t first = {.ss_sp = first_stack, .ss_size = sizeof first_stack}, is_stack;
    stack_t second = {.ss_sp = second_stack, .ss_size = sizeof second_stack};
    sigaltstack(&first, 0);
    struct sigaction on_stack = {.sa_handler = go_back, .sa_flags = SA_ONSTACK};
    sigaction(SIGWINCH, &on_stack, 0);
    char called[16] = "";
    prctl(PR_SET_NAME, "first");
    signal(SIGUSR2, handler);
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigaddset(&blocked, SIGALRM);
    sigprocmask(SIG_BLOCK, &blocked, 0);
    raise(SIGALRM);
    volatile long stack[64];
    for (int i = 0; i < 64; i++)
        stack[i] = i;
    char *sealed = mmap(0, PAGES(2), both, own, -1, 0);
    memset(sealed, 5, PAGES(2));
    mprotect(sealed, PAGES(2), PROT_READ);
    /* To the middle of a page. */
    sbrk(64);
    void *end = sbrk(0);
    unsigned long before = sum(heap, 100000) ^ sum(memory, PAGES(256)) ^ sum(zeros, sizeof zeros);
    double number = 1.25;

    long round = ask(1);

    unsigned long now = sum(heap, 100000) ^ sum(memory, PAGES(256)) ^ sum(zeros, sizeof zeros);
    CHECK(now == before);
    CHECK(global == 7);
    CHECK(number == 1.25);
    for (int i = 0; i < 64; i++)
        CHECK(stack[i] == i);
    /* The C library remembers the break, too. */
    CHECK(sbrk(0) == end && syscall(SYS_brk, 0) == (long)end);
    CHECK(fresh[PAGES(1)] == 0 && fresh[PAGES(2)] == 0 && fresh[PAGES(9)] == 0 && seen == 0);
    CHECK(mapped[0] == '!' && mapped[PAGES(2)] == '0' && text[5] == '0');
    CHECK(locked[PAGES(1)] == 3);
    CHECK(sealed[0] == 5 && sealed[PAGES(1)] == 5);
    CHECK(lseek(file, 0, SEEK_CUR) == 100 && lseek(copy, 0, SEEK_CUR) == 100);
    CHECK(lseek(other, 0, SEEK_CUR) == 0);
    CHECK(fcntl(other, F_GETFD) == FD_CLOEXEC && fcntl(copy, F_GETFD) == 0);
    CHECK(fcntl(60, F_GETFD) == -1);
    CHECK((fcntl(file, F_GETFL) & (O_APPEND | O_NONBLOCK)) == O_NONBLOCK);
    sigset_t is;
    sigprocmask(SIG_BLOCK, 0, &is);
    CHECK(sigismember(&is, SIGUSR1) && !sigismember(&is, SIGUSR2));
    sigpending(&is);
    CHECK(sigismember(&is, SIGALRM));
    struct sigaction action;
    sigaction(SIGUSR2, 0, &action);
    CHECK(action.sa_handler == handler);
    mode_t mask = umask(0);
    umask(mask);
    CHECK(mask == 027);
    getrlimit(RLIMIT_STACK, &limit_now);
    CHECK(limit_now.rlim_cur == limit.rlim_cur && limit_now.rlim_max == limit.rlim_max);
    int *place = 0;
    CHECK(prctl(PR_GET_TID_ADDRESS, &place) == 0 && place == &first_place);
    CHECK(sigaltstack(0, &is_stack) == 0 && is_stack.ss_sp == first_stack && is_stack.ss_flags == 0);
    CHECK(is_stack.ss_size == sizeof first_stack);
    CHECK(prctl(PR_GET_NAME, called) == 0 && strcmp(called, "first") == 0);
    CHECK(strcmp(getcwd(buffer, sizeof buffer), "/usr") == 0);
    unsigned char resident;
    CHECK(mincore(reserved, 4096, &resident) == 0);
    if (errors) {
        fflush(stdout);
        _exit(3);
    }

    memset(heap, (int)round + 1, 100000);
    for (int i = 0; i < 256; i += 2)
        memory[PAGES(i)] = (char)round;
    memset(zeros, (int)round, sizeof zeros);
    global = (int)round + 100;
    number = (double)round;
    for (int i = 0; i < 64; i++)
        stack[i] = -round;
    fresh[PAGES(1)] = 1;
    fresh[PAGES(9)] = 1;
    mapped[0] = '#';
    mapped[PAGES(2)] = '#';
    locked[PAGES(1)] = 4;
    mprotect(sealed, PAGES(2), both);
    sealed[PAGES(1)] = 6;
    mprotect(sealed, PAGES(2), PROT_READ);
    if (round % 2) {
        for (int i = 0; i < 50; i++)
            memset(malloc(20000 + i * 100), i, 20000);
        sbrk(1 << 16);
    } else {
        sbrk(64);
    }
    memset(mmap(0, PAGES(768), both, own, -1, 0), 1, PAGES(768));
    mprotect(memory, PAGES(4), PROT_READ);
    munmap(memory + PAGES(128), PAGES(16));
    madvise(memory + PAGES(64), PAGES(16), MADV_DONTNEED);
    munmap(mapped, PAGES(4));
    munmap(text, PAGES(2));
    munmap(reserved, 64L << 30);
    munmap(locked + PAGES(2), PAGES(1));
    read(file, buffer, 50);
    int hosts = open("/etc/hosts", O_RDONLY);
    dup2(hosts, 60);
    dup2(hosts, copy);
    fcntl(other, F_SETFD, 0);
    fcntl(file, F_SETFL, O_APPEND);
    close(other);
    sigaddset(&blocked, SIGUSR2);
    sigdelset(&blocked, SIGUSR1);
    sigprocmask(SIG_SETMASK, &blocked, 0);
    signal(SIGUSR2, SIG_IGN);
    /* One waits. */
    signal(SIGALRM, SIG_IGN);
    chdir("/etc");
    umask(0);
    limit_now.rlim_cur = 3 << 20;
    setrlimit(RLIMIT_STACK, &limit_now);
    syscall(SYS_set_tid_address, &second_place);
    sigaltstack(&second, 0);
    prctl(PR_SET_NAME, "second");
    register_elsewhere();
    volatile double other_number = 0;
    for (int i = 0; i < 100; i++)
        other_number += i * 1.1;

    /* Every other time from the signal stack. */
    if (round % 2)
        raise(SIGWINCH);
    ask(2);

    printf("image ok after %ld\n", round);
    ask(3);
    return 0;
}
