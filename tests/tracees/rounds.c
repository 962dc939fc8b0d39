/* Takes a checkpoint, changes itself, and is rolled back or not, many times over. Each time it checks that
 * it is what it was, or what it has become. It asks its supervisor as image.c does.
 *
 * rounds ROUNDS PAGES DIRTY THREADS [huge]: PAGES pages that were written before the first checkpoint, of
 * which DIRTY are written after each; THREADS more threads, which wait; with huge pages if they are to be
 * had. Of four rounds one is affirmed. Prints "rounds ok". */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COMMAND 0x5bec0000L
enum { TAKE = 1, BACK, DISCARD };
static const long size = 4096;

static long ask(long what) { return syscall(SYS_kill, COMMAND, what); }

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static long pages, dirty, stop, value;
static char *memory;

static void *waits(void *none) {
    pthread_mutex_lock(&mutex);
    while (!stop)
        pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    return none;
}

static char *dirty_page(long page) { return memory + page * (pages / dirty) * size; }

/* Leaves nothing behind but what it writes. */
static void change(long round) {
    value = round;
    for (long page = 0; page < dirty; page++)
        *dirty_page(page) = (char)round;
    int file = open("/dev/null", O_RDONLY);
    char *more = mmap(0, 4 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    more[size] = 1;
    if (round % 4 == 0) {
        munmap(more, 4 * size);
        close(file);
    }
}

static void check(long round, const char *when) {
    for (long page = 0; page < dirty; page++)
        if (*dirty_page(page) != (char)value) {
            printf("round %ld, %s: page %ld is %d, not %d\n", round, when, page, *dirty_page(page),
                   (char)value);
            fflush(stdout);
            _exit(3);
        }
    for (long page = 0; page < pages; page++)
        if (memory[page * size + 1] != 'x') {
            printf("round %ld, %s: page %ld is lost\n", round, when, page);
            fflush(stdout);
            _exit(4);
        }
}

int main(int count, char **arguments) {
    long rounds = atol(arguments[1]), threads = atol(arguments[4]);
    pages = atol(arguments[2]);
    dirty = atol(arguments[3]);
    /* Where a huge page may begin. */
    memory = aligned_alloc(1 << 21, (pages * size + (1 << 21) - 1) & -(1L << 21));
    if (count > 5)
        madvise(memory, pages * size, MADV_HUGEPAGE);
    for (long page = 0; page < pages; page++)
        memory[page * size + 1] = 'x';
    for (long page = 0; page < dirty; page++)
        *dirty_page(page) = 0;
    pthread_t born[threads + 1];
    for (long thread = 0; thread < threads; thread++)
        pthread_create(&born[thread], 0, waits, 0);
    for (long round = 1; round <= rounds; round++) {
        if (ask(TAKE)) {
            check(round, "restored");
        } else {
            change(round);
            if (round % 4)
                ask(BACK);
            check(round, "affirmed");
        }
        ask(DISCARD);
    }
    pthread_mutex_lock(&mutex);
    stop = 1;
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
    for (long thread = 0; thread < threads; thread++)
        pthread_join(born[thread], 0);
    printf("rounds ok\n");
    return 0;
}
