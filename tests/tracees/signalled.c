// Calls that sleep until a signal ends them, each as it does plainly whatever waits for a decision.
//
//     signalled again | masked | flock | setlkw | accept | recv
//
// Before the call its process is given a guess, if any is given.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static struct stat attributes;
static volatile sig_atomic_t first, second;

static void count(int number) {
    number == SIGUSR2 ? second++ : first++;
}

// Each time it is given guesses anew.
static void look(int number) {
    (void)number;
    stat("/usr", &attributes);
    stat("/usr/bin", &attributes);
}

static void handle(int number, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(number, &action, NULL);
}

static void tick(int microseconds) {
    struct itimerval often = {{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &often, NULL);
}

static int again(void) {
    handle(SIGALRM, look, SA_RESTART);
    tick(100000);
    stat("/usr", &attributes);
    // It waits, and would never have its turn if its handlers were guessed for ever.
    int told = kill(0, 0);
    tick(0);
    return printf("kill: %d\n", told) < 0;
}

// The call lets in the second signal alone, so that it does not end with the first.
static int masked(void) {
    handle(SIGUSR1, count, 0);
    handle(SIGUSR2, count, 0);
    pid_t sender = fork();
    if (sender == 0) {
        usleep(400000);
        kill(getppid(), SIGUSR1);
        usleep(400000);
        kill(getppid(), SIGUSR2);
        _exit(0);
    }
    sigset_t others;
    sigfillset(&others);
    sigdelset(&others, SIGUSR2);
    stat("/usr", &attributes);
    sigsuspend(&others);
    int ended = printf("sigsuspend: %d %d\n", first, second) < 0;
    waitpid(sender, NULL, 0);
    return ended;
}

static int locked(int by_flock) {
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int told[2];
    if (pipe(told) != 0)
        return 1;
    pid_t holder = fork();
    int file = open("lock", O_RDWR | O_CREAT, 0666);
    if (holder == 0) {
        by_flock ? flock(file, LOCK_EX) : fcntl(file, F_SETLK, &all);
        if (write(told[1], "x", 1) == 1)
            pause();
        _exit(1);
    }
    char got;
    if (read(told[0], &got, 1) != 1)
        return 1;
    stat("/usr", &attributes);
    tick(100000);
    int result = by_flock ? flock(file, LOCK_EX) : fcntl(file, F_SETLKW, &all);
    int error = errno;
    tick(0);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    return printf("lock: %d %s\n", result, strerror(error)) < 0;
}

static int connected(int accepts) {
    int pair[2], got;
    char byte;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        return 1;
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    // By a name of its own (unix(7)).
    struct sockaddr own = {.sa_family = AF_UNIX};
    if (bind(server, &own, sizeof(sa_family_t)) != 0 || listen(server, 1) != 0)
        return 1;
    stat("/usr", &attributes);
    tick(100000);
    got = accepts ? accept(server, NULL, NULL) : (int)recv(pair[0], &byte, 1, 0);
    int error = errno;
    tick(0);
    return printf("socket: %d %s\n", got, strerror(error)) < 0;
}

int main(int count_of_arguments, char **arguments) {
    const char *what = count_of_arguments == 2 ? arguments[1] : "";
    handle(SIGALRM, count, 0);
    if (strcmp(what, "again") == 0)
        return again();
    if (strcmp(what, "masked") == 0)
        return masked();
    if (strcmp(what, "flock") == 0 || strcmp(what, "setlkw") == 0)
        return locked(what[0] == 'f');
    if (strcmp(what, "accept") == 0 || strcmp(what, "recv") == 0)
        return connected(what[0] == 'a');
    return 2;
}
