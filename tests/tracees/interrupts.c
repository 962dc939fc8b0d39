/* Signals come all the time to a process that has a handler for them without SA_RESTART, while its threads make calls that no signal
 * interrupts. So they come to its child, which has the same handler. `interrupts ROUNDS`. Prints "interrupts ok". */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t told;
static int rounds;

static void handle(int signal) {
    (void)signal;
    told++;
}

static void check(long result, const char *what) {
    if (result >= 0)
        return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    _exit(99);
}

static void repeat(long microseconds) {
    struct itimerval every = {{0, microseconds}, {0, microseconds}};
    check(setitimer(ITIMER_REAL, &every, NULL), "setitimer");
}

/* At least until a signal has come: a fast machine makes a few rounds before the first. */
static void *call(void *name) {
    for (int round = 0; round < rounds || !told; round++) {
        struct stat there;
        int ends[2];
        check(stat("/", &there), "stat");
        check(access("/etc", R_OK), "access");
        int file = open("/etc/passwd", O_RDONLY);
        check(file, "open");
        check(lseek(file, 0, SEEK_END), "lseek");
        check(close(file), "close");
        check(pipe(ends), "pipe");
        close(ends[0]);
        close(ends[1]);
        file = open(name, O_CREAT | O_WRONLY, 0600);
        check(file, "create");
        close(file);
        check(unlink(name), "unlink");
    }
    return NULL;
}

static void call_together(char *names[2]) {
    pthread_t other;
    if (pthread_create(&other, NULL, call, names[0]) != 0)
        _exit(98);
    call(names[1]);
    pthread_join(other, NULL);
}

int main(int count, char **arguments) {
    rounds = count > 1 ? atoi(arguments[1]) : 10;
    struct sigaction action = {.sa_handler = handle};
    check(sigaction(SIGALRM, &action, NULL), "sigaction");
    repeat(300);
    call("alone");
    call_together((char *[2]){"one", "other"});
    pid_t child = fork();
    check(child, "fork");
    if (child == 0) {
        /* The timer is its parent's. */
        told = 0;
        repeat(300);
        call_together((char *[2]){"childs", "grown"});
        _exit(told ? 0 : 97);
    }
    int status;
    while (waitpid(child, &status, 0) != child)
        if (errno != EINTR)
            check(-1, "waitpid");
    repeat(0);
    if (!told || status != 0)
        return 1;
    puts("interrupts ok");
    return 0;
}
