/* Looks around until a handler of SIGCHLD has reaped a child, in rounds: children that exit at once or later, and that a signal
 * ends. Each is told of by one signal and reaped once. Prints "reaps ok". */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

#include "wrong.h"

enum { ROUNDS = 24, LATER = 40 * 1000 * 1000 };

static volatile sig_atomic_t signals, reaped, last_child, last_status;
static int other;

static int finds_wrong(void) {
    return access("other", F_OK) != 0 || is_wrong(other);
}

static void handle(int signal) {
    (void)signal;
    int error = errno, status, child;
    signals++;
    while ((child = waitpid(-1, &status, WNOHANG)) > 0) {
        reaped++;
        last_child = child;
        last_status = status;
    }
    if (finds_wrong())
        reaped += 100;
    errno = error;
}

static void end(int round) {
    if (round % 2 != 0) {
        struct timespec time = {0, LATER};
        nanosleep(&time, 0);
    }
    if (round % 4 == 3)
        raise(SIGKILL);
    _exit(round);
}

int main(void) {
    other = open_other();
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigaction(SIGCHLD, &action, 0);
    for (int round = 0; round < ROUNDS; round++) {
        signals = reaped = 0;
        int child = fork();
        if (child == 0)
            end(round);
        while (signals == 0)
            if (finds_wrong())
                reaped += 10;
        check(round, "signals", signals, 1);
        check(round, "reaped", reaped, 1);
        check(round, "the child", last_child, child);
        check(round, "the status", last_status, round % 4 == 3 ? SIGKILL : round << 8);
        check(round, "another", waitpid(-1, 0, WNOHANG), -1);
        check(round, "for", errno, ECHILD);
    }
    return checked("reaps ok");
}
