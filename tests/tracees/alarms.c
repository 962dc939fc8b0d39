/* Has a timer send signals while it looks around, and sets it anew whenever it reads less of a file than there is, which never
 * happens. Each timer sends one signal, or none if it is set anew before. Prints "alarms ok". */
#include <signal.h>
#include <sys/time.h>

#include "wrong.h"

enum { ROUNDS = 40, LONG = 20 * 1000 * 1000, SHORT = 2000, WRONG = 100 };

static volatile sig_atomic_t alarms;

static void handle(int signal) {
    (void)signal;
    alarms++;
}

/* Sets the timer to so many microseconds. Returns how many were left. */
static long set(long left) {
    struct itimerval timer = {{0, 0}, {left / 1000000, left % 1000000}}, before;
    setitimer(ITIMER_REAL, &timer, &before);
    return before.it_value.tv_sec * 1000000 + before.it_value.tv_usec;
}

int main(void) {
    int other = open_other();
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    for (int round = 0; round < ROUNDS; round++) {
        int before = alarms;
        check(round, "left of no timer", set(SHORT), 0);
        while (alarms == before)
            is_wrong(other);
        check(round, "alarms", alarms - before, 1);
        set(LONG);
        if (is_wrong(other)) {
            set(WRONG);
            while (alarms == before + 1)
                ;
        }
        long left = set(0);
        check(round, "the timer is as it was set", left > LONG / 2 && left <= LONG, 1);
        check(round, "alarms in the end", alarms - before, 1);
    }
    return checked("alarms ok");
}
