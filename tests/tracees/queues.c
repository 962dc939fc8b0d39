/* Signals that wait while their process calls much, and others that come meanwhile. Each is taken once, by
 * whom it was sent to, those of a real-time kind in the order in which they were sent, with all that is told
 * of it.
 *
 * queues blocked: they wait from the beginning, for the thread and for its process. queues sent: a child sends
 * them to two threads and to the process. queues taken: as sent, but they are awaited, by sigtimedwait(2) and
 * by signalfd(2). queues jobs: a child is stopped and continued. queues executed: they wait through an
 * execve(2). Prints "queues ok". */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WAITING = 24, SENT = 60, ROUNDS = 12, THREADS = 2 };
/* For the process, and for its threads. */
#define SHARED SIGRTMIN
#define OWN (SIGRTMIN + 2)

static struct {
    int signal, code, value, sender, thread;
} got[1024];
static volatile int count;

static int thread_number(void) { return (int)syscall(SYS_gettid); }

static void note(int signal, const siginfo_t *info) {
    int place = __atomic_fetch_add(&count, 1, __ATOMIC_SEQ_CST);
    got[place].signal = signal;
    got[place].code = info->si_code;
    got[place].value = info->si_value.sival_int;
    got[place].sender = info->si_pid;
    got[place].thread = thread_number();
}

static void take(int signal, siginfo_t *info, void *context) {
    (void)context;
    int error = errno;
    struct stat stat_of;
    note(signal, info);
    stat("/etc", &stat_of);
    errno = error;
}

static void look(int times) {
    struct stat stat_of;
    for (int i = 0; i < times; i++)
        stat("/etc/passwd", &stat_of);
}

static void fail(const char *what, int place) {
    printf("%s, at %d of %d:", what, place, count);
    for (int i = 0; i < count; i++)
        printf(" %d/%d/%d/%d", got[i].signal, got[i].code, got[i].value, got[i].thread);
    printf("\n");
    fflush(stdout);
    _exit(1);
}

/* Whether so many of a signal came to a thread, or to any if that is 0, in order. */
static void expect(int signal, int wanted, int thread, int code, int sender) {
    int next = 0;
    for (int i = 0; i < count; i++) {
        if (got[i].signal != signal || (thread && got[i].thread != thread))
            continue;
        if (got[i].value != next || got[i].code != code || got[i].sender != sender)
            fail("not as it was sent", i);
        next++;
    }
    if (next != wanted)
        fail("not as many as were sent", next);
}

static void handle(void) {
    struct sigaction action = {.sa_sigaction = take, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigfillset(&action.sa_mask);
    sigaction(SHARED, &action, 0);
    sigaction(OWN, &action, 0);
    sigaction(SIGTERM, &action, 0);
}

static sigset_t all(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SHARED);
    sigaddset(&set, OWN);
    return set;
}

static void queue_own(int process, int thread, int value) {
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_int = value;
    if (syscall(SYS_rt_tgsigqueueinfo, process, thread, OWN, &info))
        perror("queue"), _exit(1);
}

static void blocked(void) {
    sigset_t set = all();
    handle();
    sigprocmask(SIG_BLOCK, &set, 0);
    for (int i = 0; i < WAITING; i++) {
        sigqueue(getpid(), SHARED, (union sigval){.sival_int = i});
        queue_own(getpid(), thread_number(), i);
    }
    look(10);
    raise(SIGTERM);
    look(10);
    sigprocmask(SIG_UNBLOCK, &set, 0);
    look(5);
    expect(SHARED, WAITING, 0, SI_QUEUE, getpid());
    expect(OWN, WAITING, thread_number(), SI_QUEUE, getpid());
    if (count != 2 * WAITING + 1 || got[0].code != SI_TKILL)
        fail("something else came", count);
}

static volatile int ready[THREADS], stop;
static int awaits;

/* Each is sent its own; the first one takes what is sent to the process, too. */
static void *work(void *number) {
    long index = (long)number;
    sigset_t set = all();
    int fd = -1;
    if (index)
        sigdelset(&set, SHARED);
    if (!awaits)
        pthread_sigmask(SIG_UNBLOCK, &set, 0);
    else if (index)
        fd = signalfd(-1, &set, 0);
    ready[index] = thread_number();
    for (int taken = 0; !stop;) {
        siginfo_t info;
        struct signalfd_siginfo told;
        look(1);
        if (!awaits)
            continue;
        if (taken == (index ? SENT : 2 * SENT)) {
            usleep(1000);
        } else if (fd >= 0) {
            if (read(fd, &told, sizeof told) != sizeof told)
                fail("signalfd", errno);
            memset(&info, 0, sizeof info);
            info.si_code = told.ssi_code;
            info.si_pid = told.ssi_pid;
            info.si_value.sival_int = told.ssi_int;
            note(told.ssi_signo, &info);
            taken++;
        } else if (sigtimedwait(&set, &info, &(struct timespec){0, 2000000}) > 0) {
            note(info.si_signo, &info);
            taken++;
        } else if (errno != EAGAIN) {
            fail("sigtimedwait", errno);
        }
    }
    return 0;
}

static void sent(void) {
    pthread_t threads[THREADS];
    sigset_t set = all();
    int target = getpid(), status;
    handle();
    sigprocmask(SIG_BLOCK, &set, 0);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, work, (void *)i);
    while (!ready[0] || !ready[1])
        usleep(100);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < SENT; i++) {
            sigqueue(target, SHARED, (union sigval){.sival_int = i});
            for (int thread = 0; thread < THREADS; thread++)
                queue_own(target, ready[thread], i);
            if (i % 7 == 0)
                usleep(500);
        }
        _exit(0);
    }
    waitpid(child, &status, 0);
    for (int i = 0; i < 5000 && count < 3 * SENT; i++)
        usleep(1000);
    stop = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    if (count != 3 * SENT)
        fail("not all came", count);
    expect(SHARED, SENT, ready[0], SI_QUEUE, child);
    for (int i = 0; i < THREADS; i++)
        expect(OWN, SENT, ready[i], SI_QUEUE, child);
}

static void *look_on(void *none) {
    for (;;)
        look(1);
    return none;
}

static volatile int continued;

static void go_on(int signal) {
    (void)signal;
    continued++;
}

static void jobs(void) {
    int status, told[2];
    char byte;
    pthread_t other;
    pipe(told);
    pid_t child = fork();
    if (child == 0) {
        /* A group that nobody outside of it looks after is not stopped from a terminal. */
        setpgid(0, 0);
        signal(SIGCONT, go_on);
        for (int i = 0; i < THREADS; i++)
            pthread_create(&other, 0, look_on, 0);
        write(told[1], "1", 1);
        look_on(0);
    }
    read(told[0], &byte, 1);
    for (int round = 0; round < ROUNDS; round++) {
        int how = round % 2 ? SIGTSTP : SIGSTOP;
        usleep(round * 700);
        kill(child, how);
        if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status) || WSTOPSIG(status) != how)
            printf("stopped: %x\n", status), exit(1);
        kill(child, SIGCONT);
        if (waitpid(child, &status, WCONTINUED) != child || !WIFCONTINUED(status))
            printf("continued: %x\n", status), exit(1);
        /* Who continues it at once undoes the stop, whether or not that has come. */
        kill(child, how);
        kill(child, SIGCONT);
        do {
            char line[64];
            FILE *stat_of;
            usleep(2000);
            sprintf(line, "/proc/%d/stat", child);
            stat_of = fopen(line, "r");
            if (!stat_of || fscanf(stat_of, "%*d %*s %c", &byte) != 1)
                exit(1);
            fclose(stat_of);
            if (waitpid(child, &status, WUNTRACED | WCONTINUED | WNOHANG) < 0)
                exit(1);
        } while (byte == 'T');
    }
    kill(child, SIGTERM);
    while (waitpid(child, &status, 0) == child && !WIFSIGNALED(status)) {
    }
    if (WTERMSIG(status) != SIGTERM)
        printf("ended: %x\n", status), exit(1);
}

static void executed(char **arguments) {
    sigset_t set = all();
    if (arguments[2]) {
        siginfo_t info;
        look(10);
        while (sigtimedwait(&set, &info, &(struct timespec){0, 0}) > 0)
            note(info.si_signo, &info);
        expect(SHARED, WAITING, 0, SI_QUEUE, getpid());
        expect(OWN, WAITING, 0, SI_QUEUE, getpid());
        return;
    }
    handle();
    sigprocmask(SIG_BLOCK, &set, 0);
    for (int i = 0; i < WAITING; i++) {
        sigqueue(getpid(), SHARED, (union sigval){.sival_int = i});
        queue_own(getpid(), thread_number(), i);
        look(1);
    }
    raise(SIGTERM);
    execl("/proc/self/exe", "queues", arguments[1], "again", (char *)0);
    perror("execl");
    exit(1);
}

int main(int argument_count, char **arguments) {
    if (argument_count < 2)
        return 2;
    switch (arguments[1][0]) {
    case 'b':
        blocked();
        break;
    case 't':
        awaits = 1;
        /* fall through */
    case 's':
        sent();
        break;
    case 'j':
        jobs();
        break;
    default:
        executed(arguments);
    }
    puts("queues ok");
    return 0;
}
