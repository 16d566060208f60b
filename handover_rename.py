#!/usr/bin/env python3
"""Private nouns -> the field's terms. Run at the root of a tree: git mv of files, then identifiers in code and, in backticks, in pages."""
import re, subprocess, os, sys
FILES = {  # stem without room -> new stem; all rooms are searched
 'engine/doubt':'invalidate','engine/seat':'exit_status','engine/share':'lease_quota','engine/watch':'prepared_entry',
 'engine/ring_notes':'ring_status','engine/duty_note':'duty_status','txn/settle':'apply_effects','*/settle':'requeue',
 'worker/farewell':'shutdown_save','worker/shift':'scheduler_state','worker/turn':'queue_pass','*/room':'depth',
 '*/grant':'privileges','*/owner':'key_owner','*/owner_wait':'key_owner_wait','*/permitted':'permission','*/timetable':'cron_schedule','rows/judge':'visibility',
}
WORDS = {
 'distrust':'invalidate_queue','distrust_all':'invalidate_all',
 'Seat':'ExitStatus','SeatState':'ExitState','SeatOrder':'StartOrder','seat_count':'exit_status_count','seats_size':'exit_statuses_size','place_seats':'place_exit_statuses',
 'LeaseShare':'LeaseQuota','AsideShare':'AsideQuota','init_share':'init_lease_quota','own_share':'reserved_leases','common_bound':'shared_leases',
 'Watch':'PreparedEntry','take_free_watch':'take_free_entry','activate_watch':'activate_entry','free_watch':'free_entry','watched_xid':'xid_of_entry',
 'can_watch':'has_free_entries','watches_size':'prepared_entries_size','place_watches':'place_prepared_entries',
 'RingNotes':'RingStatus','SegmentNotes':'SegmentStatus','DutyNote':'DutyStatus','kDutyNotes':'kDutyStatuses','kQueueDutyNotes':'kQueueDutyStatuses',
 'Shift':'SchedulerState','Turn':'QueuePass','Popped':'Candidate','Shortage':'StopReason','Patience':'RefillWait',
 'Meeting':'OwnerAnswer','Met':'LookResult','Grip':'HeldLease','Reach':'TakeInHand','Deed':'Permission','Room':'DepthAnswer','Standing':'SchedulingColumns','standing_of':'scheduling_columns_of',
 'Verdict':'Visibility','judge_version':'visibility_of',
}
VARS = {  # identifiers of variables, in code files of the rooms named
 'src/worker':{'shift':'scheduler','turn':'pass'},
 'src/catalog src/jobs src/api src/rows src/admin src/claim src/schedules src/sync src/txn':{'deed':'permission'},
 'src/rows src/claim src/jobs src/load src/ring src/api src/txn':{'verdict':'visibility'},
}
def sh(*a): return subprocess.run(a,capture_output=True,text=True,check=True).stdout
files=sh('git','ls-files').split('\n')
code=[f for f in files if re.match(r'(src|test/unit)/.*\.(h|cpp)$',f)]
moves=[]
for old,new in FILES.items():
    room,stem=old.split('/')
    for f in code:
        m=re.match(r'src/(.*)/'+stem+r'\.(h|cpp)$',f)
        if m and (room=='*' and m.group(1) not in('pg','core','engine','txn','rows','worker') or m.group(1)==room):
            moves.append((f,f'src/{m.group(1)}/{new}.{m.group(2)}'))
for a,b in moves: os.rename(a,b)
move=dict(moves)
texts=[move.get(f,f) for f in files if re.search(r'\.(h|cpp|md|pl|pm|sh|txt|mk|sql|spec|py|pml)$',f) or f in('Makefile','CMakeLists.txt')]
inc={a[4:]:b[4:] for a,b in moves}
words=re.compile(r'(?<![\w-])('+'|'.join(sorted(map(re.escape,WORDS),key=len,reverse=True))+r')(?![\w-])')
for f in texts:
    if not os.path.exists(f): continue
    try: s=open(f).read()
    except UnicodeDecodeError: continue
    o=s
    for a,b in inc.items():
        s=re.sub(r'(?<![\w/])'+re.escape(a)+r'(?!\w)',b,s)
        sa,sb=a.rsplit('.',1)[0],b.rsplit('.',1)[0]
        s=re.sub(r'(?<![\w/])(src/)?'+re.escape(sa)+r'(?=\.(\*|\{|h\b|cpp\b)|`|\*)',lambda m:(m.group(1) or '')+sb,s)
    if re.search(r'\.(h|cpp)$',f) and f.startswith(('src/','test/unit/')):
        # in code; in comments only names that cannot be English words
        def comment(t): return words.sub(lambda m: m.group(1) if m.group(1) in('Watch','Turn','Room','Reach','Shift','Seat','Share','Met','Standing') and not re.search(r'`',t) else WORDS[m.group(1)],t)
        out=[];p=0
        for m in re.finditer(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"',s,re.S):
            out.append(words.sub(lambda k:WORDS[k.group(1)],s[p:m.start()]))
            t=m.group(0)
            out.append(t if t[0]=='"' else comment(t)); p=m.end()
        out.append(words.sub(lambda k:WORDS[k.group(1)],s[p:])); s=''.join(out)
        for dirs,vs in VARS.items():
            if any(f.startswith(d+'/') for d in dirs.split()):
                for v,n in vs.items():
                    out=[];p=0
                    pat=re.compile(r'(?<![\w>.])'+v+r'(?!\w)|(?<=->)'+v+r'(?!\w)|(?<=\.)'+v+r'(?!\w|\.h)')
                    for m in re.finditer(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"',s,re.S):
                        out.append(pat.sub(n,s[p:m.start()]))
                        t=m.group(0)
                        out.append(re.sub(r'(?<=\*)'+v+r'(?!\w)|`'+v+'`',lambda k:k.group(0).replace(v,n),t) if t[0]!='"' else t); p=m.end()
                    out.append(pat.sub(n,s[p:])); s=''.join(out)
    elif f.endswith('.md'):
        s=re.sub(r'`[^`\n]+`',lambda m:words.sub(lambda k:WORDS[k.group(1)],m.group(0)),s)
    if s!=o: open(f,'w').write(s)

ALL = [ # (files, word, new): also in comments
 (r'src/(txn/prepared|load/attach)\.cpp', 'the watches','the entries'), (r'src/load/attach\.cpp', 'frees watches','frees entries'),
 (r'src/.*', 'shared->watches','shared->prepared_entries'), (r'src/engine/shared\.h', 'Watch \*watches','PreparedEntry *prepared_entries'),
 (r'src/engine/shared\.h', 'PreparedEntry \*watches','PreparedEntry *prepared_entries'),
 (r'src/engine/shared\.h', 'belongs to which database or queue; watches','belongs to which database or queue; prepared entries'),
 (r'src/engine/shared\.h', 'number of active watches','number of active prepared entries'),
 (r'src/engine/prepared_entry.*', 'watches','entries'), 
 (r'src/(engine/prepared_entry|txn/prepared|txn/pending).*', 'watch','entry'),
 (r'src/.*', 'find_free_watch','find_free_entry'), (r'src/.*','settle_watch','settle_entry'),
 (r'src/(engine|worker)/.*', 'seats','exit_statuses'),
 (r'src/(engine/exit_status|worker/).*', 'seat','place'),
 (r'src/claim/.*', 'settle','requeue_rejected'),
]
for f in texts:
    if not os.path.exists(f) or not re.search(r'\.(h|cpp)$',f): continue
    s=o=open(f).read()
    for pat,w,n in ALL:
        if re.fullmatch(pat,f):
            if w=='settle': s=re.sub(r'(?<![\w-])settle(?=\()',n,s)
            else: s=re.sub(r'(?<![\w-])'+w+r'(?!\w)',n,s)
    if s!=o: open(f,'w').write(s)
sh('git','add','-A')
