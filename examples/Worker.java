// A worker for the queue "mail". Its argument names the database: jdbc:postgresql://HOST/DATABASE?user=... With a standby, use
// jdbc:postgresql://ONE,TWO/DATABASE?targetServerType=primary&user=...: then the worker goes on after a failover. On SIGTERM
// the worker finishes the job that it is working on. If it has lost a job (the job took too long, or was cancelled), pgq_ack
// fails, which rolls the work back. Create the queue by SELECT pgq_create_queue('mail', lease_time => '1 min', max_runtime =>
// '10 min'). The heartbeat extends the lease until max_runtime is over; then a job that hangs goes to another worker.
import static java.nio.charset.StandardCharsets.UTF_8;
import java.sql.*;
import java.util.concurrent.locks.LockSupport;

public class Worker {
    record Job(long id, long lease, String payload) {}
    interface Use { void with(Connection db) throws Exception; }
    static volatile boolean stopping;
    static volatile Job held; // the job that the worker is working on

    static void handle(Connection db, Job job) throws SQLException { // the work, committed together with the ack
        call(db, "INSERT INTO sent (job_id, address) VALUES (?, ?::jsonb ->> 'to') RETURNING job_id", job.id, job.payload);
    }

    static void call(Connection db, String sql, Object... values) throws SQLException {
        try (var statement = db.prepareStatement(sql)) {
            for (int i = 0; i < values.length; i++) statement.setObject(i + 1, values[i]);
            statement.executeQuery();
        }
    }

    static Job claim(Connection db) throws SQLException { // null: there is none
        try (var statement = db.createStatement();
             var row = statement.executeQuery("SELECT job_id, lease, payload FROM pgq_claim('mail', wait => '5 s')")) {
            return row.next() ? new Job(row.getLong(1), row.getLong(2), row.getString(3)) : null;
        }
    }

    static String storable(Exception e) { // PostgreSQL stores valid UTF-8 without NUL
        return new String(String.valueOf(e.getMessage()).getBytes(UTF_8), UTF_8).replace('\0', '?');
    }

    static void work(Connection db, Job job) throws SQLException {
        db.setAutoCommit(false);
        try {
            handle(db, job);
            call(db, "SELECT pgq_ack(?, ?)", job.id, job.lease);
            db.commit();
        } catch (Exception e) { // the job is tried again after the queue's backoff
            db.rollback();
            call(db, "SELECT pgq_fail(?, ?, error => ?)", job.id, job.lease, storable(e));
        }
        db.setAutoCommit(true);
    }

    // reconnects to the primary after an error; a claimed job is then claimed again
    static void connected(String url, Use use) {
        while (!stopping) {
            try (var db = DriverManager.getConnection(url)) {
                use.with(db);
            } catch (Exception e) {
                System.err.println(e.getMessage());
                LockSupport.parkNanos(1_000_000_000);
            }
        }
    }

    static void heartbeat(Connection db) throws Exception {
        while (true) {
            Thread.sleep(3000); // well within the queue's lease_time
            var job = held;
            if (job != null) call(db, "SELECT pgq_extend(?, ?)", job.id, job.lease);
        }
    }

    static void workAll(Connection db) throws Exception {
        try {
            while (!stopping) {
                var job = claim(db);
                if (job == null) continue;
                held = job;
                if (stopping) call(db, "SELECT pgq_release(?, ?)", job.id, job.lease); // the job has not begun: give it back
                else work(db, job);
                held = null;
            }
        } finally {
            held = null; // if the connection is lost, another worker gets the job
        }
    }

    public static void main(String[] arguments) throws Exception {
        DriverManager.getConnection(arguments[0]).close(); // fail now if the connection is impossible from the start
        var main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> { // Java waits for this at SIGTERM
            stopping = true;
            try { main.join(); } catch (InterruptedException e) { }
        }));
        var heartbeat = new Thread(() -> connected(arguments[0], Worker::heartbeat));
        heartbeat.setDaemon(true);
        heartbeat.start();
        connected(arguments[0], Worker::workAll);
    }
}
