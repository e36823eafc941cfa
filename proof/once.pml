/* The once-ledger: callers that want one effect, each of which may crash, be late or fail.
 *
 * The table in docs/proof.md says which statement here is which function in src/rota/policy/once.py.
 * The store is one document with a version and compare-and-set. A document that is removed and created again
 * starts at version 1, as the contract of stores says. Time and faults are as in lease.pml; an action that
 * raises is a fault, too. AT_MOST_ONCE chooses on_crash; without it, it is at_least_once.
 */

#ifndef CALLERS
#define CALLERS 2
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#define LEASE 2          /* ticks that a claim lasts */
#ifndef RENEWALS
#define RENEWALS 2       /* of all claims together: actions do not last for ever */
#endif

mtype = { NONE, HELD, DONE, UNKNOWN, RELEASED };       /* HELD is EffectState.RUNNING */
mtype = { START, CLAIMING, CLAIMED, ACTING, FINISHING, RECORDING, RECORDED, DROPPING, DROPPED, RENEWING, RETURNED, REFUSED };

/* The document. `result` is the claim whose action gave the recorded result. */
mtype state = NONE;
byte version;
byte owner;
byte result;
short left;

/* Ghosts. */
byte effects;            /* how often the effect happened */
byte claims;             /* claims begun: each has its own number, as token_hex gives it */
byte used;               /* faults that have happened */

byte faults;             /* left to happen */
byte renewals = RENEWALS;

/* A caller of Ledger.once. `seen` is the version it has read, 0 for no document. */
mtype at[CALLERS] = START;
byte seen[CALLERS];
byte claim[CALLERS];
short mine[CALLERS];
byte age[CALLERS];
bool late[CALLERS];
byte got[CALLERS];       /* the result that it returned */

/* Its renewal. */
mtype renewal[CALLERS] = START;
byte renewal_seen[CALLERS];
byte renewal_claim[CALLERS];
byte renewal_age[CALLERS];
bool renewed[CALLERS];   /* since the last tick */

#define FAULT faults > 0 -> faults--; used++
#define LIVE(c) (at[c] == ACTING && mine[c] > 0)
#if CALLERS == 2
#define ONE_LIVE (!(LIVE(0) && LIVE(1)))
#define AGREE(r) ((got[0] == 0 || got[0] == r) && (got[1] == 0 || got[1] == r))
#define ALL_BACK ((at[0] == RETURNED || at[0] == REFUSED) && (at[1] == RETURNED || at[1] == REFUSED))
#else
#define ONE_LIVE (LIVE(0) + LIVE(1) + LIVE(2) <= 1)
#define AGREE(r) ((got[0] == 0 || got[0] == r) && (got[1] == 0 || got[1] == r) && (got[2] == 0 || got[2] == r))
#define ALL_BACK ((at[0] == RETURNED || at[0] == REFUSED) && (at[1] == RETURNED || at[1] == REFUSED) && \
                  (at[2] == RETURNED || at[2] == REFUSED))
#endif

/* judge_effect */
#define MUST_WAIT (state == HELD && left > 0)
#ifdef AT_MOST_ONCE
#ifdef MUTANT_EXPIRED_CLAIM_BEGINS
#define GIVES_UP (state == UNKNOWN)
#else
#define GIVES_UP (state == UNKNOWN || state == HELD && left <= 0)
#endif
#else
#ifdef MUTANT_EXPIRED_CLAIM_WAITS
#define GIVES_UP false
#undef MUST_WAIT
#define MUST_WAIT (state == HELD)
#else
#define GIVES_UP false
#endif
#endif
#define MAY_BEGIN (state != DONE && !MUST_WAIT && !GIVES_UP)

#ifdef MUTANT_WRITE_WITHOUT_VERSION
#define CURRENT(v) true
#else
#define CURRENT(v) (version == v)
#endif

inline remove() { state = NONE; version = 0; owner = 0; result = 0; left = 0 }

inline put(what, who) { state = what; owner = who; version++ }

inline call_again(c) {                                 /* the job is attempted again */
    at[c] = START; seen[c] = 0; claim[c] = 0; mine[c] = 0; age[c] = 0; late[c] = false
}

inline give_back(c, r) {
    assert(effects > 0);                               /* a result means that the effect happened */
    got[c] = r;
    assert(AGREE(got[c]));                             /* and all callers have the same one */
    call_again(c); at[c] = RETURNED
}

inline act(c) {
    at[c] = ACTING; mine[c] = LEASE - age[c]; age[c] = 0; seen[c] = 0; renewed[c] = false;
    if :: mine[c] < 0 -> mine[c] = 0 :: else fi;
    assert(ONE_LIVE)                                   /* while a claim lasts, no other caller performs the effect */
}

inline perform() {
    effects++;
#ifdef AT_MOST_ONCE
    assert(effects == 1);
#endif
    assert(effects <= 1 + used)                        /* each repetition has a fault as its cause */
}

inline drop(c) {                                       /* _given_up */
#ifdef AT_MOST_ONCE
#ifdef MUTANT_FAILURE_IS_FORGOTTEN
    remove()
#else
    put(UNKNOWN, claim[c]); left = 0
#endif
#else
#ifdef MUTANT_RELEASE_BY_REMOVAL
    remove()
#else
    put(RELEASED, claim[c]); left = 0
#endif
#endif
}

inline keep(c) {
    renewed[c] = true; mine[c] = LEASE - renewal_age[c];
    assert(ONE_LIVE)
}

inline forget_renewal(c) { renewal[c] = START; renewal_seen[c] = 0; renewal_claim[c] = 0; renewal_age[c] = 0 }

proctype Caller(byte c) {
    do
    /* _claim: read and judge */
    :: d_step { at[c] == START && state == DONE -> give_back(c, result) }
    :: d_step { at[c] == START && GIVES_UP -> call_again(c); at[c] = REFUSED }
    :: d_step { at[c] == START && MAY_BEGIN ->
#ifdef MUTANT_NO_CLAIM
           claims++; claim[c] = claims; act(c)
#else
           at[c] = CLAIMING; seen[c] = version; age[c] = 0
#endif
       }
    /* _claim: write */
    :: d_step { at[c] == CLAIMING ->
           if
           :: CURRENT(seen[c]) ->
               claims++; claim[c] = claims;
#ifdef MUTANT_DONE_BEFORE_THE_ACTION
               put(DONE, claim[c]); result = claim[c];
#else
               put(HELD, claim[c]); result = 0; left = LEASE - age[c];
#endif
               at[c] = CLAIMED
           :: else -> call_again(c)
           fi }
    :: d_step { at[c] == CLAIMED -> act(c) }
    :: d_step { at[c] == CLAIMED && FAULT; call_again(c) }                /* the answer is lost: once() raises */
    /* the action: it returns, or raises before or after its effect */
    :: d_step { at[c] == ACTING -> perform(); at[c] = FINISHING; mine[c] = 0 }
    :: d_step { at[c] == ACTING && FAULT; at[c] = DROPPING; mine[c] = 0 }
    :: d_step { at[c] == ACTING && FAULT; perform(); at[c] = DROPPING; mine[c] = 0 }
    /* _finish, _record, _write_done: read, write, and again after a conflict or without an answer */
#ifdef MUTANT_DONE_OVER_DONE
    :: d_step { at[c] == FINISHING -> seen[c] = version; at[c] = RECORDING }
#else
    :: d_step { at[c] == FINISHING && state == DONE -> give_back(c, result) }
    :: d_step { at[c] == FINISHING && state != DONE -> seen[c] = version; at[c] = RECORDING }
#endif
    :: d_step { at[c] == RECORDING ->
           if
           :: CURRENT(seen[c]) -> put(DONE, claim[c]); result = claim[c]; left = 0; at[c] = RECORDED
           :: else -> at[c] = FINISHING
           fi;
           seen[c] = 0 }
    :: d_step { at[c] == RECORDED -> give_back(c, claim[c]) }
    :: d_step { at[c] == RECORDED && FAULT; at[c] = FINISHING }           /* the answer is lost */
    :: d_step { at[c] == FINISHING && FAULT; call_again(c) }              /* the store stays away: once() raises */
    /* _giving_up, _rewrite: read, write while the claim is its own, and again after a conflict */
#ifdef MUTANT_REWRITE_ANY_CLAIM
    :: d_step { at[c] == DROPPING -> seen[c] = version; at[c] = DROPPED }
#else
    :: d_step { at[c] == DROPPING && owner == claim[c] -> seen[c] = version; at[c] = DROPPED }
    :: d_step { at[c] == DROPPING && owner != claim[c] -> call_again(c) }
#endif
    :: d_step { at[c] == DROPPING && FAULT; call_again(c) }               /* then the claim expires */
    :: d_step { at[c] == DROPPED ->
           if
           :: CURRENT(seen[c]) -> drop(c); call_again(c)
           :: else -> seen[c] = 0; at[c] = DROPPING
           fi }
    od
}

proctype Renewal(byte c) {
    do
    :: d_step { renewal[c] == START && at[c] == ACTING && !renewed[c] && renewals > 0 ->   /* read */
           renewals--;
           if
           :: owner == claim[c] ->
               renewal[c] = RENEWING; renewal_seen[c] = version; renewal_claim[c] = claim[c]; renewal_age[c] = 0
           :: else -> renewed[c] = true
           fi }
    :: d_step { renewal[c] == RENEWING ->                                 /* write, even if the action has ended */
           if
           :: CURRENT(renewal_seen[c]) ->
               put(HELD, renewal_claim[c]); result = 0; left = LEASE - renewal_age[c];
               if
               :: at[c] == ACTING && claim[c] == renewal_claim[c] -> keep(c)
               :: else
               fi
           :: else
           fi;
           forget_renewal(c) }
    :: d_step { renewal[c] == RENEWING && at[c] != ACTING -> forget_renewal(c) }     /* cancelled */
    :: d_step { renewal[c] == RENEWING && FAULT; renewed[c] = true; forget_renewal(c) }
    od
}

#define ON_TIME(c) (late[c] || (at[c] != ACTING || renewed[c]) && (at[c] != CLAIMING && at[c] != CLAIMED || age[c] == 0) \
                    && at[c] != FINISHING && at[c] != RECORDING && at[c] != RECORDED)
#if CALLERS == 2
#define ALL_ON_TIME (ON_TIME(0) && ON_TIME(1))
#else
#define ALL_ON_TIME (ON_TIME(0) && ON_TIME(1) && ON_TIME(2))
#endif

inline tick_caller(c) {
    renewed[c] = false;
    if :: mine[c] > 0 -> mine[c]-- :: else fi;
    if :: (at[c] == CLAIMING || at[c] == CLAIMED) && age[c] < LEASE -> age[c]++ :: else fi;
    if :: renewal[c] == RENEWING && renewal_age[c] < LEASE -> renewal_age[c]++ :: else fi
}

inline tick() {
    if :: state == HELD && left > 0 -> left-- :: else fi;
    tick_caller(0); tick_caller(1);
#if CALLERS > 2
    tick_caller(2)
#endif
}

proctype Clock() {
    do
    :: d_step { ALL_ON_TIME && !ALL_BACK -> tick() }
    :: d_step { !ON_TIME(0) && FAULT; late[0] = true }
    :: d_step { !ON_TIME(1) && FAULT; late[1] = true }
#if CALLERS > 2
    :: d_step { !ON_TIME(2) && FAULT; late[2] = true }
#endif
    od
}

#define MAY_CRASH(c) (at[c] != START && at[c] != RETURNED && at[c] != REFUSED)

proctype Crash() {
    do
    :: d_step { MAY_CRASH(0) && FAULT; call_again(0); forget_renewal(0) }
    :: d_step { MAY_CRASH(1) && FAULT; call_again(1); forget_renewal(1) }
#if CALLERS > 2
    :: d_step { MAY_CRASH(2) && FAULT; call_again(2); forget_renewal(2) }
#endif
    od
}

init {
    atomic {
        select (faults : 0 .. FAULTS);
        byte c = 0;
        do
        :: c < CALLERS -> run Caller(c); run Renewal(c); c++
        :: else -> break
        od;
        c = 0;
        run Clock(); run Crash()
    }
}

#ifdef LIVENESS
ltl all_back { <> ALL_BACK }
#endif
