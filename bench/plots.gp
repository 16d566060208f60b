# gnuplot -c plots.gp DATA-DIRECTORY SVG-DIRECTORY: makes a plot of each data file, whose columns are the sides.
set terminal svg size 760,380 dynamic background rgb 'white' font 'sans-serif,13'
set datafile missing '?' separator "\t"
set key below noenhanced
set xtics noenhanced
set grid ytics
set style fill solid noborder

there(file) = int(system(sprintf("test -e '%s' && echo 1 || echo 0", file)))
columns(file) = int(system(sprintf("head -n 1 '%s' | tr '\\t' '\\n' | wc -l", file)))
side(file, i) = system(sprintf("head -n 1 '%s' | cut -f %d", file, i))
colour(side) = side eq 'pgq_ext' ? '#c0392b' : side eq 'pgq_ext, one statement' ? '#e59866' : side eq 'SKIP LOCKED' ? '#2e86c1' : \
	side eq 'LISTEN/NOTIFY' ? '#2e86c1' : side eq 'advisory locks' ? '#7d8b8c' : side eq 'ceiling' ? '#17202a' : \
	side eq 'ceiling, with the rows' ? '#566573' : side eq 'ceiling, one statement with the rows' ? '#909497' : '#27ae60'
dashes(side) = strstrt(side, 'ceiling') == 1 ? 2 : 1
is_in(name, list) = strstrt(' ' . list . ' ', ' ' . name . ' ') > 0

do for [name in "enqueue claim batch work held backlog latency wal life"] {
	file = ARG1 . '/' . name . '.dat'
	if (there(file)) {
		set output ARG2 . '/' . name . '.svg'
		set ylabel (name eq 'latency' ? 'ms' : name eq 'wal' ? 'bytes of WAL for each job' : 'jobs/s')
		set xlabel (is_in(name, 'claim life') ? 'clients' : name eq 'batch' ? 'jobs a call' : name eq 'work' ? 'workers' : \
			name eq 'held' ? 'seconds' : name eq 'backlog' ? 'jobs queued' : '')
		unset logscale
		set yrange [0:*]
		if (is_in(name, 'enqueue batch held latency')) {
			set logscale y
			set yrange [*:*]
		}
		if (is_in(name, 'enqueue latency wal life')) {
			plot for [i = 2:columns(file)] file skip 1 using i:xtic(1) with histograms linecolor rgb colour(side(file, i)) title side(file, i)
		} else {
			if (name eq 'held') {
				plot for [i = 2:columns(file)] file skip 1 using 1:i with lines linewidth 2 linecolor rgb colour(side(file, i)) title side(file, i)
			} else {
				plot for [i = 2:columns(file)] file skip 1 using i:xtic(1) with linespoints linewidth 2 pointtype 7 dashtype dashes(side(file, i)) \
					linecolor rgb colour(side(file, i)) title side(file, i)
			}
		}
	}
}
