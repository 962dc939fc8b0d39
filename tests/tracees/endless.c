/* Three threads that look at files and write to one, until somebody kills them. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

static void *look(void *none) {
    struct stat found;
    for (;;)
        stat("/etc/passwd", &found);
    return none;
}

static void *write_on(void *none) {
    char bytes[2000] = {0};
    int file = open("written", O_CREAT | O_RDWR | O_TRUNC, 0600);
    for (int round = 0;; round++)
        (void)!pwrite(file, bytes, sizeof bytes, round * 101 % 9000);
    return none;
}

int main(void) {
    pthread_t first, second;
    pthread_create(&first, 0, look, 0);
    pthread_create(&second, 0, write_on, 0);
    return look(0) != 0;
}
