// Prices options by simulation, and writes what it found to /dev/null now and then.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <unistd.h>
#include <vector>

namespace shop {
struct Pricer {
    std::vector<double> paths = std::vector<double>(512);
    __attribute__((noinline)) void simulate(unsigned rounds)
    {
        for (unsigned i = 0; i < rounds; i++)
            for (double &p : paths)
                p = std::exp(-0.5 * p * p) + rand() * 1e-12;
        asm volatile("" ::: "memory");
    }
    __attribute__((noinline)) double price(unsigned rounds)
    {
        simulate(rounds);
        double sum = 0;
        for (double p : paths)
            sum += p;
        return sum;
    }
};
} // namespace shop

int main(int argc, char **argv)
{
    shop::Pricer pricer;
    time_t end = time(nullptr) + (argc > 1 ? atoi(argv[1]) : 10);
    int out = open("/dev/null", O_WRONLY);
    while (time(nullptr) < end) {
        double value = pricer.price(20 + rand() % 200);
        for (int i = 0; i < 50; i++)
            if (write(out, &value, sizeof(value)) < 0)
                return 1;
        usleep(500);
    }
}
