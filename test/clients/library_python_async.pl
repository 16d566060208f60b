# The library for Python, with asyncio
use strict;
use warnings;
use LibraryTest;

run_scenarios('Python, asyncio', '/usr/bin/python3', 'clients/python/test/subject.py', 'async');
