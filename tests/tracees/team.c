/* Five threads that look at files, allocate, and hand each other work; some are born and end meanwhile.
 * Prints "team ok" and sums that do not depend on who was first. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORK = 300 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;
static int queue[8], queued, done, errors;
static long sum;
static __thread long own;

static void fail(const char *what) {
    int error = errno;
    pthread_mutex_lock(&mutex);
    printf("not so: %s (%s)\n", what, strerror(error));
    errors++;
    pthread_mutex_unlock(&mutex);
}

static long look(int item) {
    struct stat status;
    char buffer[64];
    if (stat("/etc/passwd", &status) || status.st_size == 0)
        fail("stat");
    int file = open("/etc/passwd", O_RDONLY);
    if (file < 0)
        fail("open");
    if (pread(file, buffer, sizeof buffer, 0) != sizeof buffer)
        fail("pread");
    close(file);
    char *memory = malloc(3000 + (size_t)item);
    memset(memory, item, 3000);
    long total = memory[2999] + item;
    free(memory);
    own += item;
    return total;
}

static void *brief(void *item) { return (void *)look((int)(long)item); }

static void *worker(void *none) {
    for (;;) {
        pthread_mutex_lock(&mutex);
        while (!queued && !done)
            pthread_cond_wait(&filled, &mutex);
        if (!queued) {
            sum += own;
            pthread_mutex_unlock(&mutex);
            return none;
        }
        int item = queue[--queued];
        pthread_cond_signal(&emptied);
        pthread_mutex_unlock(&mutex);
        look(item);
        if (item % 50 == 7) {
            pthread_t thread;
            void *result;
            if (pthread_create(&thread, 0, brief, (void *)(long)item)) {
                fail("pthread_create");
                continue;
            }
            pthread_join(thread, &result);
            if ((long)result != (char)item + item)
                fail("pthread_join");
        }
    }
}

static void *ticker(void *none) {
    int events = epoll_create1(0);
    struct epoll_event event;
    for (int i = 0; !__atomic_load_n(&done, __ATOMIC_SEQ_CST); i++)
        if (epoll_wait(events, &event, 1, 2) != 0)
            fail("epoll_wait");
    return none;
}

int main(void) {
    pthread_t threads[5];
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], 0, worker, 0))
            return 2;
    if (pthread_create(&threads[4], 0, ticker, 0))
        return 2;
    for (int i = 0; i < WORK; i++) {
        pthread_mutex_lock(&mutex);
        while (queued == 8)
            pthread_cond_wait(&emptied, &mutex);
        queue[queued++] = i;
        pthread_cond_signal(&filled);
        pthread_mutex_unlock(&mutex);
        if (i % 100 == 99) {
            printf("given %d\n", i + 1);
            fflush(stdout);
        }
    }
    pthread_mutex_lock(&mutex);
    __atomic_store_n(&done, 1, __ATOMIC_SEQ_CST);
    pthread_cond_broadcast(&filled);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < 5; i++)
        pthread_join(threads[i], 0);
    printf("%s %ld\n", errors ? "team failed" : "team ok", sum);
    return errors != 0;
}
