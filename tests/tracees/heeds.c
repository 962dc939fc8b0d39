/* Parents that sleep until a signal tells them that a child has ended, in each call that a signal ends. The handler
 * checks what it is told, and the child is collected after that without waiting. It prints "NAME ok" for each way, or
 * what was wrong. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 3, A_WHILE = 50, LONG = 30000 };

static volatile sig_atomic_t handled, last_child, last_status, last_code;
static const char *name;
static int queue;

static void is(const char *what, long got, long wanted)
{
    if (got == wanted)
        return;
    printf("%s: %s is %ld, not %ld\n", name, what, got, wanted);
    exit(1);
}

static void handle(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    handled++;
    last_child = info->si_pid;
    last_status = info->si_status;
    last_code = info->si_code;
}

static sigset_t none(void)
{
    sigset_t none;
    sigemptyset(&none);
    return none;
}

/* A call whose mask is nowhere fails, whatever has ended meanwhile. */
static int by_nothing(void)
{
    void *nowhere = (void *)8;
    for (int times = 0; times < 300; times++) {
        is("without a mask", syscall(SYS_ppoll, NULL, 0, NULL, nowhere, 8), -1);
        is("its error", errno, EFAULT);
    }
    return poll(NULL, 0, A_WHILE);
}

/* Where the signal is blocked but in the call, none is missed. */
static int by_pselect(void)
{
    sigset_t mask = none();
    return pselect(0, NULL, NULL, NULL, NULL, &mask);
}

static int by_ppoll(void)
{
    sigset_t mask = none();
    return ppoll(NULL, 0, NULL, &mask);
}

static int by_epoll(void)
{
    sigset_t mask = none();
    struct epoll_event event;
    return epoll_pwait(queue, &event, 1, LONG, &mask);
}

static int by_suspension(void)
{
    sigset_t mask = none();
    return sigsuspend(&mask);
}

/* Where it is not, one may come before the call, so that does not wait for ever. */
static int by_poll(void)
{
    return poll(NULL, 0, A_WHILE);
}

static int by_select(void)
{
    struct timeval time = {0, A_WHILE * 1000};
    return select(0, NULL, NULL, NULL, &time);
}

static int by_waiting(void)
{
    struct epoll_event event;
    return epoll_wait(queue, &event, 1, A_WHILE);
}

static void try(const char *way, int (*sleeps)(void), int is_blocked)
{
    sigset_t ends;
    name = way;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    sigprocmask(is_blocked ? SIG_BLOCK : SIG_UNBLOCK, &ends, NULL);
    for (int number = 1; number <= CHILDREN; number++) {
        char file[32];
        pid_t child;
        int status;
        handled = 0;
        child = fork();
        if (!child) {
            /* So often that it is not taken for one that is about to execute a program. */
            for (int times = 0; times < 20; times++) {
                is("what is at /none", access("/none", F_OK), -1);
                is("what is at /etc/passwd", access("/etc/passwd", R_OK), 0);
            }
            snprintf(file, sizeof file, "%s%d", way, number);
            is("a new file", close(open(file, O_WRONLY | O_CREAT, 0644)), 0);
            _exit(10 * number);
        }
        while (!handled) {
            int told = sleeps();
            if (told == 0 && !is_blocked)
                continue;
            is("what it is told", told, -1);
            is("its error", errno, EINTR);
        }
        is("the child", last_child, child);
        is("its status", last_status, 10 * number);
        is("the code", last_code, CLD_EXITED);
        is("who has ended", waitpid(-1, &status, WNOHANG), child);
        is("how", status, 10 * number << 8);
        is("who is left", waitpid(-1, &status, WNOHANG), -1);
        snprintf(file, sizeof file, "%s%d", way, number);
        is("the file of the child", access(file, F_OK), 0);
    }
    printf("%s ok\n", way);
    fflush(stdout);
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGCHLD, &action, NULL);
    queue = epoll_create1(EPOLL_CLOEXEC);
    try("pselect", by_pselect, 1);
    try("ppoll", by_ppoll, 1);
    try("epoll_pwait", by_epoll, 1);
    try("sigsuspend", by_suspension, 1);
    try("poll", by_poll, 0);
    try("select", by_select, 0);
    try("epoll_wait", by_waiting, 0);
    try("nothing", by_nothing, 0);
    return 0;
}
