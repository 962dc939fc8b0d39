/* Two processes send each other signals, each when it has taken the one before, and look around meanwhile. Each checks of every signal
 * who has sent it and how, and that a signal to itself is taken before it goes on. Prints "kicks ok". */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LENGTH = 1000, ROUNDS = 40, CALLS = 6 };

static volatile sig_atomic_t taken, own, wrong;
static volatile pid_t other;

static void complain(const char *what, int round) {
    printf("%s: %d, %d taken of the other, %d of its own\n", what, round, (int)taken, (int)own);
    fflush(stdout);
    /* It would wait for ever. */
    kill(other, SIGKILL);
    _exit(1);
}

static void handle(int signal, siginfo_t *info, void *context) {
    (void)context;
    int by_thread = info->si_code == SI_TKILL, from = signal == SIGTERM ? getpid() : other;
    if ((!by_thread && info->si_code != SI_USER) || info->si_pid != from || info->si_uid != getuid())
        wrong++;
    /* The first is sent by kill, the second by tgkill, and so on. */
    if (signal != SIGTERM && by_thread != taken % 2)
        wrong++;
    signal == SIGTERM ? own++ : taken++;
}

static void look(int file) {
    char part[100];
    for (int call = 0; call < CALLS; call++) {
        (void)!pread(file, part, sizeof part, 0);
        (void)!access("other", F_OK);
    }
}

/* Sleeps for a moment, or until a signal comes. */
static void sleep_by(int round) {
    struct timespec moment = {0, 2000000};
    struct timeval same = {0, 2000};
    switch (round % 3) {
    case 0: nanosleep(&moment, 0); break;
    case 1: select(0, 0, 0, 0, &same); break;
    default: poll(0, 0, 2); break;
    }
}

static void await(int round) {
    while (taken < round)
        sleep_by(round);
    if (taken != round || wrong)
        complain("round", round);
}

static void kick(int round, int signal) {
    int sent = round % 2 ? kill(other, signal) : syscall(SYS_tgkill, other, other, signal);
    if (sent != 0 || kill(other, 0) != 0 || kill(getpid(), 0) != 0)
        complain("a kick failed", round);
    raise(SIGTERM);
    if (own != round)
        complain("a signal to itself", round);
}

static void play(int file, int begins) {
    for (int round = 1; round <= ROUNDS; round++) {
        look(file);
        if (begins)
            kick(round, SIGUSR1);
        await(round);
        look(file);
        if (!begins)
            kick(round, SIGUSR2);
    }
}

int main(void) {
    char bytes[LENGTH] = {0};
    int file = open("other", O_CREAT | O_RDWR | O_TRUNC, 0600), status;
    (void)!write(file, bytes, LENGTH);
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    int signals[] = {SIGUSR1, SIGUSR2, SIGTERM};
    for (int place = 0; place < 3; place++) {
        action.sa_flags ^= SA_RESTART;
        sigaction(signals[place], &action, 0);
    }
    other = getpid();
    pid_t child = fork();
    if (child != 0)
        other = child;
    play(file, child != 0);
    if (child == 0)
        return 0;
    while (waitpid(child, &status, 0) < 0) {
    }
    if (status == 0)
        puts("kicks ok");
    return status != 0;
}
