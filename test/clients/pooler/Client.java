import java.sql.*;
import java.util.*;

public class Client {
    public static void main(String[] arguments) throws Exception {
        var url = arguments[2].replaceFirst("postgres://(.*)@(.*)[?]application_name=", "jdbc:postgresql://$2?user=$1&ApplicationName=")
            + (arguments[0].equals("plain") ? "" : "&prepareThreshold=0") + (arguments[0].equals("set") ? "&assumeMinServerVersion=9.0" : "");
        var input = new Scanner(System.in);
        try (var db = DriverManager.getConnection(url);
             var claim = db.prepareStatement("SELECT '" + arguments[1] + " ' || count(*) FROM pgq_claim(?, 1)")) {
            while (input.hasNextLine()) {
                input.nextLine();
                try {
                    var answers = new TreeSet<String>();
                    for (int i = 0; i < 10; i++) {
                        claim.setString(1, "mail");
                        var rows = claim.executeQuery();
                        rows.next();
                        answers.add(rows.getString(1));
                    }
                    System.out.println(String.join(" ", answers));
                } catch (SQLException e) { System.out.println(e.getSQLState() + " " + e.getMessage().lines().findFirst().get().replaceFirst("ERROR: ", "")); }
            }
        }
    }
}
