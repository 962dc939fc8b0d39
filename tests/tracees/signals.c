/* A signal comes from its supervisor, and is taken once, by the handler and the mask that were there at the
 * checkpoint, with all that is told of it. It asks its supervisor as image.c does.
 *
 * signals halted: the signal comes while a rollback goes on. signals taken: the rollback comes when the
 * signal is about to be taken. signals fatal: no handler is there, so it ends here, without a word.
 * signals taken trapped: a SIGTRAP comes then, too. Prints "signals ok after N". */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define COMMAND 0x5bec0000L
enum { TAKE = 1, BACK, DISCARD };

static long ask(long what) { return syscall(SYS_kill, COMMAND, what); }

static volatile int taken, sender, code, wrong;

static void take(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    taken++;
    sender = info->si_pid;
    code = info->si_code;
}

static volatile int trapped;

static void trap(int signal) {
    (void)signal;
    trapped++;
}

static void take_wrongly(int signal) {
    (void)signal;
    wrong++;
}

static void fail(long round, const char *what) {
    printf("round %ld: %s: taken %d, sender %d, code %d, wrong %d\n", round, what, taken, sender, code,
           wrong);
    fflush(stdout);
    _exit(3);
}

int main(int count, char **arguments) {
    if (count < 2)
        return 2;
    struct sigaction action = {.sa_sigaction = take, .sa_flags = SA_SIGINFO};
    if (strcmp(arguments[1], "fatal") != 0)
        sigaction(SIGUSR1, &action, 0);
    signal(SIGTRAP, trap);
    sigset_t blocked, other, pending;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    sigprocmask(SIG_BLOCK, &blocked, 0);
    sigqueue(getpid(), SIGUSR2, (union sigval){.sival_int = 42});

    long round = ask(TAKE);

    sigpending(&pending);
    if (!sigismember(&pending, SIGUSR2))
        fail(round, "what is blocked does not wait any more");
    if (taken != (round > 0) || wrong)
        fail(round, "it was not taken once");
    if (round > 0 && (sender != getppid() || code != SI_USER))
        fail(round, "it is not told who sent it");
    if (trapped != (round > 0 && count > 2))
        fail(round, "a second signal was not taken once");
    taken += 100;
    signal(SIGUSR1, take_wrongly);
    sigemptyset(&other);
    sigaddset(&other, SIGUSR1);
    if (strcmp(arguments[1], "taken") != 0)
        sigprocmask(SIG_BLOCK, &other, 0);

    ask(BACK);

    siginfo_t info = {0};
    if (sigtimedwait(&blocked, &info, &(struct timespec){0, 0}) != SIGUSR2 || info.si_value.sival_int != 42)
        fail(round, "what was blocked is not what it was");
    ask(DISCARD);
    printf("signals ok after %ld\n", round);
    return 0;
}
