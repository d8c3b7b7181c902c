// A shop on jetty with a pool of 1,800 threads and an H2 database, and customers that call it over HTTP: six functions, each between
// two readings of its thread's CPU clock (ThreadMXBean), in one mix or in two that alternate. Written when a line comes on stdin, and then
// every second: the time in ms since 1970, and each function's nanoseconds so far.
//   java Shop SECONDS PHASE-SECONDS (0: steady)
// SPDX-License-Identifier: Apache-2.0
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.math.BigDecimal;
import java.math.MathContext;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.handler.AbstractHandler;
import org.eclipse.jetty.util.thread.QueuedThreadPool;

public class Shop extends AbstractHandler {
    private static final String DATABASE = "jdbc:h2:mem:shop;DB_CLOSE_DELAY=-1";
    private static final String[] NAMES = {"place", "summary", "ranking", "search", "receipt", "quote"};
    private static final int[][] MIXES = {{30, 25, 15, 10, 12, 8}, {8, 10, 6, 30, 16, 30}};
    private static final int ROWS = 4000, CUSTOMERS = 200;
    private static final ThreadMXBean CLOCK = ManagementFactory.getThreadMXBean();
    private static final AtomicLongArray USED = new AtomicLongArray(NAMES.length);
    private static final AtomicLong NEXT = new AtomicLong();
    private static volatile int mix;

    interface Statements {
        long run(PreparedStatement statement) throws Exception;
    }

    // A connection for each call: 1,800 threads have none of their own.
    static long ask(String sql, Statements body) throws Exception {
        try (Connection connection = DriverManager.getConnection(DATABASE); PreparedStatement statement = connection.prepareStatement(sql)) {
            return body.run(statement);
        }
    }

    static long sumOf(PreparedStatement statement) throws Exception {
        long sum = 0;
        try (var rows = statement.executeQuery()) {
            while (rows.next())
                sum += rows.getLong(1);
        }
        return sum;
    }

    // The oldest rows make room, so that the work stays the same.
    static long place() throws Exception {
        return ask("merge into orders key (id) values (?, ?, ?, ?)", (statement) -> {
            for (int i = 0; i < 8; i++) {
                long number = NEXT.getAndIncrement();
                statement.setLong(1, number % ROWS);
                statement.setInt(2, ThreadLocalRandom.current().nextInt(CUSTOMERS));
                statement.setInt(3, ThreadLocalRandom.current().nextInt(1000));
                statement.setString(4, "article " + number % 977);
                statement.executeUpdate();
            }
            return 0;
        });
    }

    static long summary() throws Exception {
        return ask("select amount from orders where customer = ? order by amount", (statement) -> {
            long sum = 0;
            for (int i = 0; i < 4; i++) {
                statement.setInt(1, ThreadLocalRandom.current().nextInt(CUSTOMERS));
                sum += sumOf(statement);
            }
            return sum;
        });
    }

    static long ranking() throws Exception {
        return ask("select sum(amount) from orders where id < ? group by customer order by 1 desc limit 10", (statement) -> {
            statement.setInt(1, 500);
            return sumOf(statement);
        });
    }

    static long search() throws Exception {
        return ask("select amount from orders where id < 800 and article like ?", (statement) -> {
            statement.setString(1, "%" + ThreadLocalRandom.current().nextInt(10, 99) + "%");
            return sumOf(statement);
        });
    }

    static long receipt() throws Exception {
        var text = new StringBuilder();
        for (int i = 0; i < 1200; i++)
            text.append(i).append(' ').append("article ").append(i * 31 % 977).append('\n');
        return MessageDigest.getInstance("SHA-256").digest(text.toString().getBytes(StandardCharsets.UTF_8))[0];
    }

    static long quote() throws Exception {
        var price = new BigDecimal("19.99");
        for (int i = 1; i < 1500; i++)
            price = price.multiply(new BigDecimal("1.0003"), MathContext.DECIMAL64).add(BigDecimal.valueOf(i, 4)).divide(new BigDecimal("1.0007"), MathContext.DECIMAL64);
        return price.longValue();
    }

    static long call(int function) throws Exception {
        switch (function) {
        case 0: return place();
        case 1: return summary();
        case 2: return ranking();
        case 3: return search();
        case 4: return receipt();
        default: return quote();
        }
    }

    @Override
    public void handle(String target, Request base, HttpServletRequest request, HttpServletResponse response) throws IOException {
        int function = 0;
        long sum = 0;
        for (int pick = ThreadLocalRandom.current().nextInt(100); function < NAMES.length - 1 && pick >= MIXES[mix][function]; function++)
            pick -= MIXES[mix][function];
        try {
            long before = CLOCK.getCurrentThreadCpuTime();
            sum = call(function);
            USED.addAndGet(function, CLOCK.getCurrentThreadCpuTime() - before);
        } catch (Exception e) {
            throw new IOException(e);
        }
        response.getWriter().println(sum);
        base.setHandled(true);
    }

    static void buy(URI uri, long end) {
        var client = HttpClient.newHttpClient();
        try {
            while (System.currentTimeMillis() < end)
                client.send(HttpRequest.newBuilder(uri).build(), HttpResponse.BodyHandlers.ofString());
        } catch (IOException | InterruptedException e) {
            System.err.println("a customer left: " + e);
        }
    }

    static void customers(URI uri, long end) throws InterruptedException {
        List<Thread> all = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            var customer = new Thread(() -> buy(uri, end), "customer-" + i);
            customer.start();
            all.add(customer);
        }
        for (var customer : all)
            customer.join();
    }

    static void tell() {
        var line = new StringBuilder().append(System.currentTimeMillis());
        for (int i = 0; i < NAMES.length; i++)
            line.append(' ').append(NAMES[i]).append(' ').append(USED.get(i));
        System.out.println(line);
    }

    public static void main(String[] arguments) throws Exception {
        System.setProperty("org.eclipse.jetty.util.log.class", "org.eclipse.jetty.util.log.StdErrLog");
        System.setProperty("org.eclipse.jetty.LEVEL", "WARN");
        double seconds = Double.parseDouble(arguments[0]), phase = Double.parseDouble(arguments[1]);
        var keeps = DriverManager.getConnection(DATABASE);
        keeps.createStatement().execute("create table orders (id bigint primary key, customer int, amount int, article varchar)");
        keeps.createStatement().execute("create index by_customer on orders (customer)");
        for (int i = 0; i < ROWS / 8; i++)
            place();
        var pool = new QueuedThreadPool(1800, 1800);
        pool.setName("shop");
        var server = new Server(pool);
        var connector = new ServerConnector(server);
        connector.setHost("127.0.0.1");
        server.addConnector(connector);
        server.setHandler(new Shop());
        server.start();
        var uri = URI.create("http://127.0.0.1:" + connector.getLocalPort() + "/");
        customers(uri, System.currentTimeMillis() + 8000); // compiled, before it counts
        System.out.println("ready");
        if (System.in.read() < 0)
            System.exit(1);
        long start = System.currentTimeMillis();
        var clock = new Thread(() -> {
            for (int second = 0; second <= seconds; second++) {
                if (phase > 0)
                    mix = (int) (second / phase) % 2;
                tell();
                try {
                    Thread.sleep(Math.max(0, start + 1000L * (second + 1) - System.currentTimeMillis()));
                } catch (InterruptedException e) {
                    return;
                }
            }
        }, "clock");
        clock.setDaemon(true);
        clock.start();
        customers(uri, start + (long) (seconds * 1000));
        tell();
        System.exit(0);
    }
}
