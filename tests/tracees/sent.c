/* One process sends another a file, which that one maps and looks at while it only sleeps. The first writes
 * to the file whenever it reads less than there is, which never happens. Prints "seen 0, A at the end". */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LENGTH = 4096, ROUNDS = 200, LOOKS = 400 };

/* A message with a byte and room for a descriptor. */
struct letter {
    struct msghdr head;
    struct iovec place;
    char byte, control[CMSG_SPACE(sizeof(int))];
};

static struct msghdr *address(struct letter *letter) {
    letter->place = (struct iovec){&letter->byte, 1};
    letter->head.msg_iov = &letter->place;
    letter->head.msg_iovlen = 1;
    letter->head.msg_control = letter->control;
    letter->head.msg_controllen = sizeof letter->control;
    return &letter->head;
}

static void send_file(int to, int file) {
    struct letter letter = {0};
    struct msghdr *head = address(&letter);
    struct cmsghdr *first = CMSG_FIRSTHDR(head);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(sizeof file);
    memcpy(CMSG_DATA(first), &file, sizeof file);
    sendmsg(to, head, 0);
}

static int receive_file(int from) {
    struct letter letter = {0};
    int file;
    recvmsg(from, address(&letter), 0);
    memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&letter.head)), sizeof file);
    return file;
}

static void write_if_wrong(int reader) {
    char bytes[LENGTH], part[100];
    memset(bytes, 'A', sizeof bytes);
    int other = open("other", O_CREAT | O_RDWR | O_TRUNC, 0600);
    int file = open("given", O_CREAT | O_RDWR | O_TRUNC, 0600);
    if (write(other, bytes, 1000) != 1000 || write(file, bytes, LENGTH) != LENGTH)
        _exit(1);
    send_file(reader, file);
    if (read(reader, part, 1) != 1)
        _exit(1);
    for (int round = 0; round < ROUNDS; round++)
        if (pread(other, part, sizeof part, 0) != sizeof part) {
            (void)!pwrite(file, "Z", 1, 0);
            for (volatile int pause = 0; pause < 10000000; pause++) {
            }
        }
    _exit(0);
}

int main(void) {
    int ends[2], seen = 0;
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    pid_t writer = fork();
    if (writer == 0) {
        close(ends[0]);
        write_if_wrong(ends[1]);
    }
    close(ends[1]);
    int file = receive_file(ends[0]);
    volatile char *bytes = mmap(0, LENGTH, PROT_READ, MAP_PRIVATE, file, 0);
    int is_there = bytes[0] == 'A';
    (void)!write(ends[0], "g", 1);
    struct timespec nap = {0, 2000000};
    for (int look = 0; is_there && look < LOOKS; look++) {
        nanosleep(&nap, 0);
        seen += bytes[0] != 'A';
    }
    waitpid(writer, 0, 0);
    printf("seen %d, %c at the end\n", seen, bytes[0]);
    return 0;
}
