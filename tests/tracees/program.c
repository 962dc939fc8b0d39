/* Checks that a rollback gives a process back that has executed other programs: what it was, and what is told of it. Prints
 * "program ok after N".
 *
 * It asks its supervisor as image.c does, but that it is given its number of rounds, as the first argument: the programs that it
 * executes ask for the rollback. With "alone" and the number of a way to execute programs, it asks for nothing, and makes calls that
 * may be guessed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/rseq.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COMMAND 0x5bec0000L
#define PAGES(n) ((n) * 4096L)
#define LENGTH(array) (sizeof(array) / sizeof *(array))

static int is_alone;

static long ask(long what) {
    if (!is_alone)
        return syscall(SYS_kill, COMMAND, what);
    for (int i = 0; i < 4; i++)
        access("/usr", F_OK);
    return 0;
}

static int errors;
#define CHECK(what)                                                                                          \
    do {                                                                                                     \
        if (!(what)) {                                                                                       \
            printf("round %ld: not so: %s\n", round, #what);                                                 \
            errors = 1;                                                                                      \
        }                                                                                                    \
    } while (0)

static volatile int caught;
static void handler(int signal) { caught = signal; }

/* What is told of the process. */
static const char *const files[] = {"/proc/self/maps",  "/proc/self/cmdline", "/proc/self/environ",
                                    "/proc/self/auxv",  "/proc/self/comm",    "/proc/self/stat",
                                    "/proc/self/status"};
static char before[8][1 << 15], now[8][1 << 15];

/* The kernel may tell of one map where there were two of the same. */
static void join_maps(char *maps) {
    char joined[1 << 15] = "", *save = 0, rights[5] = "", rest[300] = "", is_rights[5], is_rest[300];
    unsigned long start, end = 0, offset, next = 0;
    for (char *line = strtok_r(maps, "\n", &save); line; line = strtok_r(0, "\n", &save)) {
        unsigned long is_end;
        *is_rest = 0;
        sscanf(line, "%lx-%lx %4s %lx %299[^\n]", &start, &is_end, is_rights, &offset, is_rest);
        int is_file = !!strchr(is_rest, '/');
        if (start != end || strcmp(rights, is_rights) || strcmp(rest, is_rest) || (is_file && offset != next))
            sprintf(joined + strlen(joined), "-%lx\n%lx %s %lx %s ", end, start, is_rights, offset, is_rest);
        strcpy(rights, is_rights);
        strcpy(rest, is_rest);
        next = offset + is_end - start;
        end = is_end;
    }
    memset(maps, 0, 1 << 15);
    strcpy(maps, joined);
}

static void tell(char told[8][1 << 15]) {
    for (size_t i = 0; i < LENGTH(files); i++) {
        memset(told[i], 0, sizeof told[i]);
        int file = open(files[i], O_RDONLY);
        for (ssize_t n, at = 0; (n = read(file, told[i] + at, sizeof told[i] - at)) > 0;)
            at += n;
        close(file);
    }
    memset(told[7], 0, sizeof told[7]);
    readlink("/proc/self/exe", told[7], sizeof told[7]);
    join_maps(told[0]);
    /* Of these some lines and words change by themselves. */
    char kept[1 << 15] = "", *save = 0, *word = strtok_r(strrchr(told[5], ')'), " ", &save);
    for (int field = 2; word; field++, word = strtok_r(0, " ", &save))
        if (field >= 45 || (field >= 26 && field <= 28))
            strcat(strcat(kept, word), " ");
    memset(told[5], 0, sizeof told[5]);
    strcpy(told[5], kept);
    memset(kept, 0, sizeof kept);
    for (char *line = strtok_r(told[6], "\n", &save); line; line = strtok_r(0, "\n", &save))
        if ((!strncmp(line, "Sig", 3) && line[3] != 'Q') || !strncmp(line, "Cap", 3) ||
            !strncmp(line, "Uid", 3) || !strncmp(line, "NoNewPrivs", 10))
            strcat(strcat(kept, line), "\n");
    memset(told[6], 0, sizeof told[6]);
    strcpy(told[6], kept);
}

static void copy_self(char *path) {
    int from = open("/proc/self/exe", O_RDONLY), to = mkstemp(path);
    char bytes[4096];
    for (ssize_t n; (n = read(from, bytes, sizeof bytes)) > 0;)
        write(to, bytes, n);
    fchmod(to, 0755);
    close(from);
    close(to);
}

/* What a program does that would not have been executed. */
static int other(int argc, char **argv) {
    static char signal_stack[1 << 15];
    stack_t stack = {.ss_sp = signal_stack, .ss_size = sizeof signal_stack};
    sigaltstack(&stack, 0);
    signal(SIGUSR2, handler);
    signal(SIGHUP, SIG_DFL);
    signal(SIGWINCH, handler);
    prctl(PR_SET_NAME, "another");
    memset(malloc(3000000), 1, 3000000);
    sbrk(1 << 20);
    memset(sbrk(1 << 16) - 100, 2, 100);
    /* Low, where nobody else maps anything. */
    void *low = mmap((void *)0x40000, PAGES(64), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (low != MAP_FAILED)
        memset(low, 4, PAGES(64));
    chdir("/");
    umask(0);
    for (int i = 3; i < 20; i++)
        dup2(open("/etc/hosts", O_RDONLY), i);
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    is_alone = argc > 3;
    if (is_alone)
        ask(0);
    int steps = argc > 2 ? atoi(argv[2]) : 0;
    if (steps > 0) {
        char left[16];
        snprintf(left, sizeof left, "%d", steps - 1);
        execl("/proc/self/exe", "again", "then", left, argv[3], (char *)0);
    }
    if (is_alone) {
        puts("program ok");
        return 0;
    }
    ask(2);
    /* The supervisor should have had the first program go on. */
    return 9;
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "then"))
        return other(argc, argv);
    is_alone = !strcmp(argv[1], "alone");
    long rounds = is_alone ? -1 : atol(argv[1]);
    char path[] = P_tmpdir "/program.XXXXXX", data[] = P_tmpdir "/data.XXXXXX", buffer[100];
    copy_self(path);
    int file = mkstemp(data);
    static char text[4096 * 8 + 1];
    for (int i = 0; i < 4096; i++)
        sprintf(text + 8 * i, "%07d\n", i);
    write(file, text, sizeof text - 1);
    lseek(file, 100, SEEK_SET);
    int closing = open(data, O_RDONLY | O_CLOEXEC);
    lseek(closing, 7, SEEK_SET);
    int place = open("/usr", O_PATH | O_DIRECTORY | O_CLOEXEC), ends[2];
    pipe2(ends, O_CLOEXEC);
    write(ends[1], "in the pipe", 11);
    int both = PROT_READ | PROT_WRITE, own = MAP_PRIVATE | MAP_ANONYMOUS;
    char *memory = mmap(0, PAGES(64), both, own, -1, 0);
    memset(memory, 9, PAGES(64));
    char *mapped = mmap(0, PAGES(4), both, MAP_PRIVATE, file, 0);
    mapped[PAGES(1)] = '!';
    char *shared = mmap(0, PAGES(2), PROT_READ, MAP_SHARED, closing, 0);
    char *heap = malloc(100000);
    memset(heap, 5, 100000);
    char *code = mmap(0, PAGES(1), both, own, -1, 0);
    memcpy(code, "\xb8\x2a\0\0\0\xc3", 6); /* mov eax, 42; ret */
    mprotect(code, PAGES(1), PROT_READ | PROT_EXEC);
    static char signal_stack[1 << 15];
    stack_t stack = {.ss_sp = signal_stack, .ss_size = sizeof signal_stack}, is_stack;
    sigaltstack(&stack, 0);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK | SA_RESTART}, is_action;
    sigaddset(&action.sa_mask, SIGTERM);
    sigaction(SIGUSR1, &action, 0);
    signal(SIGHUP, SIG_IGN);
    /* One waits that is not ignored for its handler alone. */
    signal(SIGCHLD, handler);
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGCHLD);
    sigprocmask(SIG_BLOCK, &blocked, 0);
    raise(SIGCHLD);
    prctl(PR_SET_NAME, "first");
    umask(027);
    chdir("/usr");
    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
    void *list, *is_list;
    size_t size;
    syscall(SYS_get_robust_list, 0, &list, &size);
    int *tid_address, *is_tid_address;
    prctl(PR_GET_TID_ADDRESS, &tid_address);
    /* To the middle of a page. */
    sbrk(64);
    void *end = sbrk(0);
    double number = 1.25;
    tell(before);
    memcpy(now, before, sizeof now);

    long round = ask(1);
    if (is_alone)
        round = atol(argv[2]);
    char *alone = is_alone ? argv[1] : 0;

    CHECK(number == 1.25 && heap[99999] == 5 && memory[PAGES(63)] == 9 && memory[0] == 9);
    CHECK(mapped[PAGES(1)] == '!' && mapped[PAGES(2)] == '0' && shared[6] == '0');
    CHECK(((int (*)(void))code)() == 42);
    CHECK(sbrk(0) == end && syscall(SYS_brk, 0) == (long)end);
    tell(now);
    for (size_t i = 0; i < LENGTH(before); i++)
        if (memcmp(before[i], now[i], sizeof before[i])) {
            printf("round %ld: of %s\n%s\nis\n%s\n", round, i < 7 ? files[i] : "exe", before[i], now[i]);
            errors = 1;
        }
    CHECK(lseek(file, 0, SEEK_CUR) == 100 && lseek(closing, 0, SEEK_CUR) == 7);
    CHECK(fcntl(closing, F_GETFD) == FD_CLOEXEC && fcntl(place, F_GETFD) == FD_CLOEXEC);
    CHECK(fcntl(file, F_GETFD) == 0 && fcntl(19, F_GETFD) == -1);
    CHECK(fstatat(place, "bin", &(struct stat){0}, 0) == 0);
    CHECK(read(ends[0], buffer, 11) == 11 && !memcmp(buffer, "in the pipe", 11));
    write(ends[1], "in the pipe", 11);
    CHECK(sigaltstack(0, &is_stack) == 0 && is_stack.ss_sp == signal_stack && is_stack.ss_flags == 0);
    sigaction(SIGUSR1, 0, &is_action);
    CHECK(is_action.sa_handler == handler && (is_action.sa_flags & action.sa_flags) == action.sa_flags);
    CHECK(sigismember(&is_action.sa_mask, SIGTERM) && !sigismember(&is_action.sa_mask, SIGINT));
    sigaction(SIGHUP, 0, &is_action);
    CHECK(is_action.sa_handler == SIG_IGN);
    sigaction(SIGUSR2, 0, &is_action);
    CHECK(is_action.sa_handler == SIG_DFL);
    CHECK(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0);
    CHECK(syscall(SYS_get_robust_list, 0, &is_list, &size) == 0 && is_list == list);
    CHECK(prctl(PR_GET_TID_ADDRESS, &is_tid_address) == 0 && is_tid_address == tid_address);
    mode_t mask = umask(027);
    CHECK(mask == 027 && strcmp(getcwd(buffer, sizeof buffer), "/usr") == 0);
    /* By the area for restartable sequences, and by the vDSO. */
    int *area = (int *)((char *)__builtin_thread_pointer() + __rseq_offset);
    CHECK(__rseq_size == 0 || area[1] >= 0);
    CHECK(sched_getcpu() >= 0);
    struct timespec time, later;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &time) == 0 && clock_gettime(CLOCK_MONOTONIC, &later) == 0);
    CHECK(later.tv_sec >= time.tv_sec);
    /* On its stack, and whose frame the kernel has to find there. */
    caught = 0;
    raise(SIGUSR1);
    CHECK(caught == SIGUSR1);
    /* Once more a process as any other. */
    pid_t child = fork();
    if (child == 0)
        _exit(getenv("PROGRAM") && !strcmp(getenv("PROGRAM"), "first") ? 7 : 8);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
    if (errors) {
        fflush(stdout);
        _exit(3);
    }
    if (round == rounds) {
        unlink(path);
        unlink(data);
        /* Nobody is told that what has held the image ends. */
        while (sigtimedwait(&blocked, 0, &(struct timespec){0}) > 0)
            ;
        ask(3);
        sigset_t waiting;
        sigpending(&waiting);
        CHECK(!sigismember(&waiting, SIGCHLD));
        if (!errors)
            printf("program ok after %ld\n", round);
        return errors;
    }

    memset(memory, (int)round, PAGES(32));
    memset(heap, (int)round, 100000);
    mapped[PAGES(2)] = '#';
    number = (double)round;
    /* What fails changes nothing. */
    char *none[] = {0}, *environment[] = {"OTHER=1", 0};
    execve("/no/such/program", none, environment);
    execve("/etc/hosts", none, environment);
    switch (round % 4) {
    case 0:
        execle(path, "a name", "then", "0", alone, (char *)0, environment);
        break;
    case 1:
        execle("/bin/sh", "sh", "-c", "exec \"$0\" then 2 $1", path, alone, (char *)0, environment);
        break;
    case 2:
        execl("/proc/self/exe", "program", "then", "1", alone, (char *)0);
        break;
    default:
        ask(2);
    }
    printf("round %ld: nothing was executed: %s\n", round, strerror(errno));
    return 4;
}
