// Works off the queue "mail" of the database jdbc:postgresql://HOST/DATABASE?user=..., its argument. Where there is a standby,
// jdbc:postgresql://ONE,TWO/DATABASE?targetServerType=primary&user=..., and it goes on after a failover.
// SIGTERM: the job in hand is finished, what has not begun is given back.
// If a job is not ours any more (it took too long, or was cancelled) pgq_ack fails, which undoes its work.
import java.sql.*;
import java.util.*;
import java.util.concurrent.locks.LockSupport;

public class Worker {
    record Job(long id, long lease, String payload) {}
    interface Use { void with(Connection db) throws Exception; }
    static volatile boolean stopping;
    static volatile List<Job> held = List.of(); // the jobs claimed last

    static void handle(Connection db, Job job) throws SQLException { // the work: committed with the ack, or not at all
        call(db, "INSERT INTO sent (job_id, address) VALUES (?, ?::jsonb ->> 'to') RETURNING job_id", job.id, job.payload);
    }

    static void call(Connection db, String sql, Object... values) throws SQLException {
        try (var statement = db.prepareStatement(sql)) {
            for (int i = 0; i < values.length; i++) statement.setObject(i + 1, values[i]);
            statement.executeQuery();
        }
    }

    static List<Job> claim(Connection db) throws SQLException {
        var jobs = new ArrayList<Job>();
        try (var statement = db.createStatement();
             var row = statement.executeQuery("SELECT job_id, lease, payload FROM pgq_claim('mail', 5, wait => '5 s')")) {
            while (row.next()) jobs.add(new Job(row.getLong(1), row.getLong(2), row.getString(3)));
        }
        return jobs;
    }

    static void work(Connection db, Job job) throws SQLException {
        db.setAutoCommit(false);
        try {
            handle(db, job);
            call(db, "SELECT pgq_ack(?, ?)", job.id, job.lease);
            db.commit();
        } catch (Exception e) { // tried again after the queue's backoff
            db.rollback();
            call(db, "SELECT pgq_fail(?, ?, error => ?)", job.id, job.lease, e.getMessage());
        }
        db.setAutoCommit(true);
    }

    static void connected(String url, Use use) { // whoever is the primary: what was in hand comes again
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
            for (var job : held) call(db, "SELECT pgq_extend(?, ?)", job.id, job.lease);
        }
    }

    static void workAll(Connection db) throws Exception {
        try {
            while (!stopping) {
                var jobs = claim(db);
                for (int i = 0; i < jobs.size(); i++) {
                    var job = jobs.get(i);
                    held = jobs.subList(i, jobs.size());
                    if (stopping) call(db, "SELECT pgq_release(?, ?)", job.id, job.lease);
                    else work(db, job);
                }
                held = List.of();
            }
        } finally {
            held = List.of(); // the connection is gone: somebody else gets them
        }
    }

    public static void main(String[] arguments) throws Exception {
        DriverManager.getConnection(arguments[0]).close(); // what is wrong from the start is an error
        var main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> { // SIGTERM: Java waits for it
            stopping = true;
            try { main.join(); } catch (InterruptedException e) { }
        }));
        var heartbeat = new Thread(() -> connected(arguments[0], Worker::heartbeat));
        heartbeat.setDaemon(true);
        heartbeat.start();
        connected(arguments[0], Worker::workAll);
    }
}
