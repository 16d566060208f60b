# gnuplot -c plots.gp DATA-DIRECTORY SVG-DIRECTORY: a plot for each file of data; its columns are the sides.
data = ARG1
set terminal svg size 760,380 dynamic background rgb 'white' font 'sans-serif,13'
set datafile missing '?'
set key outside right top noenhanced
set grid ytics
set style data linespoints
set style fill solid 0.9 noborder
set pointsize 0.8
set xtics noenhanced
set yrange [0:*]
columns(file) = int(system(sprintf("head -n 1 '%s' | tr '\\t' '\\n' | wc -l", file)))
exists(file) = int(system(sprintf("test -e '%s' && echo 1 || echo 0", file)))

do for [name in "enqueue claim batch work held backlog latency wal life"] {
	file = data . '/' . name . '.dat'
	if (exists(file)) {
		set output ARG2 . '/' . name . '.svg'
		unset logscale
		set yrange [0:*]
		set ylabel (name eq 'latency' ? 'ms' : name eq 'wal' ? 'bytes of WAL for each job' : 'jobs/s')
		set xlabel (name eq 'claim' || name eq 'life' ? 'clients' : name eq 'batch' ? 'jobs a call' : name eq 'work' ? 'workers' : \
			name eq 'held' ? 'seconds' : name eq 'backlog' ? 'jobs queued' : '')
		if (name eq 'held' || name eq 'batch' || name eq 'latency' || name eq 'enqueue') { set logscale y; set yrange [*:*] }
		bars = name eq 'enqueue' || name eq 'latency' || name eq 'wal' || name eq 'life'
		if (bars) {
			plot for [i = 2:columns(file)] file using i:xtic(1) with histograms title columnheader(i)
		} else { if (name eq 'held') {
			plot for [i = 2:columns(file)] file using (column(1)):i with lines linewidth 2 title columnheader(i)
		} else {
			plot for [i = 2:columns(file)] file using i:xtic(1) linewidth 2 pointtype 7 title columnheader(i)
		}}
	}
}
