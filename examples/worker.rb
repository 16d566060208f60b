#!/usr/bin/env ruby
# A worker for the queue "mail". PGHOST, PGDATABASE and so on name the database. With a standby, set PGHOST=one,two and
# PGTARGETSESSIONATTRS=read-write: then the worker goes on after a failover. On SIGTERM the worker finishes the job that it is
# working on. If it has lost a job (the job took too long, or was cancelled), pgq_ack fails, which rolls the work back. Create
# the queue by SELECT pgq_create_queue('mail', lease_time => '1 min', max_runtime => '10 min'). The heartbeat extends the lease
# until max_runtime is over; then a job that hangs goes to another worker.
require 'json'
require 'pg'

stopping = false
trap('TERM') { stopping = true }
held = nil # the lease of the job in hand: [job_id, lease]

def handle(db, job) # the work: committed with the ack, or not at all
  db.exec_params('INSERT INTO sent (job_id, address) VALUES ($1, $2)', [job['job_id'], JSON.parse(job['payload'])['to']])
end

def storable(error) # PostgreSQL stores valid UTF-8 without NUL
  error.message.encode('UTF-8', invalid: :replace, undef: :replace).scrub('?').tr("\0", '?')
end

connected = lambda do |&use| # connects again to the primary; the job in hand comes again
  until stopping
    begin
      PG.connect(&use)
    rescue PG::Error => e
      warn e.message
      sleep 1
    end
  end
end

PG.connect.close # what is wrong from the start is an error
Thread.new do # the heartbeat, well within the queue's lease_time
  connected.call do |db|
    loop do
      sleep 3
      lease = held
      db.exec_params('SELECT pgq_extend($1, $2)', lease) if lease
    end
  end
end

connected.call do |db|
  until stopping
    job = db.exec("SELECT job_id, lease, payload FROM pgq_claim('mail', wait => '5 s')").first or next
    lease = job.values_at('job_id', 'lease')
    if stopping # the job has not begun: it is given back
      db.exec_params('SELECT pgq_release($1, $2)', lease)
      break
    end
    held = lease
    begin
      db.transaction do
        handle(db, job)
        db.exec_params('SELECT pgq_ack($1, $2)', lease)
      end
    rescue StandardError => e # tried again after the queue's backoff
      db.exec_params('SELECT pgq_fail($1, $2, error => $3)', [*lease, storable(e)])
    end
    held = nil
  end
ensure
  held = nil # the connection is lost: another worker gets the job
end
