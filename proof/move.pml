/* A tenant moves between two shards while it works: two movers, two processes, one job.
 *
 * The table in docs/proof.md says which statement here is which function in src/rota/stores/shards.
 * A process acts on a placement that it has read less than FRESH ticks ago, and a call is carried out within
 * CALLS ticks: these are assumptions about time, and the clock of the model waits for them. A mover that is
 * paused does nothing, however long; that is the only fault, and there are PAUSES of them.
 */

#ifndef PAUSES
#define PAUSES 1
#endif
#ifndef MOVES
#define MOVES 2          /* there and back */
#endif
#define FRESH 2
#define CALLS 1
#define SETTLED (FRESH + CALLS)
#define HELD 2           /* ticks after which a mover that shows no sign of life counts as dead */
#define NOBODY 2

mtype = { NONE, READY, DONE };                         /* the job on a shard */
mtype = { STILL, COPYING, FROZEN, REMOVING };          /* the phase of the move */
mtype = { IDLE, BEGIN, READING, CHECKING, WRITING, ENTERING, INSERT, SETTLE, LOOK };

mtype copy[2] = NONE;

/* The placement document. `stamp` changes with every write of the record of the move. */
byte where;
mtype phase = STILL;
byte by = NOBODY;
byte stamp;
byte held;               /* ticks until its mover counts as dead */
byte since;              /* ticks since the phase began */

byte pauses = PAUSES;
byte moves = MOVES;

/* Ghosts. */
bool inserted;
bool ended;
byte runs;

/* Movers. */
mtype step[2] = IDLE;
byte seen_stamp[2];
byte known_held[2];
mtype seen[2] = NONE;
byte target_of[2];       /* the shard that it is about to write */
byte write_age[2];
bool paused[2];

/* Processes. */
byte view_where[2];
bool view_frozen[2];
byte view_age[2];
mtype call[2] = IDLE;
byte call_shard[2];
byte call_age[2];

#define OTHER (1 - where)
#define SOURCE (phase == REMOVING -> OTHER : where)
#define TARGET (phase == REMOVING -> where : OTHER)
#define MINE(m) (by == m && phase != STILL)

inline check_truth() {
    assert(!inserted || copy[where] != NONE);          /* an acknowledged insert is where the tenant lies */
    assert(!ended || copy[where] == DONE)              /* and so is an acknowledged end */
}

inline stop(m) {
    step[m] = IDLE; seen_stamp[m] = 0; known_held[m] = 0; seen[m] = NONE; write_age[m] = 0
}

inline note(m) {                                       /* its own write of the record */
    stamp++; seen_stamp[m] = stamp; held = HELD; known_held[m] = HELD
}

/* Where this mover goes on: by the phase of the document, and as long as it is in charge. */
inline go_on(m) {
    if
    :: MINE(m) -> note(m); step[m] = BEGIN; seen[m] = NONE
    :: else -> stop(m)
    fi
}

#ifdef MUTANT_COPY_BEFORE_ALL_KNOW
#define MAY_COPY true
#else
#define MAY_COPY (since >= SETTLED)
#endif
#ifdef MUTANT_REMOVE_BEFORE_ALL_KNOW
#define MAY_REMOVE true
#else
#define MAY_REMOVE (since >= SETTLED)
#endif
#ifdef MUTANT_WRITE_WITHOUT_CLAIM
#define HAS_CLAIM(m) true
#else
#define HAS_CLAIM(m) (known_held[m] > 0)
#endif
#ifdef MUTANT_SWITCH_AFTER_A_THAW
#define UNCHANGED(m) true
#else
#define UNCHANGED(m) (stamp == seen_stamp[m])
#endif

proctype Mover(byte m) {
    do
    /* Mover._claim: begin, or take over */
    :: d_step { step[m] == IDLE && !paused[m] && phase == STILL && moves > 0 ->
           moves--; phase = COPYING; by = m; since = 0; note(m); step[m] = BEGIN }
    :: d_step { step[m] == IDLE && !paused[m] && phase != STILL && by != m && held == 0 ->
           by = m; since = 0; note(m); step[m] = BEGIN }
    /* copying: what has ended; then the freeze */
    :: d_step { step[m] == BEGIN && !paused[m] && !MINE(m) -> stop(m) }
    :: d_step { step[m] == BEGIN && !paused[m] && MINE(m) && phase == COPYING ->
#ifdef MUTANT_NO_FREEZE
           seen[m] = copy[SOURCE]; target_of[m] = TARGET; step[m] = CHECKING
#else
           if :: UNCHANGED(m) -> phase = FROZEN; since = 0; note(m) :: else -> go_on(m) fi
#endif
       }
    /* frozen: the rest */
    :: d_step { step[m] == BEGIN && !paused[m] && MINE(m) && phase == FROZEN && MAY_COPY ->
           seen[m] = copy[SOURCE]; target_of[m] = TARGET; step[m] = CHECKING }
    :: d_step { step[m] == CHECKING && !paused[m] ->                      /* _check_claim */
           if
           :: HAS_CLAIM(m) -> step[m] = WRITING; write_age[m] = 0
           :: else -> go_on(m)
           fi }
    :: d_step { step[m] == WRITING ->                                     /* carried out, even if it is paused */
           copy[target_of[m]] = seen[m]; check_truth(); write_age[m] = 0; step[m] = ENTERING }
    /* _enter("removing"): the switch; or the end of the move */
    :: d_step { step[m] == ENTERING && !paused[m] ->
           if
           :: MINE(m) && UNCHANGED(m) && phase != REMOVING ->
               where = OTHER; phase = REMOVING; since = 0; note(m); step[m] = BEGIN; seen[m] = NONE; check_truth()
           :: MINE(m) && UNCHANGED(m) && phase == REMOVING -> phase = STILL; by = NOBODY; held = 0; stamp++; stop(m)
           :: else -> go_on(m)
           fi }
    /* removing: the source */
    :: d_step { step[m] == BEGIN && !paused[m] && MINE(m) && phase == REMOVING && MAY_REMOVE ->
           seen[m] = NONE; target_of[m] = SOURCE; step[m] = CHECKING }
    /* a pause, and its end */
    :: d_step { step[m] != IDLE && !paused[m] && pauses > 0 -> pauses--; paused[m] = true }
    :: d_step { paused[m] -> paused[m] = false }
    od
}

#ifdef MUTANT_ACT_ON_OLD_VIEWS
#define MAY_ACT(p) true
#else
#define MAY_ACT(p) (view_age[p] < FRESH)
#endif

proctype Process(byte p) {
    do
    /* PlacementView.current, and _thaw */
    :: d_step { call[p] == IDLE && (view_age[p] > 0 || view_where[p] != where || view_frozen[p] != (phase == FROZEN)) ->
           if :: phase == FROZEN && held == 0 -> phase = COPYING; stamp++ :: else fi;
           view_where[p] = where; view_frozen[p] = (phase == FROZEN); view_age[p] = 0 }
    :: d_step { call[p] == IDLE && MAY_ACT(p) && !view_frozen[p] && !inserted && p == 0 ->
           call[p] = INSERT; call_shard[p] = view_where[p]; call_age[p] = 0 }
    :: d_step { call[p] == IDLE && MAY_ACT(p) && !view_frozen[p] && inserted && !ended && p == 1 ->
           call[p] = SETTLE; call_shard[p] = view_where[p]; call_age[p] = 0 }
    :: d_step { call[p] == IDLE && MAY_ACT(p) && inserted && p == 0 ->    /* get or extend, also while frozen */
           call[p] = LOOK; call_shard[p] = view_where[p]; call_age[p] = 0 }
    :: d_step { call[p] == LOOK ->
           assert(copy[call_shard[p]] != NONE);        /* who reads an acknowledged job finds it */
           call[p] = IDLE; call_shard[p] = 0; call_age[p] = 0 }
    :: d_step { call[p] == INSERT ->                   /* carried out and acknowledged */
           if :: copy[call_shard[p]] == NONE -> copy[call_shard[p]] = READY :: else fi;
           inserted = true; call[p] = IDLE; call_shard[p] = 0; call_age[p] = 0; check_truth() }
    :: d_step { call[p] == SETTLE ->
           if
           :: copy[call_shard[p]] == READY ->
               copy[call_shard[p]] = DONE; ended = true; runs++;
               assert(runs == 1)                       /* the job ends once */
           :: else
           fi;
           call[p] = IDLE; call_shard[p] = 0; call_age[p] = 0; check_truth() }
    od
}

#define IN_TIME(p) (call[p] == IDLE || call_age[p] < CALLS)
#define WRITES_IN_TIME(m) (step[m] != WRITING || write_age[m] < CALLS)
#define WORKS(m) (MINE(m) && step[m] != IDLE && !paused[m])

inline tick_process(p) {
    if :: view_age[p] < FRESH -> view_age[p]++ :: else fi;
    if :: call[p] != IDLE -> call_age[p]++ :: else fi
}

inline tick_mover(m) {
    if :: step[m] == WRITING -> write_age[m]++ :: else fi;
    if
    :: WORKS(m) && UNCHANGED(m) -> known_held[m] = HELD               /* _renew */
    :: !(WORKS(m) && UNCHANGED(m)) && known_held[m] > 0 -> known_held[m]--
    :: else
    fi
}

proctype Clock() {
    do
    :: d_step { IN_TIME(0) && IN_TIME(1) && WRITES_IN_TIME(0) && WRITES_IN_TIME(1) ->
           tick_process(0); tick_process(1); tick_mover(0); tick_mover(1);
           if :: since < SETTLED -> since++ :: else fi;
           if
           :: (WORKS(0) && UNCHANGED(0)) || (WORKS(1) && UNCHANGED(1)) -> held = HELD
           :: else -> if :: held > 0 -> held-- :: else fi
           fi }
    od
}

init {
    atomic { run Mover(0); run Mover(1); run Process(0); run Process(1); run Clock() }
}

#ifdef LIVENESS
ltl moves_end { <> (moves == 0 && phase == STILL) }
#endif
