/* One job between insert and end: leases, tokens, expiry, heartbeats, rescue, lost answers, cancellation.
 *
 * The table in docs/proof.md says which statement here is which function in src/rota.
 * Time is relative: `left` and `mine` count the ticks that a lease still lasts, and `age` the ticks since a
 * call read the clock. So nothing grows with time, and there is no horizon after which nothing is checked.
 * Every fault spends one of `faults`: a crash, a call that is not carried out, a lost answer, or a pause, after
 * which an attempt may be as late as it likes. Their number is chosen at the start, up to FAULTS. Without a
 * fault a worker beats at least once a tick, and a lease is answered within a tick.
 */

#ifndef SLOTS
#define SLOTS 2          /* attempts at once, each with a heartbeat and a rescuer */
#endif
#ifndef FAULTS
#define FAULTS 3
#endif
#ifndef LEASE
#define LEASE 2          /* ticks */
#endif
#define LOSS_LIMIT 2     /* 3 in the code */
#define ATTEMPT_LIMIT 2
#define DEAD SLOTS       /* the name of a worker that no longer exists */

#ifdef ONE_WORKER
#define NAME(s) 0        /* all slots belong to one worker */
#else
#define NAME(s) (s)
#endif

mtype = { ABSENT, READY, RUNNING, COMPLETED, FAILED };
mtype = { NOTHING, SUCCESS, FAILURE, HAND_BACK, LOSS, CANCEL };
mtype = { IDLE, GRANTED, BUSY, ENDED, WRITING, WRITTEN, STALE };

/* The stored job. `written` stands for the fields by which two outcomes of one token differ. */
mtype status = ABSENT;
mtype written = NOTHING;
byte last_token;
byte holder = DEAD;
short left;
byte attempt_count;
byte loss_count;

/* Ghosts: what really happened. */
byte grants;             /* leases given out; also stands for the instant of a lease, `taken_at` */
byte ends;               /* moves to COMPLETED or FAILED */
bool acked;              /* the client was told that the job is stored */
bool is_ended;

byte faults;             /* left to happen */

/* A slot: one attempt of a worker, from the lease to its end. */
mtype stage[SLOTS] = IDLE;
mtype outcome[SLOTS] = NOTHING;
byte token[SLOTS];
byte unanswered[SLOTS];  /* the lease whose answer was lost; 0 for none */
short mine[SLOTS];
byte age[SLOTS];
bool doubtful[SLOTS];
bool late[SLOTS];        /* paused, or without its store: time does not wait for this attempt */
byte grant[SLOTS];       /* ghost */
bool applied[SLOTS];     /* ghost */

mtype beat[SLOTS] = IDLE;
byte beat_token[SLOTS];
byte beat_age[SLOTS];
bool beat_kept[SLOTS];
bool beaten[SLOTS];      /* since the last tick */

mtype sweep[SLOTS] = IDLE;
byte sweep_token[SLOTS];
byte sweep_age[SLOTS];
mtype sweep_outcome[SLOTS] = NOTHING;

#define HOLDS(s) (stage[s] != IDLE && stage[s] != GRANTED)
#define LIVE(s) (stage[s] == BUSY && mine[s] > 0)
#define FAULT faults > 0 -> faults--

#ifdef ONE_WORKER
#define HELD_BY(s) (HOLDS(0) || HOLDS(1))
#define UNANSWERED_BY(s) (unanswered[0] == grants || unanswered[1] == grants)
#else
#define HELD_BY(s) HOLDS(s)
#define UNANSWERED_BY(s) (unanswered[s] == grants)
#endif

#if SLOTS == 2
#define ONE_LIVE (!(LIVE(0) && LIVE(1)))
#else
#define ONE_LIVE (LIVE(0) + LIVE(1) + LIVE(2) <= 1)
#endif

/* is_current: the job is as it was when the change was decided. */
#ifdef MUTANT_SETTLE_WITHOUT_TOKEN
#define CURRENT(t) (status == RUNNING)
#else
#ifdef MUTANT_SETTLE_WITHOUT_STATUS
#define CURRENT(t) (last_token == t)
#else
#define CURRENT(t) (status == RUNNING && last_token == t)
#endif
#endif

inline end_job(to, what) {
    status = to; written = what; holder = DEAD; left = 0; ends++; is_ended = true;
    assert(ends == 1)                                  /* a job ends once */
}

inline release_job(what) {
    status = READY; written = what; holder = DEAD; left = 0
}

inline forget_slot(s) {
    stage[s] = IDLE; outcome[s] = NOTHING; token[s] = 0; mine[s] = 0; age[s] = 0;
    doubtful[s] = false; late[s] = false; grant[s] = 0; applied[s] = false
}

inline forget_beat(s) { beat[s] = IDLE; beat_token[s] = 0; beat_age[s] = 0; beat_kept[s] = false }

inline forget_sweep(s) {
    sweep[s] = IDLE; sweep_token[s] = 0; sweep_age[s] = 0; sweep_outcome[s] = NOTHING
}

/* ---- the client ---- */

proctype Client() {
    bool is_stored;
#ifndef CLIENT_FAULTS
    d_step { status = READY; acked = true };           /* not what this run is about */
#endif
    do
    :: d_step { !acked && !is_stored ->                /* JobStore.insert, carried out */
           is_stored = true;
#ifdef MUTANT_INSERT_AGAIN
           status = READY; last_token = 0
#else
           if :: status == ABSENT -> status = READY :: else fi
#endif
       }
    :: d_step { !acked && !is_stored && FAULT;         /* not carried out, and the client knows no better */
#ifdef MUTANT_INSERT_UNANSWERED
           acked = true; assert(status != ABSENT)
#endif
       }
    :: d_step { !acked && is_stored -> acked = true; assert(status != ABSENT) }
    :: d_step { !acked && is_stored && FAULT; is_stored = false }   /* the answer is lost: repeat with the same id */
    :: acked -> break
    od
}

/* ---- producer, executor and completer ---- */

inline receive_lease(s) {
    if
#ifndef MUTANT_START_LAPSED
    :: age[s] >= LEASE -> stage[s] = ENDED; outcome[s] = HAND_BACK; mine[s] = 0     /* LAPSED on the way */
#endif
    :: else -> stage[s] = BUSY; mine[s] = LEASE - age[s]; start_check(s)
    fi;
    age[s] = 0; beaten[s] = false
}

inline start_check(s) {
    /* A handler starts only under a lease that no other worker can have: a settled job never starts again. */
    assert(is_ended && written == CANCEL || status == RUNNING && last_token == token[s] && grant[s] == grants);
    assert(ONE_LIVE)
}

inline settle(s) {
    if
    :: CURRENT(token[s]) ->
        assert(grant[s] == grants);                    /* only the holder of the newest lease settles */
        applied[s] = true; stage[s] = WRITTEN;
        if
        :: outcome[s] == SUCCESS -> end_job(COMPLETED, SUCCESS)
        :: outcome[s] == FAILURE ->
            attempt_count++; loss_count = 0;
            if :: attempt_count >= ATTEMPT_LIMIT -> end_job(FAILED, FAILURE) :: else -> release_job(FAILURE) fi
        :: else -> release_job(HAND_BACK)
        fi
    :: else -> stage[s] = STALE
    fi
}

#define MEANS(what) (what == SUCCESS -> COMPLETED : (what == FAILURE && attempt_count >= ATTEMPT_LIMIT -> FAILED : READY))
#define IS_WRITTEN(s) (last_token == token[s] && written == outcome[s] && status == MEANS(outcome[s]))

inline report_written(s) { assert(applied[s]); forget_slot(s) }

inline report_lost(s) {
    assert(!applied[s] || outcome[s] != SUCCESS);      /* a completion that was written is never reported as lost */
    forget_slot(s)
}

proctype Slot(byte s) {
    do
    :: d_step { stage[s] == IDLE && status == READY ->                    /* JobStore.lease, carried out */
           assert(!is_ended);                          /* a settled job is never leased again */
#ifndef MUTANT_LEASE_KEEPS_TOKEN
           last_token++;
#else
           last_token = 1;
#endif
           status = RUNNING; holder = NAME(s); left = LEASE; grants++;
           token[s] = last_token; grant[s] = grants; stage[s] = GRANTED; age[s] = 0 }
    :: d_step { stage[s] == GRANTED -> receive_lease(s) }
    :: d_step { stage[s] == GRANTED && FAULT; unanswered[s] = grant[s]; forget_slot(s) }
    :: d_step { stage[s] == BUSY -> stage[s] = ENDED; outcome[s] = SUCCESS }
    :: d_step { stage[s] == BUSY -> stage[s] = ENDED; outcome[s] = FAILURE }
    :: d_step { stage[s] == BUSY && mine[s] <= 0 -> stage[s] = ENDED; outcome[s] = HAND_BACK }   /* LAPSED */
    :: d_step { stage[s] == ENDED -> settle(s) }       /* JobStore.apply, carried out */
    :: d_step { stage[s] == ENDED && FAULT; doubtful[s] = true }          /* not carried out, as far as is known */
    :: d_step { stage[s] == WRITTEN -> report_written(s) }
    :: d_step { (stage[s] == WRITTEN || stage[s] == STALE) && FAULT;      /* the answer is lost */
#ifdef MUTANT_LOST_ANSWER_IS_FINAL
           report_lost(s)
#else
           stage[s] = ENDED; doubtful[s] = true
#endif
       }
    :: d_step { stage[s] == STALE && !doubtful[s] -> report_lost(s) }
#ifdef MUTANT_STALE_IS_WRITTEN
    :: d_step { stage[s] == STALE && doubtful[s] -> report_written(s) }
#else
    :: d_step { stage[s] == STALE && doubtful[s] ->                       /* JobStore.get */
           if :: IS_WRITTEN(s) -> report_written(s) :: else -> report_lost(s) fi }
#endif
    od
}

/* ---- the heartbeat ---- */

#ifdef MUTANT_EXTEND_WITHOUT_TOKEN
#define STILL_HELD(t) (status == RUNNING)
#else
#define STILL_HELD(t) (status == RUNNING && last_token == t)
#endif

inline note_kept(s) {
    if
    :: HOLDS(s) && token[s] == beat_token[s] ->
        if :: mine[s] < LEASE - beat_age[s] -> mine[s] = LEASE - beat_age[s] :: else fi;
        assert(ONE_LIVE)
    :: else
    fi
}

inline extend(s) {
    beat_token[s] = token[s]; beat_age[s] = 0;
    if
    :: STILL_HELD(token[s]) -> beat_kept[s] = true; left = LEASE
    :: else -> beat_kept[s] = false
    fi
}

inline take_answer(s) {
    if
    :: beat_kept[s] -> note_kept(s)
    :: !beat_kept[s] && stage[s] == BUSY && token[s] == beat_token[s] -> forget_slot(s)   /* LOST: write nothing */
    :: else
    fi;
    beaten[s] = beaten[s] || token[s] == beat_token[s];
    forget_beat(s)
}

/* Only the answer for an attempt that is late comes in a step of its own: what happens in between matters then. */
proctype Heartbeat(byte s) {
    do
    :: d_step { beat[s] == IDLE && HOLDS(s) && !beaten[s] && !late[s] -> extend(s); take_answer(s) }
    :: d_step { beat[s] == IDLE && HOLDS(s) && !beaten[s] && late[s] -> extend(s); beat[s] = GRANTED }
    :: d_step { beat[s] == GRANTED -> take_answer(s) }
    :: d_step { beat[s] == GRANTED && FAULT;                              /* the answer is lost */
           beaten[s] = beaten[s] || token[s] == beat_token[s]; forget_beat(s) }
    :: d_step { beat[s] == IDLE && HOLDS(s) && !beaten[s] && FAULT;       /* not carried out */
#ifdef MUTANT_KEPT_BEFORE_THE_ANSWER
           beat_token[s] = token[s]; note_kept(s); forget_beat(s);
#endif
           beaten[s] = true }
    od
}

/* ---- the rescuer ---- */

#ifdef MUTANT_RECLAIM_ANY
#define CAN_RECLAIM(s) (status == RUNNING && holder == NAME(s))
#else
#define CAN_RECLAIM(s) (status == RUNNING && holder == NAME(s) && UNANSWERED_BY(s))
#endif

#ifdef MUTANT_LOSS_WITHOUT_EXPIRY
#define EXPIRED(s) true
#else
#define EXPIRED(s) (left + sweep_age[s] < 0)
#endif

inline judge(s) {                                      /* judge_expired */
    sweep_token[s] = last_token; sweep_age[s] = 0; sweep[s] = WRITING;
    if
    :: holder != NAME(s) -> sweep_outcome[s] = LOSS
#ifdef MUTANT_RECLAIM_ANY
    :: holder == NAME(s) -> sweep_outcome[s] = HAND_BACK
#else
    :: holder == NAME(s) && HELD_BY(s) -> forget_sweep(s)
    :: holder == NAME(s) && !HELD_BY(s) && UNANSWERED_BY(s) -> sweep_outcome[s] = HAND_BACK
#ifdef MUTANT_NAMES_ARE_REUSED
    :: holder == NAME(s) && !HELD_BY(s) && !UNANSWERED_BY(s) -> forget_sweep(s)
#else
    :: holder == NAME(s) && !HELD_BY(s) && !UNANSWERED_BY(s) -> sweep_outcome[s] = LOSS
#endif
#endif
    fi
}

inline rescue(s) {
    if
    :: CURRENT(sweep_token[s]) && sweep_outcome[s] == HAND_BACK -> release_job(HAND_BACK)
    :: CURRENT(sweep_token[s]) && sweep_outcome[s] == LOSS && EXPIRED(s) ->
        attempt_count++; loss_count++;
        if
        :: loss_count >= LOSS_LIMIT || attempt_count >= ATTEMPT_LIMIT -> end_job(FAILED, LOSS)
        :: else -> release_job(LOSS)
        fi
    :: else                                            /* stale: another was faster */
    fi
}

#ifdef MUTANT_NO_SWEEP
#define CAN_SWEEP(s) false
#else
#define CAN_SWEEP(s) (status == RUNNING && left < 0 && (holder != NAME(s) || !HELD_BY(s)))
#endif

proctype Rescuer(byte s) {
    do
    :: d_step { sweep[s] == IDLE && (CAN_SWEEP(s) || CAN_RECLAIM(s)) -> judge(s) }   /* find_expired */
    :: d_step { sweep[s] == WRITING -> rescue(s); forget_sweep(s) }       /* JobStore.apply, carried out */
    :: d_step { sweep[s] == WRITING && FAULT; rescue(s) }                 /* no answer: the same changes again */
    od
}

/* ---- an operator who cancels the job, once at most ---- */

#ifdef OPERATOR
proctype Operator() {
    mtype seen;
    byte seen_token;
    if
    :: d_step { status == READY || status == RUNNING -> seen = status; seen_token = last_token }
    :: true -> goto done
    fi;
    d_step {
        if
        :: status == seen && last_token == seen_token ->
            if :: seen == READY -> last_token++ :: else fi;
            end_job(FAILED, CANCEL)
        :: else
        fi;
        seen = 0; seen_token = 0
    }
done: skip
}
#endif

/* ---- time and crashes ---- */

#define ON_TIME(s) (late[s] || (!HOLDS(s) || beaten[s]) && (stage[s] != GRANTED || age[s] == 0))
#if SLOTS == 2
#define ALL_ON_TIME (ON_TIME(0) && ON_TIME(1))
#else
#define ALL_ON_TIME (ON_TIME(0) && ON_TIME(1) && ON_TIME(2))
#endif

inline tick_slot(s) {
    beaten[s] = false;
    if :: HOLDS(s) && mine[s] > 0 -> mine[s]-- :: else fi;
    if :: stage[s] == GRANTED && age[s] < LEASE -> age[s]++ :: else fi;
    if :: beat[s] != IDLE && beat_age[s] < LEASE -> beat_age[s]++ :: else fi;
    if :: sweep[s] == WRITING && sweep_age[s] < 1 -> sweep_age[s]++ :: else fi
}

inline tick() {
    if :: status == RUNNING && left > -2 -> left-- :: else fi;
    tick_slot(0); tick_slot(1);
#if SLOTS > 2
    tick_slot(2)
#endif
}

proctype Clock() {
    do
    :: d_step { ALL_ON_TIME && (status == RUNNING || status == READY) -> tick() }
    :: d_step { !ON_TIME(0) && FAULT; late[0] = true }
    :: d_step { !ON_TIME(1) && FAULT; late[1] = true }
#if SLOTS > 2
    :: d_step { !ON_TIME(2) && FAULT; late[2] = true }
#endif
    od
}

/* The worker forgets everything and starts again, under another name. */
inline crash(s) {
    forget_slot(s); forget_beat(s); forget_sweep(s); unanswered[s] = 0; beaten[s] = false;
#ifndef MUTANT_NAMES_ARE_REUSED
    if :: status == RUNNING && holder == NAME(s) -> holder = DEAD :: else fi;
#endif
}

proctype Crash() {
    do
#ifdef ONE_WORKER
    :: d_step { !is_ended && FAULT; crash(0); crash(1) }
#else
    :: d_step { !is_ended && FAULT; crash(0) }
    :: d_step { !is_ended && FAULT; crash(1) }
#if SLOTS > 2
    :: d_step { !is_ended && FAULT; crash(2) }
#endif
#endif
    od
}

init {
    atomic {
        select (faults : 0 .. FAULTS);
        byte s = 0;
        do
        :: s < SLOTS -> run Slot(s); run Heartbeat(s); run Rescuer(s); s++
        :: else -> break
        od;
        s = 0;
        #ifdef OPERATOR
        run Operator();
#endif
        run Client(); run Clock(); run Crash()
    }
}

#ifdef LIVENESS
ltl acknowledged_jobs_end { [] (acked -> <> is_ended) }                 /* also the job of a worker that died */
#endif
