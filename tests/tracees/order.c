/* Signals that wait for two threads and for their process at a checkpoint come in the order in which they were
 * sent, with all that is told of them, to whom they were sent. They are taken after it; the rollback comes when
 * a thread is about to take the first one. It asks its supervisor as image.c does. Prints "order ok after N". */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COMMAND 0x5bec0000L
enum { TAKE = 1, BACK, DISCARD };
enum { WAITING = 40 };

static long ask(long what) { return syscall(SYS_kill, COMMAND, what); }

static struct {
    int signal, code, value, thread;
} got[4 * WAITING];
static volatile int count, is_open, is_ready, ended, other;
static sigset_t blocked;

static int number(void) { return (int)syscall(SYS_gettid); }

static void take(int signal, siginfo_t *info, void *context) {
    (void)context;
    int place = __atomic_fetch_add(&count, 1, __ATOMIC_SEQ_CST);
    got[place].signal = signal;
    got[place].code = info->si_code;
    got[place].value = info->si_value.sival_int;
    got[place].thread = number();
}

static void *work(void *none) {
    other = number();
    is_ready = 1;
    while (!is_open)
        usleep(100);
    sigset_t own = blocked;
    sigdelset(&own, SIGRTMIN);
    pthread_sigmask(SIG_UNBLOCK, &own, 0);
    while (!ended)
        usleep(100);
    return none;
}

static void send_to(int thread, int value) {
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_code = -100 - value;
    info.si_value.sival_int = value;
    syscall(SYS_rt_tgsigqueueinfo, getpid(), thread, SIGRTMIN + 1, &info);
}

/* How many of a signal came to a thread; -1 if they did not in order. */
static int came(int signal, int thread, int code) {
    int next = 0;
    for (int i = 0; i < count; i++) {
        if (got[i].signal != signal || got[i].thread != thread)
            continue;
        if (got[i].value != next || got[i].code != (code == SI_QUEUE ? code : code - next))
            return -1;
        next++;
    }
    return next;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = take, .sa_flags = SA_SIGINFO | SA_RESTART};
    pthread_t thread;
    sigfillset(&action.sa_mask);
    sigaction(SIGRTMIN, &action, 0);
    sigaction(SIGRTMIN + 1, &action, 0);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGRTMIN);
    sigaddset(&blocked, SIGRTMIN + 1);
    sigprocmask(SIG_BLOCK, &blocked, 0);
    pthread_create(&thread, 0, work, 0);
    while (!is_ready)
        usleep(100);
    for (int i = 0; i < WAITING; i++) {
        sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i});
        send_to(other, i);
        send_to(number(), i);
    }

    long round = ask(TAKE);

    is_open = 1;
    sigprocmask(SIG_UNBLOCK, &blocked, 0);
    for (int i = 0; i < 100000 && count < 3 * WAITING; i++)
        usleep(100);
    ask(DISCARD);
    ended = 1;
    pthread_join(thread, 0);
    int shared = came(SIGRTMIN, number(), SI_QUEUE), own = came(SIGRTMIN + 1, number(), -100),
        others = came(SIGRTMIN + 1, other, -100);
    if (count == 3 * WAITING && shared == WAITING && own == WAITING && others == WAITING)
        printf("order ok after %ld\n", round);
    else
        printf("round %ld: of %d came %d, %d and %d\n", round, count, shared, own, others);
    return 0;
}
