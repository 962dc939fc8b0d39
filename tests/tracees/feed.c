/* Reads lines that a child writes in pieces to a pipe, a Unix stream and a TCP stream, by read, readv and
 * recv, one byte and many at a time, and prints what it has read. Between pieces it looks whether anything is
 * left: nothing may be there that it has read, and nothing be gone that it has not. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIECES = 6, LINES = 40, LINE = 8 };

static int acks[2];

static void check(int holds, const char *what)
{
    if (!holds) {
        printf("wrong: %s\n", what);
        exit(1);
    }
}

/* Each piece waits until the one before has been read. */
static void write_pieces(int to)
{
    for (int piece = 0; piece < PIECES; piece++) {
        char text[LINES * LINE + 1], ack;
        for (int line = 0; line < LINES; line++)
            sprintf(text + line * LINE, "%03d %03d\n", piece, line);
        if (write(to, text, LINES * LINE) != LINES * LINE || read(acks[0], &ack, 1) != 1)
            _exit(1);
    }
    _exit(0);
}

static ssize_t read_some(int from, int is_socket, int turn, char *to, size_t room)
{
    size_t first = room < 3 ? room : 3;
    struct iovec two[2] = {{to, first}, {to + first, room - first < 5 ? room - first : 5}};
    switch (turn % 4) {
    case 0:
        return read(from, to, 1);
    case 1:
        return readv(from, two, 2);
    case 2:
        return is_socket ? recv(from, to, room < 30 ? room : 30, 0) : read(from, to, room < 30 ? room : 30);
    default:
        return read(from, to, room < 13 ? room : 13);
    }
}

static void read_pieces(const char *name, int from, int is_socket)
{
    unsigned sum = 0;
    char text[LINES * LINE];
    for (int piece = 0; piece < PIECES; piece++) {
        size_t got = 0;
        for (int turn = 0; got < sizeof text; turn++) {
            struct stat found;
            /* What a torture may guess wrong beside it. */
            check(stat("/", &found) == 0 && S_ISDIR(found.st_mode), "stat");
            ssize_t length = read_some(from, is_socket, turn, text + got, sizeof text - got);
            check(length > 0, "read");
            got += length;
            if (turn == 20) {
                int left;
                check(ioctl(from, FIONREAD, &left) == 0, "ioctl");
                check(left == (int)(sizeof text - got), "what is left");
            }
        }
        for (size_t at = 0; at < got; at++)
            sum = sum * 31 + (unsigned char)text[at];
        struct pollfd one = {from, POLLIN, 0};
        check(poll(&one, 1, 0) == 0, "nothing is left");
        printf("%s %d %u %.7s\n", name, piece, sum, text + got - LINE);
        fflush(stdout);
        check(write(acks[1], "x", 1) == 1, "write");
    }
    char byte;
    check(read(from, &byte, 1) == 0, "the end");
    check(read(from, &byte, 1) == 0, "the end is for ever");
}

static void feed(const char *name, int from, int to, int is_socket)
{
    check(pipe(acks) == 0, "pipe");
    pid_t child = fork();
    if (child == 0) {
        close(from);
        write_pieces(to);
    }
    close(to);
    read_pieces(name, from, is_socket);
    int status;
    check(waitpid(child, &status, 0) == child && status == 0, "the child");
    close(from);
}

int main(void)
{
    int pair[2];
    check(pipe(pair) == 0, "pipe");
    feed("pipe", pair[0], pair[1], 0);
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
    feed("unix", pair[0], pair[1], 1);

    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    check(bind(listener, (struct sockaddr *)&address, sizeof address) == 0, "bind");
    check(listen(listener, 1) == 0, "listen");
    check(getsockname(listener, (struct sockaddr *)&address, &length) == 0, "getsockname");
    check(connect(client, (struct sockaddr *)&address, sizeof address) == 0, "connect");
    int server = accept(listener, NULL, NULL);
    check(server >= 0, "accept");
    feed("tcp", server, client, 1);
    return 0;
}
