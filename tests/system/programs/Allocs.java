/* Methods that allocate what they say: for `sonde profile --event alloc`. */
public class Allocs {
    static Object kept;

    static long makesBytes(int n) {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            byte[] made = new byte[1000];
            kept = made;
            sum += 1016; // with its header of 16
        }
        return sum;
    }

    static long makesLongs(int n) {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            long[] made = new long[375];
            kept = made;
            sum += 3016;
        }
        return sum;
    }

    static long makesLarge(int n) {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            byte[] made = new byte[3000000];
            kept = made;
            sum += 3000016;
        }
        return sum;
    }

    public static void main(String[] arguments) throws Exception {
        long bytes = 0, longs = 0, large = 0;
        System.out.println("ready");
        System.in.read();
        for (int i = 0; i < 1000; i++) {
            bytes += makesBytes(1000);
            longs += makesLongs(1000);
            if (i % 10 == 0)
                large += makesLarge(1);
        }
        System.out.println("{\"Allocs.makesBytes\": " + bytes + ", \"Allocs.makesLongs\": " + longs + ", \"Allocs.makesLarge\": " + large + "}");
        System.out.println("done");
        System.in.read();
    }
}
