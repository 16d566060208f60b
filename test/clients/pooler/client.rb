require 'pg'

setting, word, url = ARGV
$stdout.sync = true
db = PG.connect(url)
sql = "SELECT '#{word} ' || count(*) FROM pgq_claim($1, 1)"
prepared = false
while $stdin.gets
  begin
    db.prepare('claim', sql) if setting == 'named' && !prepared
    prepared = true
    answers = Array.new(10) { (setting == 'named' ? db.exec_prepared('claim', ['mail']) : db.exec_params(sql, ['mail'])).getvalue(0, 0) }
    puts answers.uniq.sort.join(' ')
  rescue PG::Error => e
    puts "#{e.result.error_field(PG::PG_DIAG_SQLSTATE)} #{e.result.error_field(PG::PG_DIAG_MESSAGE_PRIMARY)}"
  end
end
