<?php
[, $setting, $word, $url] = $argv;
$url = parse_url($url);
$options = $setting === 'set' ? [PDO::PGSQL_ATTR_DISABLE_PREPARES => true] : [];
$db = new PDO("pgsql:host={$url['host']};port={$url['port']};dbname=" . substr($url['path'], 1), $url['user'], options: $options);
$statement = $db->prepare("SELECT '$word ' || count(*) FROM pgq_claim(?, 1)");
while (fgets(STDIN) !== false) {
    try {
        $answers = [];
        for ($i = 0; $i < 10; $i++) {
            $statement->execute(['mail']);
            $answers[$statement->fetchColumn()] = true;
        }
        ksort($answers);
        echo implode(' ', array_keys($answers)) . "\n";
    } catch (PDOException $error) {
        echo $error->errorInfo[0] . ' ' . preg_replace('/^ERROR:  /', '', explode("\n", $error->errorInfo[2])[0]) . "\n";
    }
}
