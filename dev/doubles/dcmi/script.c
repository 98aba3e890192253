/* The script of the double: read anew at each question, so that a test changes it while the library runs. */
#define _GNU_SOURCE
#include "script.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static FILE *open_script(void)
{
    const char *named = getenv("DCMI_DOUBLE_SCRIPT");
    Dl_info self;
    char path[4096];
    if (named != NULL)
        return fopen(named, "r");
    if (!dladdr((void *)&setting, &self) || strlen(self.dli_fname) > sizeof path - 32)
        return NULL;
    strcpy(path, self.dli_fname);
    char *slash = strrchr(path, '/');
    strcpy(slash != NULL ? slash + 1 : path, "dcmi_double.txt");
    return fopen(path, "r");
}

/* The rest of the last line that sets `key` (of two words where `word` is not NULL) for this chip; 0 where none does. */
int setting(int card, int device, const char *key, const char *word, char *rest, size_t size)
{
    char line[1024];
    int is_found = 0;
    FILE *script = open_script();
    if (script == NULL)
        return 0;
    while (fgets(line, sizeof line, script) != NULL) {
        int line_card, line_device, used = 0;
        char *at = line, *end = strpbrk(line, "#\n");
        if (end != NULL)
            *end = 0;
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
    fclose(script);
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

/* Delay, hang and return code of a function, before it does anything. */
int preamble(const char *function, int card, int device)
{
    char rest[1024];
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
