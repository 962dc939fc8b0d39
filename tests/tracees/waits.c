/* One process for each kind of wait. Each prints "NAME ok" when its wait ended as it should, or
 * "NAME" and the error. The waits end when standard input does. Raw calls where the C library would
 * begin an interrupted one again. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Set up before the processes start; `gate` is a pipe that is written to end a wait. */
static int gate[2], event, pair[2], full[2], listener, sem, queue, locked, watch;
static mqd_t messages;
static struct sockaddr_un address = {AF_UNIX, ""};
static int *word;
static volatile sig_atomic_t handled;

static const struct timespec minute = {60, 0}, second = {1, 0};

static void handle(int signal)
{
    handled = signal;
}

static long is(long result, long wanted)
{
    return result == wanted ? 0 : -1;
}

static long gate_with_epoll(void)
{
    struct epoll_event interest = {EPOLLIN, {0}};
    int set = epoll_create1(0);
    epoll_ctl(set, EPOLL_CTL_ADD, gate[0], &interest);
    return set;
}

static void limit_receive(int socket)
{
    struct timeval limit = {60, 0};
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

static long w_nanosleep(void) { return syscall(SYS_nanosleep, &second, NULL); }
static long w_clock_nanosleep(void)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += 1;
    return syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}
static long w_poll(void)
{
    struct pollfd one = {gate[0], POLLIN, 0};
    return is(syscall(SYS_poll, &one, 1, 60000), 1);
}
static long w_poll_nothing(void) { return syscall(SYS_poll, NULL, 0, 1000); }
static long w_ppoll(void)
{
    struct pollfd one = {gate[0], POLLIN, 0};
    struct timespec limit = minute;
    return is(syscall(SYS_ppoll, &one, 1, &limit, NULL, 0), 1);
}
static long w_select(void)
{
    struct timeval limit = {60, 0};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(gate[0], &set);
    return is(syscall(SYS_select, gate[0] + 1, &set, NULL, NULL, &limit), 1);
}
static long w_epoll_wait(void)
{
    struct epoll_event got;
    return is(syscall(SYS_epoll_wait, gate_with_epoll(), &got, 1, -1), 1);
}
static long w_epoll_pwait(void)
{
    struct epoll_event got;
    return is(syscall(SYS_epoll_pwait, gate_with_epoll(), &got, 1, 60000, NULL, 0), 1);
}
static long w_read_pipe(void)
{
    char byte;
    return is(read(gate[0], &byte, 1), 1);
}
static long w_write_pipe(void) { return is(write(full[1], "x", 1), 1); }
static long w_read_event(void)
{
    long count;
    return is(read(event, &count, 8), 8);
}
static long w_read_timer(void)
{
    struct itimerspec when = {{0, 0}, {1, 0}};
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    long count;
    timerfd_settime(timer, 0, &when, NULL);
    return is(read(timer, &count, 8), 8);
}
static long w_read_signal(void)
{
    sigset_t set;
    struct signalfd_siginfo info;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    return is(read(signalfd(-1, &set, 0), &info, sizeof info), sizeof info);
}
static long w_read_watch(void)
{
    char news[4096];
    return read(watch, news, sizeof news) > 0 ? 0 : -1;
}
static long w_recv(void)
{
    char byte;
    return is(recv(pair[0], &byte, 1, MSG_PEEK), 1);
}
static long w_recv_limited(void)
{
    char byte;
    limit_receive(pair[0]);
    return is(recv(pair[0], &byte, 1, MSG_PEEK), 1);
}
static long w_accept_limited(void)
{
    limit_receive(listener);
    return accept(listener, NULL, NULL) >= 0 ? 0 : -1;
}
/* EAGAIN: the word had changed when the wait began, or began again. */
static long wait_for_word(const struct timespec *limit)
{
    long result = syscall(SYS_futex, word, FUTEX_WAIT, 0, limit, NULL, 0);
    return result < 0 && errno == EAGAIN && *word == 1 ? 0 : result;
}
static long w_futex(void) { return wait_for_word(NULL); }
static long w_futex_limited(void) { return wait_for_word(&minute); }
static long w_wait4(void)
{
    pid_t child = fork();
    if (child == 0) {
        struct pollfd one = {gate[0], POLLIN, 0};
        while (poll(&one, 1, 60000) != 1) {
        }
        _exit(3);
    }
    int status;
    return is(syscall(SYS_wait4, child, &status, 0, NULL), child);
}
static long w_sigtimedwait(void)
{
    unsigned long set = 1UL << (SIGUSR2 - 1);
    return is(syscall(SYS_rt_sigtimedwait, &set, NULL, &minute, 8), SIGUSR2);
}
/* These end with EINTR when a handler has run, and only then. */
static long w_pause(void)
{
    pause();
    return is(handled, SIGUSR1);
}
static long w_sigsuspend(void)
{
    unsigned long blocked = 1UL << (SIGUSR2 - 1);
    syscall(SYS_rt_sigsuspend, &blocked, 8);
    return is(handled, SIGUSR1);
}
static long w_epoll_handled(void)
{
    struct epoll_event got;
    int none = epoll_create1(0);
    return is(syscall(SYS_epoll_wait, none, &got, 1, -1) < 0 && errno == EINTR && handled, 1);
}
static long w_semop(void)
{
    struct sembuf take = {0, -1, 0};
    return syscall(SYS_semop, sem, &take, 1);
}
static long w_semtimedop(void)
{
    struct sembuf take = {0, -1, 0};
    return syscall(SYS_semtimedop, sem, &take, 1, &minute);
}
static long w_msgrcv(void)
{
    struct { long type; char byte; } message;
    return is(syscall(SYS_msgrcv, queue, &message, 1, 0, 0), 1);
}
static long w_mq_receive(void)
{
    char message[8];
    return is(syscall(SYS_mq_timedreceive, messages, message, 8, NULL, NULL), 1);
}
static long w_flock(void) { return syscall(SYS_flock, open("lock", O_RDWR), LOCK_EX); }
static long w_setlkw(void)
{
    struct flock all = {F_WRLCK, SEEK_SET, 0, 0, 0};
    return syscall(SYS_fcntl, open("record", O_RDWR), F_SETLKW, &all);
}
static long w_open_fifo(void) { return syscall(SYS_open, "fifo", O_RDONLY) >= 0 ? 0 : -1; }
static long w_io_getevents(void)
{
    aio_context_t context = 0;
    struct io_event got;
    struct timespec limit = second;
    syscall(SYS_io_setup, 1, &context);
    return syscall(SYS_io_getevents, context, 1, 1, &got, &limit);
}

#define WAIT(name) {#name, w_##name}
static const struct {
    const char *name;
    long (*run)(void);
} waits[] = {
    WAIT(nanosleep),   WAIT(clock_nanosleep), WAIT(poll),         WAIT(poll_nothing),
    WAIT(ppoll),       WAIT(select),          WAIT(epoll_wait),   WAIT(epoll_pwait),
    WAIT(read_pipe),   WAIT(write_pipe),      WAIT(read_event),   WAIT(read_timer),
    WAIT(read_signal), WAIT(read_watch),      WAIT(recv),         WAIT(recv_limited),
    WAIT(accept_limited), WAIT(futex),        WAIT(futex_limited), WAIT(wait4),
    WAIT(sigtimedwait), WAIT(pause),          WAIT(sigsuspend),   WAIT(epoll_handled),
    WAIT(semop),       WAIT(semtimedop),      WAIT(msgrcv),       WAIT(mq_receive),
    WAIT(flock),       WAIT(setlkw),          WAIT(open_fifo),    WAIT(io_getevents),
};
enum { COUNT = sizeof waits / sizeof waits[0] };

static void set_up(void)
{
    static char page[65536];
    struct flock all = {F_WRLCK, SEEK_SET, 0, 0, 0};
    struct mq_attr small = {0, 1, 8, 0, {0}};
    struct sigaction action = {.sa_handler = handle};
    sigset_t blocked;
    sigaction(SIGUSR1, &action, NULL);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    pipe(gate);
    pipe(full);
    while (write(full[1], page, sizeof page) != sizeof page) {
    }
    event = eventfd(0, EFD_SEMAPHORE);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    strcpy(address.sun_path, "listener");
    bind(listener, (struct sockaddr *)&address, sizeof address);
    listen(listener, 1);
    word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sem = semget(IPC_PRIVATE, 1, 0600);
    queue = msgget(IPC_PRIVATE, 0600);
    char name[32];
    sprintf(name, "/waits-%d", getpid());
    messages = mq_open(name, O_RDWR | O_CREAT, 0600, &small);
    mq_unlink(name);
    locked = open("lock", O_RDWR | O_CREAT, 0600);
    flock(locked, LOCK_EX);
    fcntl(open("record", O_RDWR | O_CREAT, 0600), F_SETLK, &all);
    watch = inotify_init();
    inotify_add_watch(watch, ".", IN_CREATE);
    mkfifo("fifo", 0600);
}

static void release(const pid_t *children)
{
    static char page[65536];
    struct { long type; char byte; } message = {1, 'x'};
    struct sembuf give = {0, 2, 0};
    long ones = 8;
    write(gate[1], "0123456789", 10);
    write(event, &ones, 8);
    write(pair[1], "0123456789", 10);
    read(full[0], page, sizeof page);
    *word = 1;
    syscall(SYS_futex, word, FUTEX_WAKE, 99, NULL, NULL, 0);
    connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address);
    semop(sem, &give, 1);
    msgsnd(queue, &message, 1, 0);
    mq_send(messages, "x", 1, 0);
    close(open("created", O_RDWR | O_CREAT, 0600));
    open("fifo", O_RDWR);
    for (int i = 0; i < COUNT; i++) {
        kill(children[i], SIGUSR2);
        if (strcmp(waits[i].name, "pause") == 0 || strcmp(waits[i].name, "sigsuspend") == 0 ||
            strcmp(waits[i].name, "epoll_handled") == 0)
            kill(children[i], SIGUSR1);
    }
    flock(locked, LOCK_UN);
    close(open("record", O_RDWR)); /* drops this process' locks on it */
}

int main(void)
{
    pid_t children[COUNT];
    char byte;
    set_up();
    for (int i = 0; i < COUNT; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            prctl(PR_SET_NAME, waits[i].name);
            errno = 0;
            long result = waits[i].run();
            int error = errno;
            char line[128];
            int length = result == 0
                             ? sprintf(line, "%s ok\n", waits[i].name)
                             : sprintf(line, "%s %ld %s\n", waits[i].name, result, strerror(error));
            write(1, line, length);
            _exit(0);
        }
    }
    while (read(0, &byte, 1) > 0 || errno == EINTR) {
    }
    release(children);
    for (int i = 0; i < COUNT; i++)
        waitpid(children[i], NULL, 0);
    semctl(sem, 0, IPC_RMID);
    msgctl(queue, IPC_RMID, NULL);
    return 0;
}
