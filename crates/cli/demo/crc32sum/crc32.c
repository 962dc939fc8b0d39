#include "crc32.h"

#include <errno.h>
#include <string.h>

#include "table.h"

/* Eight bytes a step: table[n] advances a byte past n bytes of zeros, so the eight look-ups are
   independent of each other. */
uint32_t crc32_update(uint32_t sum, const void *data, size_t length)
{
    const unsigned char *byte = data;

    sum = ~sum;
    for (; length >= 8; length -= 8, byte += 8) {
        sum ^= (uint32_t)byte[0] | (uint32_t)byte[1] << 8 | (uint32_t)byte[2] << 16 |
               (uint32_t)byte[3] << 24;
        sum = table[7][sum & 0xff] ^ table[6][sum >> 8 & 0xff] ^ table[5][sum >> 16 & 0xff] ^
              table[4][sum >> 24] ^ table[3][byte[4]] ^ table[2][byte[5]] ^ table[1][byte[6]] ^
              table[0][byte[7]];
    }
    for (; length > 0; length--, byte++)
        sum = table[0][(sum ^ *byte) & 0xff] ^ sum >> 8;
    return ~sum;
}

int crc32_stream(FILE *stream, uint32_t *sum)
{
    static unsigned char buffer[65536];
    size_t length;

    *sum = 0;
    while ((length = fread(buffer, 1, sizeof buffer, stream)) > 0)
        *sum = crc32_update(*sum, buffer, length);
    return ferror(stream) ? -1 : 0;
}

int crc32_file(const char *name, uint32_t *sum)
{
    FILE *stream;
    int result, error;

    if (strcmp(name, "-") == 0)
        return crc32_stream(stdin, sum);
    stream = fopen(name, "rb");
    if (stream == NULL)
        return -1;
    result = crc32_stream(stream, sum);
    error = errno;
    fclose(stream);
    errno = error;
    return result;
}
