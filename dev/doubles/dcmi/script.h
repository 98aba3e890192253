#ifndef RANKBEAT_DOUBLE_SCRIPT_H
#define RANKBEAT_DOUBLE_SCRIPT_H

#include <stddef.h>

enum { ANY = -1 };

/* The rest of the last line that sets `key` (of two words where `word` is not NULL) for this chip; 0 where none does. */
int setting(int card, int device, const char *key, const char *word, char *rest, size_t size);
/* The number that `key` is set to, else `otherwise`. */
long long number(int card, int device, const char *key, long long otherwise);
/* 32 bytes of text. */
void text(int card, int device, const char *key, const char *otherwise, unsigned char *out);
/* Record, delay, hang and return code of a function, before it does anything. */
int preamble(const char *function, int card, int device);

#endif
