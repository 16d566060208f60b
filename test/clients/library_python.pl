# The library for Python, with threads
use strict;
use warnings;
use LibraryTest;

run_scenarios('Python', '/usr/bin/python3', 'clients/python/test/subject.py');
