/* Counts the real-time signals that its child sends, which queue: none may be lost, none may come
 * twice. Prints the count when standard input ends. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t count;

static void handle(int signal)
{
    (void)signal;
    count++;
}

int main(void)
{
    struct sigaction action = {.sa_handler = handle};
    union sigval none = {0};
    char byte;
    sigaction(SIGRTMIN, &action, NULL);
    if (fork() == 0) {
        write(1, "ready\n", 6);
        for (int i = 0; i < 2000; i++) {
            sigqueue(getppid(), SIGRTMIN, none);
            usleep(100);
        }
        write(1, "sent\n", 5);
        _exit(0);
    }
    while (read(0, &byte, 1) > 0 || errno == EINTR)
        errno = 0;
    printf("count %d\n", count);
    return 0;
}
