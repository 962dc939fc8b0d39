/* Has a timer send signals while it looks around, and sets it anew whenever it reads less of a file than there is, which never
 * happens. Each timer sends one signal, or none if it is set anew before. Prints "alarms ok". */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { LENGTH = 1000, ROUNDS = 40, LONG = 20 * 1000 * 1000, SHORT = 2000, WRONG = 100 };

static volatile sig_atomic_t alarms;

static void handle(int signal) {
    (void)signal;
    alarms++;
}

static int is_wrong(int other) {
    char part[100];
    int wrong = 0;
    for (int time = 0; time < 3; time++)
        wrong |= pread(other, part, sizeof part, 0) != sizeof part;
    return wrong;
}

/* Sets the timer to so many microseconds. Returns how many were left. */
static long set(long left) {
    struct itimerval timer = {{0, 0}, {left / 1000000, left % 1000000}}, before;
    setitimer(ITIMER_REAL, &timer, &before);
    return before.it_value.tv_sec * 1000000 + before.it_value.tv_usec;
}

static int check(int round, const char *what, int is_so) {
    if (!is_so)
        printf("round %d: %s\n", round, what);
    return !is_so;
}

int main(void) {
    char bytes[LENGTH] = {0};
    int other = open("other", O_CREAT | O_RDWR | O_TRUNC, 0600), wrong = 0;
    (void)!write(other, bytes, LENGTH);
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    for (int round = 0; round < ROUNDS; round++) {
        int before = alarms;
        wrong |= check(round, "it is armed", set(SHORT) == 0);
        while (alarms == before)
            is_wrong(other);
        wrong |= check(round, "not one alarm", alarms == before + 1);
        set(LONG);
        if (is_wrong(other)) {
            set(WRONG);
            while (alarms == before + 1)
                ;
        }
        long left = set(0);
        wrong |= check(round, "it is not as it was set", left > LONG / 2 && left <= LONG);
        wrong |= check(round, "an alarm that was not due", alarms == before + 1);
    }
    if (!wrong)
        puts("alarms ok");
    return wrong;
}
