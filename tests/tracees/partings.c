/* Children exit while their parent, which catches the signal that tells of that, makes calls that no signal interrupts.
 * `partings ROUNDS`. Prints "partings ok" and how many children there were. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t told;

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

int main(int count, char **arguments) {
    int rounds = count > 1 ? atoi(arguments[1]) : 10, children = 0;
    /* Without SA_RESTART. */
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGCHLD, &action, NULL);
    for (int round = 0; round < rounds; round++) {
        int ends[2];
        struct stat there;
        for (int number = 0; number < 3; number++) {
            pid_t child = fork();
            check(child, "fork");
            if (child == 0) {
                stat(".", &there);
                _exit(number);
            }
            children++;
            check(pipe(ends), "pipe");
            check(stat("/", &there), "stat");
            check(dup2(ends[0], ends[1]), "dup2");
            close(ends[0]);
            close(ends[1]);
            int file = open("/etc/passwd", O_RDONLY);
            check(file, "open");
            check(lseek(file, 0, SEEK_END), "lseek");
            close(file);
        }
        for (int number = 0; number < 3;)
            if (wait(NULL) > 0)
                number++;
            else if (errno != EINTR)
                check(-1, "wait");
    }
    if (!told)
        return 1;
    printf("partings ok after %d\n", children);
    return 0;
}
