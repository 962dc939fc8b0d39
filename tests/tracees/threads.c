/* As image.c, for a process of five threads: one waits for a condition, one sleeps, one waits for events,
 * one computes; threads are born and a descriptor is closed after the checkpoint. Prints "threads ok after N". */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define COMMAND 0x5bec0000L

static long ask(long what) { return syscall(SYS_kill, COMMAND, what); }

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static volatile long work, done, stop, one, other, phase;
static volatile int errors;
static int events;
static pthread_t threads[5];

static void fail(const char *what) {
    printf("%s: %s\n", what, strerror(errno));
    errors++;
}

/* Each of its works ends with another signal stack and another name, which it has until the next. */
static void change_own(long last, long next) {
    static char stacks[2][1 << 15];
    char name[16] = "", wanted[16];
    stack_t now, other = {.ss_sp = stacks[next % 2], .ss_size = sizeof stacks[0]};
    snprintf(wanted, sizeof wanted, "work %ld", last);
    prctl(PR_GET_NAME, name);
    if (last && (sigaltstack(0, &now) || now.ss_sp != stacks[last % 2]))
        fail("another signal stack");
    if (last && strcmp(name, wanted))
        fail("another name");
    snprintf(wanted, sizeof wanted, "work %ld", next);
    if (sigaltstack(&other, 0) || prctl(PR_SET_NAME, wanted))
        fail("a thread changes nothing");
}

static void *waits(void *none) {
    long last = 0;
    pthread_mutex_lock(&mutex);
    while (!stop) {
        while (work == last && !stop)
            pthread_cond_wait(&condition, &mutex);
        if (work != last)
            change_own(last, work);
        done = last = work;
        pthread_cond_broadcast(&condition);
    }
    pthread_mutex_unlock(&mutex);
    return none;
}

static void *sleeps(void *none) {
    while (!stop) {
        struct timespec time = {0, 3000000};
        if (nanosleep(&time, 0))
            fail("nanosleep");
    }
    return none;
}

static void *polls(void *none) {
    while (!stop) {
        struct epoll_event event;
        if (epoll_wait(events, &event, 1, 20) < 0)
            fail("epoll_wait");
    }
    return none;
}

static void *computes(void *none) {
    double number = 1;
    while (!stop) {
        for (int i = 0; i < 1000; i++) {
            one++;
            number = number * 1.0000001 + 0.5;
            other++;
        }
        if (one != other)
            errno = 0, fail("two counters differ");
    }
    return number > 0 ? none : threads;
}

/* Born after the checkpoint; ends after the decision. */
static void *lingers(void *none) {
    while (!stop) {
        struct timespec time = {0, 1000000};
        nanosleep(&time, 0);
    }
    return none;
}

static void advance(void) {
    pthread_mutex_lock(&mutex);
    work++;
    pthread_cond_broadcast(&condition);
    while (done != work)
        pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
}

int main(void) {
    events = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(events, EPOLL_CTL_ADD, eventfd(0, 0), &event);
    void *(*bodies[])(void *) = {waits, sleeps, polls, computes};
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], 0, bodies[i], 0);
    advance();
    usleep(5000);
    volatile long local = 11;
    int spare = eventfd(0, 0);

    long round = ask(1);

    if (local != 11 || work != 1 || done != 1 || phase != 0) {
        printf("round %ld: local %ld work %ld done %ld phase %ld\n", round, local, work, done, phase);
        fflush(stdout);
        _exit(3);
    }
    if (close(spare)) {
        printf("round %ld: a descriptor is not there again\n", round);
        fflush(stdout);
        _exit(5);
    }
    struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    if ((int)area->cpu_id < 0) {
        printf("round %ld: no restartable sequences\n", round);
        fflush(stdout);
        _exit(4);
    }
    local = round + 100;
    phase = 1;
    for (int i = 0; i < 3; i++)
        advance();
    pthread_create(&threads[4], 0, lingers, 0);
    usleep(500);

    ask(2);

    stop = 1;
    pthread_mutex_lock(&mutex);
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
    ask(3);
    for (int i = 0; i < 5; i++)
        pthread_join(threads[i], 0);
    if (!errors)
        printf("threads ok after %ld\n", round);
    return errors;
}
