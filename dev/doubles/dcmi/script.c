/* The script of the double: looked at anew at each question, so that a test changes it while the library runs. */
#define _GNU_SOURCE
#include "script.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *script_path(void)
{
    static char beside[4096];
    const char *named = getenv("DCMI_DOUBLE_SCRIPT");
    Dl_info self;
    if (named != NULL)
        return named;
    if (!dladdr((void *)&setting, &self) || strlen(self.dli_fname) > sizeof beside - 32)
        return NULL;
    strcpy(beside, self.dli_fname);
    char *slash = strrchr(beside, '/');
    strcpy(slash != NULL ? slash + 1 : beside, "dcmi_double.txt");
    return beside;
}

/* One line that sets something: `rest` follows the key. */
struct line {
    int is_of_chip, card, device;
    char *key, *rest;
};

enum { MAX_LINES = 1024 };
static struct line lines[MAX_LINES];
static int line_count;

static char *after_blanks(char *at)
{
    return at + strspn(at, " \t");
}

static char *cut_word(char *at)
{
    char *end = at + strcspn(at, " \t");
    if (*end == 0)
        return end;
    *end = 0;
    return after_blanks(end + 1);
}

static void parse(char *text)
{
    line_count = 0;
    for (char *next = text, *at; (at = strsep(&next, "\n")) != NULL && line_count < MAX_LINES;) {
        struct line *line = &lines[line_count];
        int used = 0;
        at[strcspn(at, "#")] = 0;
        line->is_of_chip = sscanf(at, " %d/%d %n", &line->card, &line->device, &used) == 2 && used > 0;
        line->key = after_blanks(at + (line->is_of_chip ? used : 0));
        line->rest = cut_word(line->key);
        line_count += *line->key != 0;
    }
}

/* Reads the script where it is another than before. Once a call, and not once a question of it: a benchmark is to measure
 * the caller, not us. */
static void look(void)
{
    static char *kept;
    static struct stat seen;
    struct stat now;
    const char *path = script_path();
    if (path == NULL || stat(path, &now) != 0) {
        line_count = 0;
        seen = (struct stat){0};
        return;
    }
    if (now.st_ino == seen.st_ino && now.st_size == seen.st_size &&
        memcmp(&now.st_mtim, &seen.st_mtim, sizeof now.st_mtim) == 0)
        return;
    FILE *script = fopen(path, "r");
    if (script == NULL)
        return;
    free(kept);
    kept = calloc((size_t)now.st_size + 1, 1);
    if (kept != NULL) {
        kept[fread(kept, 1, (size_t)now.st_size, script)] = 0;
        parse(kept);
    }
    fclose(script);
    seen = now;
}

/* What follows `word` where it is the first of `rest`, NULL where it is not; `*` stands for every word. */
static char *following(char *rest, const char *word)
{
    size_t length = strcspn(rest, " \t");
    if ((length == 1 && *rest == '*') || (length == strlen(word) && memcmp(rest, word, length) == 0))
        return after_blanks(rest + length);
    return NULL;
}

/* The rest of the last line that sets `key` (of two words where `word` is not NULL) for this chip; 0 where none does. */
int setting(int card, int device, const char *key, const char *word, char *rest, size_t size)
{
    for (int i = line_count - 1; i >= 0; i--) {
        struct line *line = &lines[i];
        if ((line->is_of_chip && (line->card != card || line->device != device)) || strcmp(line->key, key) != 0)
            continue;
        char *found = word != NULL ? following(line->rest, word) : line->rest;
        if (found != NULL) {
            snprintf(rest, size, "%s", found);
            return 1;
        }
    }
    return 0;
}

long long number(int card, int device, const char *key, long long otherwise)
{
    char rest[1024];
    return setting(card, device, key, NULL, rest, sizeof rest) ? strtoll(rest, NULL, 0) : otherwise;
}

void text(int card, int device, const char *key, const char *otherwise, unsigned char *out)
{
    char rest[1024];
    snprintf((char *)out, 32, "%.31s", setting(card, device, key, NULL, rest, sizeof rest) ? rest : otherwise);
}

/* Record, delay, hang and return code of a function, before it does anything. */
int preamble(const char *function, int card, int device)
{
    char rest[1024];
    look();
    FILE *record = setting(card, device, "record", NULL, rest, sizeof rest) ? fopen(rest, "a") : NULL;
    if (record != NULL) {
        fprintf(record, "%s %d/%d\n", function, card, device);
        fclose(record);
    }
    if (setting(card, device, "print", NULL, rest, sizeof rest)) {
        printf("%s\n", rest);
        fflush(stdout);
    }
    if (setting(card, device, "latency", function, rest, sizeof rest)) {
        char *end;
        long milliseconds = strtol(rest, &end, 0), most = *end == '-' ? strtol(end + 1, NULL, 0) : 0;
        if (most > milliseconds)
            milliseconds += random() % (most - milliseconds + 1);
        struct timespec wait = {milliseconds / 1000, milliseconds % 1000 * 1000000};
        nanosleep(&wait, NULL);
    }
    while (setting(card, device, "hang", function, rest, sizeof rest)) {
        usleep(10000);
        look();
    }
    return setting(card, device, "return", function, rest, sizeof rest) ? (int)strtol(rest, NULL, 0) : 0;
}
