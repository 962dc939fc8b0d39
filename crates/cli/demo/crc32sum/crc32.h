#ifndef CRC32_H
#define CRC32_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The CRC-32 of ISO 3309, as in gzip, zip and PNG. Starts at 0; the sum of a whole is that of its
   pieces in order, each passed the sum so far. */
uint32_t crc32_update(uint32_t sum, const void *data, size_t length);

/* The sum of all that is left to read. Returns 0, or -1 with errno set on a read error. */
int crc32_stream(FILE *stream, uint32_t *sum);

/* The sum of the file called `name`; "-" is standard input. Returns as crc32_stream. */
int crc32_file(const char *name, uint32_t *sum);

#endif
