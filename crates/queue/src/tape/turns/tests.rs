//! Turns of storages that never answer, refuse or answer, by a made-up clock.

use super::*;

const SECOND_MS: i64 = 1000;

fn call(storage: &str, user: &str) -> Call {
    Call {
        whose: StorageUser {
            storage: storage.to_owned(),
            user: user.to_owned(),
        },
        purpose: Purpose::Files,
    }
}

fn turns() -> Turns {
    Turns::new(Pace::default())
}

fn end(turns: &mut Turns, call: &Call, outcome: Outcome, now_ms: i64) {
    turns.end(call);
    turns.note(call, outcome, now_ms);
}

/// Lets as many calls of this user to storages of these names begin as may.
fn begin_all(turns: &mut Turns, name: &str, user: &str) -> usize {
    let calls = (0..500).map(|number| call(&format!("{name}{number}"), user));
    calls.filter(|call| turns.begin(call, 0)).count()
}

#[test]
fn silent_storages_leave_places_for_those_of_others_and_for_those_that_answer() {
    let mut turns = turns();
    let good = call("good", "jane");
    assert!(turns.begin(&good, 0));
    end(&mut turns, &good, Outcome::Answered, 0);
    for user in 0..3 {
        begin_all(&mut turns, &format!("silent{user}-"), &format!("eve{user}"));
    }
    assert!(
        begin_all(&mut turns, "new", "john") > 0,
        "a new storage of another user"
    );
    assert!(turns.begin(&good, 0), "one that answers");
}

#[test]
fn one_user_takes_no_more_than_is_left_for_others() {
    let mut turns = turns();
    for number in 0..500 {
        let known = call(&format!("known{number}"), "eve");
        assert!(turns.begin(&known, 0));
        end(&mut turns, &known, Outcome::Answered, 0);
    }
    assert_eq!(begin_all(&mut turns, "known", "eve"), TAPE_CALLS_MAX / 2);
    let mut questions = |user| {
        let question = Call {
            purpose: Purpose::States,
            ..call("known400", user)
        };
        (0..500).filter(|_| turns.begin(&question, 0)).count()
    };
    assert_eq!(questions("jane"), STORAGE_TAPE_CALLS_MAX / 2);
    assert!(questions("john") > 0);
    assert!(
        !turns.begin(&call("known0", "eve"), 0),
        "files that wait are asked for once"
    );
}

#[test]
fn a_silent_storage_is_asked_ever_more_rarely_until_it_answers() {
    let (mut turns, call, mut now_ms) = (turns(), call("a", "jane"), 0);
    assert!(turns.begin(&call, now_ms));
    let mut pause_s_after = |outcome| {
        let ended_ms = now_ms;
        end(&mut turns, &call, outcome, now_ms);
        while !turns.begin(&call, now_ms) {
            now_ms += SECOND_MS;
        }
        (now_ms - ended_ms) / SECOND_MS
    };
    let pauses = [(); 7].map(|()| pause_s_after(Outcome::Silent));
    assert_eq!(pauses, [30, 60, 120, 240, 480, 480, 480]);
    assert_eq!(pause_s_after(Outcome::Answered), 0);
    assert_eq!(pause_s_after(Outcome::Silent), 30);
}

#[test]
fn a_clock_that_is_set_back_ends_a_pause() {
    let (mut turns, call, now_ms) = (turns(), call("a", "jane"), 7_200 * SECOND_MS);
    assert!(turns.begin(&call, now_ms));
    end(&mut turns, &call, Outcome::Silent, now_ms);
    assert!(!turns.begin(&call, now_ms));
    assert!(turns.begin(&call, now_ms / 2));
}

#[test]
fn what_concerns_one_user_keeps_no_other_waiting() {
    let mut turns = turns();
    let (zed, jane) = (call("a", "zed"), call("a", "jane"));
    for outcome in [Outcome::Refused, Outcome::NotAsked] {
        assert!(turns.begin(&jane, 0));
        end(&mut turns, &jane, Outcome::Answered, 0);
        turns.calls.clear();
        assert!(turns.begin(&zed, 0));
        end(&mut turns, &zed, outcome, 1);
        assert!(!turns.begin(&zed, 2), "{outcome:?}");
        assert!(turns.begin(&jane, 2), "{outcome:?}");
        end(&mut turns, &jane, Outcome::Answered, 2);
        turns.calls.clear();
    }
    // It answers others while it is silent for one.
    assert!(turns.begin(&zed, 3) && turns.begin(&jane, 4));
    end(&mut turns, &jane, Outcome::Answered, 5);
    end(&mut turns, &zed, Outcome::Silent, 6);
    assert!(!turns.begin(&zed, 7) && turns.begin(&jane, 7));
    // A refusal to bring files online delays no question about those that were asked for.
    let question = Call {
        purpose: Purpose::States,
        ..zed
    };
    assert!(turns.begin(&question, 8));
}

#[test]
fn of_many_silent_storages_none_is_passed_over() {
    const STEP_MS: i64 = 30 * SECOND_MS;
    let mut turns = turns();
    let calls: Vec<Call> = (0..100).map(|number| call(&format!("{number:02}"), "eve")).collect();
    let mut asked: HashMap<Call, usize> = HashMap::new();
    let mut ends: Vec<(i64, Call)> = Vec::new();
    for now_ms in (0..240).map(|step| step * STEP_MS) {
        for (_, call) in ends.extract_if(.., |(end_ms, _)| *end_ms <= now_ms) {
            end(&mut turns, &call, Outcome::Silent, now_ms);
        }
        let mut wanted: Vec<(Call, ())> = calls.iter().map(|call| (call.clone(), ())).collect();
        turns.sort(&mut wanted);
        for (call, ()) in wanted {
            if turns.begin(&call, now_ms) {
                *asked.entry(call.clone()).or_default() += 1;
                ends.push((now_ms + 2 * STEP_MS, call));
            }
        }
    }
    let (least, most) = (asked.values().min().unwrap(), asked.values().max().unwrap());
    assert_eq!(asked.len(), calls.len());
    assert!(*most <= least + 2, "{least} to {most} calls");
}
