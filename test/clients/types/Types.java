import java.sql.*;

public class Types {
    static Connection db;

    static ResultSet rows(String sql, Object... values) throws SQLException {
        var statement = db.prepareStatement(sql);
        for (int i = 0; i < values.length; i++) statement.setObject(i + 1, values[i]);
        var rows = statement.executeQuery();
        rows.next();
        return rows;
    }

    static void tell(String what, String sql, Object... values) {
        try {
            System.out.println(what + ": " + rows(sql, values).getString(1));
        } catch (SQLException e) { System.out.println(what + ": " + e.getSQLState()); }
    }

    static Array ids(Object... ids) throws SQLException { return db.createArrayOf("bigint", ids); }

    public static void main(String[] arguments) throws Exception {
        db = DriverManager.getConnection(arguments[0]);
        tell("id", "SELECT pgq_enqueue(?, ?::jsonb)", "mail", "{\"to\": \"ada\"}");
        tell("NULL for all that may be", "SELECT (pgq_enqueue(?, ?::jsonb, delay => ?, headers => ?, max_attempts => ?) > 0)::text", "mail", "[]", null, null, null);
        tell("NULL as JSON", "SELECT (pgq_enqueue(?, ?::jsonb) > 0)::text", "mail", "null");
        tell("NULL payload", "SELECT pgq_enqueue(?, ?)", "mail", null);
        tell("interval", "SELECT (pgq_enqueue('mail', '1', delay => ?::interval) > 0)::text", "1 h");
        tell("NULL arrays", "SELECT count(*) FROM pgq_ack_many(?, ?)", null, null);
        tell("one NULL array", "SELECT count(*) FROM pgq_ack_many(?, ?)", ids(), null);
        tell("empty arrays", "SELECT count(*) FROM pgq_ack_many(?, ?)", ids(), ids());
        var job = rows("SELECT job_id, lease, payload FROM pgq_ack_claim(?, ?, ?)", ids(), ids(), "mail");
        System.out.println("payload: " + job.getObject(3).getClass().getSimpleName());
        tell("arrays", "SELECT payload::text FROM pgq_ack_claim(?, ?, 'mail')", ids(job.getLong(1)), ids(job.getLong(2)));
        tell("no queues", "SELECT count(*) FROM pgq_claim_any(?, wait => '1 ms')", db.createArrayOf("text", new Object[0]));
        job = rows("SELECT job_id, lease FROM pgq_claim_any(?)", db.createArrayOf("text", new Object[] {"other", "mail"}));
        tell("why NULL", "SELECT pgq_fail(?, ?, error => ?, retry_in => ?)", job.getLong(1), job.getLong(2), null, null);
        rows("SELECT pgq_enqueue(?, ?::jsonb)", "other", "1");
        job = rows("SELECT job_id, lease FROM pgq_claim(?, ?)", "other", 1);
        tell("false", "SELECT pgq_fail(?, ?, retry => ?)", job.getLong(1), job.getLong(2), false);
        tell("payload without a cast", "SELECT pgq_enqueue(?, ?)", "other", "1");
        tell("interval without a cast", "SELECT pgq_enqueue('other', '1', delay => ?)", "1 h");
        tell("a long as max_jobs", "SELECT count(*) FROM pgq_claim(?, ?)", "mail", 1L);
        db = DriverManager.getConnection(arguments[0] + "&stringtype=unspecified");
        tell("without casts, unspecified", "SELECT (pgq_enqueue(?, ?, delay => ?) > 0)::text", "other", "1", "1 h");
    }
}
