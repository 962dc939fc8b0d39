/* Processes that never rest: each adds to its own word of the file given, for as long as it lives.
 * Threads that begin and end, forks, vforks with an exec, execs among threads, children that ignore
 * their end. Prints "ready" once all have begun. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 8 };
static volatile unsigned long *words;
static char *self, *file;

static void *spin(void *word)
{
    for (;;)
        ++*(volatile unsigned long *)word;
    return NULL;
}

static void *brief(void *word)
{
    for (int i = 0; i < 1000; i++)
        ++*(volatile unsigned long *)word;
    return NULL;
}

static void threads(void)
{
    for (;;) {
        pthread_t four[4];
        for (int i = 0; i < 4; i++)
            pthread_create(&four[i], NULL, brief, (void *)&words[0]);
        for (int i = 0; i < 4; i++)
            pthread_join(four[i], NULL);
    }
}

static void forks(void)
{
    for (;;) {
        if (fork() == 0) {
            brief((void *)&words[1]);
            if (fork() == 0) /* an orphan */
                brief((void *)&words[1]);
            _exit(0);
        }
        wait(NULL);
    }
}

static void vforks(void)
{
    for (;;) {
        ++words[2];
        if (vfork() == 0)
            execl("/bin/true", "true", NULL);
        wait(NULL);
    }
}

/* Executes itself in a thread that is not the first, while another one spins. */
static void *exec_again(void *unused)
{
    (void)unused;
    execl(self, self, file, "exec", NULL);
    return NULL;
}

static void execs(void)
{
    pthread_t two[2];
    ++words[3];
    pthread_create(&two[0], NULL, spin, (void *)&words[4]);
    usleep(500);
    pthread_create(&two[1], NULL, exec_again, NULL);
    pause();
}

static void ignores(void)
{
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        if (fork() == 0)
            _exit(0);
        ++words[5];
        usleep(100);
    }
}

static void sleeps(void)
{
    struct timespec moment = {0, 10000};
    prctl(PR_SET_DUMPABLE, 0);
    for (;;) {
        ++words[6];
        nanosleep(&moment, NULL);
    }
}

static void yields(void)
{
    for (;;) {
        ++words[7];
        sched_yield();
    }
}

int main(int count, char **arguments)
{
    void (*kinds[])(void) = {threads, forks, vforks, execs, ignores, sleeps, yields};
    self = arguments[0];
    file = arguments[1];
    int data = open(file, O_RDWR);
    words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, data, 0);
    if (count > 2)
        execs();
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (fork() == 0)
            kinds[i]();
    for (int i = 0; i < WORDS; i++)
        while (words[i] == 0)
            usleep(1000);
    write(1, "ready\n", 6);
    for (;;)
        pause();
}
