/* Bears a thread after each checkpoint, and is rolled back when it has just been born. It asks its
 * supervisor as image.c does, and prints "births ok after N". */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COMMAND 0x5bec0000L
enum { TAKE = 1, BACK, DISCARD };

static long ask(long what) { return syscall(SYS_kill, COMMAND, what); }

static void *ends(void *none) { return none; }

int main(void) {
    pthread_t thread;
    volatile int local = 1;
    long round = ask(TAKE);
    if (local != 1) {
        printf("round %ld: local %d\n", round, local);
        fflush(stdout);
        _exit(3);
    }
    local = 2;
    pthread_create(&thread, 0, ends, 0);
    pthread_join(thread, 0);
    ask(DISCARD);
    printf("births ok after %ld\n", round);
    return 0;
}
