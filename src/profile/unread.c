/* See unread.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/unread.h"

#include <ctype.h>
#include <string.h>

#define INTERPRETER "only those of its interpreter are shown"

const struct unread_language unread_languages[UNREAD_LANGUAGES] = {
    {"Ruby",
     {"ruby", "libruby"},
     false,
     "those of Ruby 3.1 are, where it is a library; here " INTERPRETER,
     "rbspy record --pid PID shows them, or the gem stackprof",
     FRAME_RUBY},
    {"PHP", {"php", "libphp"}, false, INTERPRETER, "phpspy -p PID shows them, or the extension Excimer"},
    {"LuaJIT",
     {"luajit", "libluajit"},
     true,
     "its interpreter and [unknown code] are shown",
     "luajit -jp shows them; built with -DLUAJIT_USE_PERFTOOLS it names compiled traces in "
     "/tmp/perf-PID.map"},
    {"Erlang",
     {"beam", "beam"},
     true,
     "[unknown code] is shown",
     "start it with `erl +JPperf true` (OTP 24 and later)"},
    {".NET",
     {"dotnet", "libcoreclr"},
     true,
     "[unknown code] is shown",
     "start it with the environment variable DOTNET_PerfMapEnabled=1"},
};

unsigned unread_language_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    for (unsigned i = 0; i < UNREAD_LANGUAGES; i++)
        for (int k = 0; k < 2; k++) {
            size_t length = strlen(unread_languages[i].files[k]);
            if (strncmp(file, unread_languages[i].files[k], length) == 0 &&
                !isalpha((unsigned char)file[length]))
                return i;
        }
    return UNREAD_LANGUAGES;
}
