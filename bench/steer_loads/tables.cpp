// A program in C++ with six functions, each between two readings of its thread's CPU clock: in one mix or in two that alternate. Writes as
// Shop.java does.
//   tables SECONDS PHASE-SECONDS (0: steady)
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

static std::mt19937 engine(1);
static volatile double sink;
static std::vector<std::string> words;

static double now(clockid_t clock)
{
    timespec t;
    clock_gettime(clock, &t);
    return double(t.tv_sec) + double(t.tv_nsec) / 1e9;
}

#define KEPT __attribute__((noinline))

KEPT void arrange()
{
    std::vector<unsigned> values(4000);
    for (auto &v : values)
        v = unsigned(engine());
    std::sort(values.begin(), values.end());
    sink = values[17];
}

KEPT void tally()
{
    std::unordered_map<std::string, int> counts;
    for (int i = 0; i < 2000; i++)
        counts[words[engine() % words.size()]]++;
    sink = counts.size();
}

KEPT void index_words()
{
    std::map<std::string, int> places;
    for (int i = 0; i < 800; i++)
        places[words[engine() % words.size()]] = i;
    sink = places.size();
}

KEPT void print_rows()
{
    std::ostringstream out;
    for (int i = 0; i < 800; i++)
        out << i << ',' << words[unsigned(i) % words.size()] << ',' << i / 7.0 << '\n';
    sink = out.str().size();
}

KEPT void multiply()
{
    enum { SIZE = 64 };
    static double a[SIZE][SIZE], b[SIZE][SIZE], c[SIZE][SIZE];
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++)
            a[i][j] = b[j][i] = double(engine() % 100);
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++) {
            double sum = 0;
            for (int k = 0; k < SIZE; k++)
                sum += a[i][k] * b[k][j];
            c[i][j] = sum;
        }
    sink = c[engine() % SIZE][5];
}

KEPT void roots()
{
    double sum = 0;
    for (int i = 1; i < 8000; i++)
        sum += std::pow(i, 0.37) + std::sin(i);
    sink = sum;
}

static const char *const NAMES[6] = {"arrange", "tally", "index_words", "print_rows", "multiply", "roots"};
static long long used[6];

static void tell()
{
    timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    printf("%lld", (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000);
    for (int i = 0; i < 6; i++)
        printf(" %s %lld", NAMES[i], used[i]);
    puts("");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static void (*const functions[6])() = {arrange, tally, index_words, print_rows, multiply, roots};
    static const int mixes[2][6] = {{30, 20, 15, 12, 15, 8}, {8, 10, 20, 25, 7, 30}};
    double seconds = argc > 1 ? atof(argv[1]) : 10, phase = argc > 2 ? atof(argv[2]) : 0, at;
    for (int i = 0; i < 3000; i++)
        words.push_back("word" + std::to_string(i * 7919));
    puts("ready");
    fflush(stdout);
    getchar();
    double start = now(CLOCK_MONOTONIC);
    int told = 0;
    while ((at = now(CLOCK_MONOTONIC) - start) < seconds) {
        if (at >= told) {
            tell();
            told++;
        }
        const int *mix = mixes[phase > 0 ? long(at / phase) % 2 : 0];
        int pick = int(engine() % 100), f = 0;
        while (f < 5 && pick >= mix[f])
            pick -= mix[f++];
        double before = now(CLOCK_THREAD_CPUTIME_ID);
        functions[f]();
        used[f] += (long long)((now(CLOCK_THREAD_CPUTIME_ID) - before) * 1e9);
    }
    tell();
    return 0;
}
