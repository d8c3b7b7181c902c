"""Fits curves with numpy, in rounds of random size."""
# SPDX-License-Identifier: Apache-2.0
import random
import sys
import time

import numpy


class Forecast:
    def history(self, days):
        return [sum(range(day % 97)) for day in range(days)]

    def fit(self, days):
        x = numpy.arange(days)
        return numpy.polyfit(x, numpy.array(self.history(days)), 5)

    def smooth(self, days):
        return numpy.fft.fft(numpy.random.rand(days)).real.sum()


def main(seconds):
    forecast = Forecast()
    end = time.time() + seconds
    while time.time() < end:
        days = random.randrange(2000, 20000)
        forecast.fit(days)
        forecast.smooth(days)
        time.sleep(0.0005)


main(float(sys.argv[1]) if len(sys.argv) > 1 else 10)
