// An order service on jetty with a pool of 1,800 threads and an H2 database, and customers that call it over HTTP.
// SPDX-License-Identifier: Apache-2.0
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.handler.AbstractHandler;
import org.eclipse.jetty.util.thread.QueuedThreadPool;

public class Orders extends AbstractHandler {
    private static final String DATABASE = "jdbc:h2:mem:orders;DB_CLOSE_DELAY=-1";
    private final ThreadLocal<Connection> connections = ThreadLocal.withInitial(Orders::connect);

    static Connection connect() {
        try {
            return DriverManager.getConnection(DATABASE);
        } catch (SQLException e) {
            throw new IllegalStateException(e);
        }
    }

    void place(int customer) throws SQLException {
        try (var insert = connections.get().prepareStatement("insert into orders values (?, ?, ?)")) {
            insert.setString(1, UUID.randomUUID().toString());
            insert.setInt(2, customer);
            insert.setInt(3, ThreadLocalRandom.current().nextInt(1000));
            insert.executeUpdate();
        }
    }

    long summary(int customer) throws SQLException {
        try (var query = connections.get().prepareStatement("select sum(amount) from orders where customer = ?")) {
            query.setInt(1, customer);
            try (var rows = query.executeQuery()) {
                return rows.next() ? rows.getLong(1) : 0;
            }
        }
    }

    @Override
    public void handle(String target, Request base, HttpServletRequest request, HttpServletResponse response) throws IOException {
        int customer = ThreadLocalRandom.current().nextInt(200);
        try {
            place(customer);
            response.getWriter().println(summary(customer));
        } catch (SQLException e) {
            throw new IOException(e);
        }
        base.setHandled(true);
    }

    static void shop(URI uri, long end) {
        var client = HttpClient.newHttpClient();
        try {
            while (System.currentTimeMillis() < end)
                client.send(HttpRequest.newBuilder(uri).build(), HttpResponse.BodyHandlers.ofString());
        } catch (IOException | InterruptedException e) {
            System.err.println("a customer left: " + e);
        }
    }

    public static void main(String[] arguments) throws Exception {
        System.setProperty("org.eclipse.jetty.util.log.class", "org.eclipse.jetty.util.log.StdErrLog");
        System.setProperty("org.eclipse.jetty.LEVEL", "WARN");
        try (var setup = connect().createStatement()) {
            setup.execute("create table orders (id varchar primary key, customer int, amount int)");
            setup.execute("create index by_customer on orders (customer)");
        }
        var pool = new QueuedThreadPool(1800, 1800);
        pool.setName("orders");
        var server = new Server(pool);
        var connector = new ServerConnector(server);
        connector.setHost("127.0.0.1");
        server.addConnector(connector);
        server.setHandler(new Orders());
        server.start();
        var uri = URI.create("http://127.0.0.1:" + connector.getLocalPort() + "/");
        long end = System.currentTimeMillis() + 1000L * (arguments.length > 0 ? Integer.parseInt(arguments[0]) : 10);
        List<Thread> customers = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            var customer = new Thread(() -> shop(uri, end), "customer-" + i);
            customer.start();
            customers.add(customer);
        }
        for (var customer : customers)
            customer.join();
        server.stop();
        System.exit(0);
    }
}
