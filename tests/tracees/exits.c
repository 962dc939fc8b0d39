/* Parents that collect children in every way, and check all that they are told of them. Each child looks at
 * names before it ends, and at names that are not there: what it is told may be wrong for a while. It prints
 * "NAME ok" for each way, or what was wrong. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t handled, last_child, last_status, last_code;
static const char *name;

static void fail(const char *what, long got, long wanted)
{
    printf("%s: %s is %ld, not %ld\n", name, what, got, wanted);
    exit(1);
}

static void is(const char *what, long got, long wanted)
{
    if (got != wanted)
        fail(what, got, wanted);
}

static void handle(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    handled++;
    last_child = info->si_pid;
    last_status = info->si_status;
    last_code = info->si_code;
}

static void look(void)
{
    struct stat told;
    is("stat of /", stat("/", &told), 0);
    is("what is at /none", access("/none", F_OK), -1);
    is("its error", errno, ENOENT);
    is("what is at /etc/passwd", access("/etc/passwd", R_OK), 0);
}

static pid_t bear(int status)
{
    pid_t child;
    fflush(stdout);
    child = fork();
    if (child == 0) {
        look();
        _exit(status);
    }
    return child;
}

static void no_children(void)
{
    is("a further child", waitpid(-1, NULL, WNOHANG), -1);
    is("the error without children", errno, ECHILD);
}

static void by_wait4(void)
{
    for (int status = 0; status < 5; status++) {
        struct rusage usage = {0};
        int told = -1;
        pid_t child = bear(50 * status);
        is("the child", wait4(-1, &told, 0, &usage), child);
        is("an exit", WIFEXITED(told), 1);
        is("the status", WEXITSTATUS(told), 50 * status);
        is("use of memory", usage.ru_maxrss > 100, 1);
        no_children();
        look();
    }
}

static void by_number_and_group(void)
{
    pid_t first = bear(1), second = bear(2), third = bear(3);
    int told;
    is("the second", waitpid(second, &told, 0), second);
    is("its status", WEXITSTATUS(told), 2);
    is("the second once more", waitpid(second, &told, 0), -1);
    is("its error", errno, ECHILD);
    pid_t one = waitpid(0, &told, 0);
    is("one of the group", one == first || one == third, 1);
    is("its status", WEXITSTATUS(told), one == first ? 1 : 3);
    pid_t other = waitpid(-getpgrp(), &told, 0);
    is("the other", other, one == first ? third : first);
    no_children();
}

static void by_waitid(void)
{
    for (int status = 1; status < 5; status++) {
        siginfo_t info;
        memset(&info, 1, sizeof info);
        pid_t child = bear(status);
        idtype_t kind = status % 2 ? P_ALL : P_PID;
        is("waitid", waitid(kind, child, &info, WEXITED), 0);
        is("the child", info.si_pid, child);
        is("the code", info.si_code, CLD_EXITED);
        is("the status", info.si_status, status);
        is("the user", info.si_uid, getuid());
        is("the signal", info.si_signo, SIGCHLD);
        no_children();
    }
    /* Looking does not collect. */
    siginfo_t info;
    pid_t child = bear(9);
    is("a look", waitid(P_PID, child, &info, WEXITED | WNOWAIT), 0);
    is("the child looked at", info.si_pid, child);
    is("the child after all", waitpid(child, NULL, 0), child);
}

static void by_looking_often(void)
{
    int told, status = 7;
    pid_t child = bear(status), found;
    struct timespec pause = {0, 1000000};
    while ((found = waitpid(-1, &told, WNOHANG)) == 0)
        nanosleep(&pause, NULL);
    is("the child", found, child);
    is("the status", WEXITSTATUS(told), status);
    no_children();
}

static void with_handler(int blocked)
{
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaction(SIGCHLD, &action, NULL);
    for (int status = 0; status < 4; status++) {
        int told, before = handled;
        if (blocked)
            sigprocmask(SIG_BLOCK, &set, &old);
        pid_t child = bear(status);
        is("the child", waitpid(-1, &told, 0), child);
        is("the status", WEXITSTATUS(told), status);
        if (blocked) {
            is("signals while they are blocked", handled - before, 0);
            look();
            sigprocmask(SIG_SETMASK, &old, NULL);
        }
        is("signals", handled - before, 1);
        is("the signal's child", last_child, child);
        is("the signal's status", last_status, status);
        is("the signal's code", last_code, CLD_EXITED);
        look();
    }
    /* As a shell waits for a job. */
    int told, before = handled;
    sigprocmask(SIG_BLOCK, &set, &old);
    pid_t child = bear(5);
    while (handled == before)
        sigsuspend(&old);
    sigprocmask(SIG_SETMASK, &old, NULL);
    is("the child that was told of", last_child, child);
    is("that child", waitpid(child, &told, WNOHANG), child);
    is("signals in all", handled - before, 1);
    signal(SIGCHLD, SIG_DFL);
}

static void in_the_open(void) { with_handler(0); }
static void behind_a_mask(void) { with_handler(1); }

static void of_signals(void)
{
    int told;
    static const int signals[] = {SIGKILL, SIGSEGV, SIGTERM, SIGABRT};
    for (int place = 0; place < 4; place++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            struct rlimit none = {0, 0};
            setrlimit(RLIMIT_CORE, &none);
            look();
            raise(signals[place]);
            _exit(99);
        }
        is("the child", waitpid(child, &told, 0), child);
        is("an end by a signal", WIFSIGNALED(told), 1);
        is("the signal", WTERMSIG(told), signals[place]);
    }
}

static void of_grandchildren(void)
{
    for (int depth = 1; depth < 5; depth++) {
        int told;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            for (int below = 1; below < depth; below++) {
                pid_t next = fork();
                if (next != 0) {
                    look();
                    is("the grandchild", waitpid(next, &told, 0), next);
                    _exit(WEXITSTATUS(told) + 1);
                }
            }
            look();
            _exit(10);
        }
        is("the child", waitpid(child, &told, 0), child);
        is("the status", WEXITSTATUS(told), 10 + depth - 1);
    }
}

static void of_many(void)
{
    enum { MANY = 8 };
    pid_t children[MANY];
    int sum = 0, told;
    for (int place = 0; place < MANY; place++)
        children[place] = bear(1 << place);
    for (int place = 0; place < MANY; place++) {
        pid_t child = wait(&told);
        for (int other = 0; other < MANY; other++)
            if (children[other] == child)
                is("the status", WEXITSTATUS(told), 1 << other);
        sum |= WEXITSTATUS(told);
        look();
    }
    is("all of them", sum, 255);
    no_children();
}

static void by_the_pipe(void)
{
    for (int status = 1; status < 4; status++) {
        int ends[2], told;
        char bytes[8];
        is("pipe", pipe(ends), 0);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            close(ends[0]);
            look();
            is("a write", write(ends[1], "abc", 3), 3);
            look();
            _exit(status);
        }
        close(ends[1]);
        is("what the child wrote", read(ends[0], bytes, sizeof bytes), 3);
        is("the child", waitpid(child, &told, 0), child);
        is("the status", WEXITSTATUS(told), status);
        struct pollfd one = {ends[0], POLLIN, 0};
        is("what there is to poll", poll(&one, 1, 0), 1);
        is("what is told of the pipe", one.revents, POLLHUP);
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
        is("the end of the pipe", read(ends[0], bytes, sizeof bytes), 0);
        close(ends[0]);
    }
}

static void and_gone(void)
{
    for (int status = 1; status < 4; status++) {
        pid_t child = bear(status);
        is("the child", waitpid(child, NULL, 0), child);
        is("its group", getpgid(child), -1);
        is("its error", errno, ESRCH);
        is("a signal to it", kill(child, 0), -1);
    }
}

int main(void)
{
    static const struct {
        const char *name;
        void (*check)(void);
    } all[] = {
        {"wait4", by_wait4},
        {"number and group", by_number_and_group},
        {"waitid", by_waitid},
        {"looking often", by_looking_often},
        {"handler", in_the_open},
        {"mask", behind_a_mask},
        {"signals", of_signals},
        {"grandchildren", of_grandchildren},
        {"many", of_many},
        {"pipe", by_the_pipe},
        {"gone", and_gone},
    };
    for (size_t place = 0; place < sizeof all / sizeof *all; place++) {
        name = all[place].name;
        all[place].check();
        printf("%s ok\n", name);
    }
    return 0;
}
