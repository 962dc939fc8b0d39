/* Its supervisor gives it signals while it waits in calls, which tell the supervisor how: a kill(2) that is addressed to nobody.
 * Prints what became of each call: how often it was heard, or EINTR, and how many signals were taken meanwhile. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COMMAND 0x5bec0000L
enum { NOT_BEGUN, FAILS, MAY_BEGIN_AGAIN };

static volatile sig_atomic_t taken;

static void take(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    if (info->si_code == SI_USER && info->si_pid == 77 && info->si_uid == 5)
        taken++;
}

static void wait_in_call(const char *name, int way, int signal) {
    taken = 0;
    long heard = syscall(SYS_kill, COMMAND, way | signal << 8);
    if (heard < 0 && errno == EINTR)
        printf("%s: EINTR, %d taken\n", name, (int)taken);
    else
        printf("%s: heard %ld times, %d taken\n", name, heard, (int)taken);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = take, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, 0);
    action.sa_flags |= SA_RESTART;
    sigaction(SIGUSR2, &action, 0);
    signal(SIGURG, SIG_IGN);
    wait_in_call("not begun", NOT_BEGUN, SIGUSR1);
    wait_in_call("fails", FAILS, SIGUSR2);
    wait_in_call("fails by its handler", MAY_BEGIN_AGAIN, SIGUSR1);
    wait_in_call("begins again by its handler", MAY_BEGIN_AGAIN, SIGUSR2);
    wait_in_call("ignored", FAILS, SIGURG);
    wait_in_call("deadly", NOT_BEGUN, SIGHUP);
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, 0);
    wait_in_call("blocked", NOT_BEGUN, SIGUSR1);
    wait_in_call("another is blocked", NOT_BEGUN, SIGUSR2);
    return 0;
}
