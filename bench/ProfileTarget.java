// The same as profile_target.c in Java: 36 methods deep, reads the clock without pause, and answers each "MILLISECONDS" on
// standard input with the gaps from 1 us to 1 ms, in nanoseconds.
// SPDX-License-Identifier: Apache-2.0
import java.io.BufferedReader;
import java.io.InputStreamReader;

public class ProfileTarget {
    static final long[] gaps = new long[1 << 20];
    static int count;

    static void watch(long ns) {
        long start = System.nanoTime(), last = start;
        while (last - start < ns) {
            long now = System.nanoTime();
            if (now - last > 1000 && count < gaps.length)
                gaps[count++] = now - last;
            last = now;
        }
    }

    static void deep(int depth, long ns) {
        if (depth > 0)
            deep(depth - 1, ns);
        else
            watch(ns);
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null;) {
            count = 0;
            deep(33, Long.parseLong(line) * 1_000_000);
            StringBuilder text = new StringBuilder();
            for (int i = 0; i < count; i++)
                if (gaps[i] < 1_000_000)
                    text.append(gaps[i]).append(' ');
            System.out.println(text);
        }
    }
}
