/* Is sent signals by a child, each when it has taken the one before, and looks around meanwhile. It takes each once, by a handler
 * that is set once. Prints "nudges ok". */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LENGTH = 1000, ROUNDS = 60, CALLS = 40 };

static volatile sig_atomic_t taken, sender;

static void handle(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    sender = info->si_pid;
    taken++;
}

static void look(int other) {
    char part[100];
    (void)!pread(other, part, sizeof part, 0);
}

static int nudge(int asked) {
    char byte;
    while (read(asked, &byte, 1) == 1)
        kill(getppid(), SIGUSR1);
    return 0;
}

int main(void) {
    char bytes[LENGTH] = {0};
    int other = open("other", O_CREAT | O_RDWR | O_TRUNC, 0600), wrong = 0, ends[2];
    (void)!write(other, bytes, LENGTH);
    (void)!pipe(ends);
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_RESTART | SA_RESETHAND};
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        return nudge(ends[0]);
    }
    close(ends[0]);
    for (int round = 1; round <= ROUNDS; round++) {
        sigaction(SIGUSR1, &action, 0);
        (void)!write(ends[1], "x", 1);
        while (taken < round)
            look(other);
        for (int call = 0; call < CALLS; call++)
            look(other);
        if (taken != round || sender != child) {
            printf("round %d: %d taken, the last from %d\n", round, (int)taken, (int)sender);
            wrong = 1;
        }
    }
    close(ends[1]);
    waitpid(child, 0, 0);
    if (!wrong)
        puts("nudges ok");
    return wrong;
}
