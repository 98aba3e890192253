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

/* The script's text, NULL where there is none. It is kept while the file is the same: a call asks several times, and a
 * benchmark is to measure the caller, not us. */
static const char *script_text(void)
{
    static char *kept;
    static struct stat seen;
    struct stat now;
    const char *path = script_path();
    if (path == NULL || stat(path, &now) != 0)
        return NULL;
    if (kept != NULL && now.st_ino == seen.st_ino && now.st_size == seen.st_size &&
        memcmp(&now.st_mtim, &seen.st_mtim, sizeof now.st_mtim) == 0)
        return kept;
    FILE *script = fopen(path, "r");
    if (script == NULL)
        return NULL;
    free(kept);
    kept = calloc((size_t)now.st_size + 1, 1);
    if (kept != NULL)
        kept[fread(kept, 1, (size_t)now.st_size, script)] = 0;
    fclose(script);
    seen = now;
    return kept;
}

/* The rest of the last line that sets `key` (of two words where `word` is not NULL) for this chip; 0 where none does. */
int setting(int card, int device, const char *key, const char *word, char *rest, size_t size)
{
    char line[1024];
    int is_found = 0;
    const char *next = script_text();
    while (next != NULL && *next != 0) {
        int line_card, line_device, used = 0;
        char *at = line;
        snprintf(line, sizeof line, "%.*s", (int)strcspn(next, "#\n"), next);
        next = strchr(next, '\n');
        if (next != NULL)
            next++;
        if (sscanf(at, " %d/%d %n", &line_card, &line_device, &used) == 2 && used > 0) {
            if (line_card != card || line_device != device)
                continue;
            at += used;
        }
        at += strspn(at, " \t");
        const char *words[] = {key, word};
        int matches = 1;
        for (int i = 0; i < 2 && words[i] != NULL && matches; i++) {
            size_t length = strcspn(at, " \t");
            int is_any = i == 1 && length == 1 && *at == '*';
            matches = is_any || (length == strlen(words[i]) && memcmp(at, words[i], length) == 0);
            at += length;
            at += strspn(at, " \t");
        }
        if (matches) {
            snprintf(rest, size, "%s", at);
            is_found = 1;
        }
    }
    return is_found;
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
    while (setting(card, device, "hang", function, rest, sizeof rest))
        usleep(10000);
    return setting(card, device, "return", function, rest, sizeof rest) ? (int)strtol(rest, NULL, 0) : 0;
}
