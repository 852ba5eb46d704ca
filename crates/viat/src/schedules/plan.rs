//! What is to be done about a schedule at a moment: pure, one step at a time.

use viat_engine::journal::Millis;

use super::{CatchUp, Fire, FireOutcome, Overlap, Rhythm, ScheduleAsset, Standing};

/// A fire that is dealt with so much later was missed.
const LATE_MS: Millis = 60_000;
/// The most fires that wait, or that are made up for.
pub const MOST: usize = 100;
/// The most fires that are remembered.
const REMEMBERED: usize = 20;

/// The next step of a schedule.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// A run is to be started for this fire; `standing` is how it stands then, but for the run itself.
    Start {
        /// The fire's time.
        fire: Millis,
        /// How the schedule stands afterwards.
        standing: Standing,
    },
    /// Nothing is to be started, and this is how it stands now.
    Note(Standing),
    /// There is nothing to do before this time; `None`: before somebody changes the schedule.
    Sleep(Option<Millis>),
}

/// A schedule as it is looked at.
pub struct View<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it says.
    pub asset: &'a ScheduleAsset,
    /// When that was saved: fire times before do not count.
    pub since: Millis,
    /// The same, understood.
    pub rhythm: &'a Rhythm,
    /// How it stands.
    pub standing: &'a Standing,
    /// Whether the run that it started last has not ended.
    pub busy: bool,
}

/// By how much a fire is late.
fn jitter(view: &View<'_>, fire: Millis) -> Millis {
    if view.asset.jitter_ms == 0 {
        return 0;
    }
    let hash = blake3::hash(format!("{}\n{fire}", view.name).as_bytes());
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash.as_bytes()[..8]);
    Millis::try_from(u64::from_le_bytes(bytes) % view.asset.jitter_ms).unwrap_or(0)
}

/// What is to be done now.
pub fn next(view: &View<'_>, now: Millis) -> Step {
    if view.asset.paused {
        return Step::Sleep(None);
    }
    if let Some(fire) = view.standing.waiting.first().copied().filter(|_| !view.busy) {
        let mut standing = view.standing.clone();
        standing.waiting.remove(0);
        return Step::Start { fire, standing };
    }
    let base = view.standing.at.max(view.since);
    let Some(fire) = view.rhythm.after(base) else { return Step::Sleep(None) };
    let due = fire + jitter(view, fire);
    if due > now {
        return Step::Sleep(Some(due));
    }
    match now - due >= LATE_MS {
        true => missed(view, base, now),
        false => on_time(view, fire),
    }
}

fn on_time(view: &View<'_>, fire: Millis) -> Step {
    let mut standing = view.standing.clone();
    standing.at = fire;
    match view.asset.overlap {
        Overlap::Skip if view.busy => Step::Note(skipped(standing, fire, "the run before had not ended")),
        Overlap::Queue if standing.waiting.len() >= MOST => Step::Note(skipped(standing, fire, "as many as may wait already")),
        Overlap::Queue if view.busy => {
            standing.waiting.push(fire);
            Step::Note(standing)
        }
        _ => Step::Start { fire, standing },
    }
}

/// Nobody was there for a while: some fires are made up for, one after the other, the others are noted.
fn missed(view: &View<'_>, base: Millis, now: Millis) -> Step {
    let wanted = match view.asset.catch_up {
        CatchUp::None => 0,
        CatchUp::Latest => 1,
        CatchUp::All => MOST,
    };
    let (fires, more) = view.rhythm.between(base, now - LATE_MS, wanted.max(1));
    let Some(last) = fires.last().copied() else { return Step::Sleep(Some(now + 1)) };
    if wanted > 0 && !more {
        return on_time(view, fires[0]);
    }
    // All but those that are made up for are dealt with by this.
    let dealt_with = if wanted == 0 { last } else { fires[0] - 1 };
    let mut standing = view.standing.clone();
    standing.at = dealt_with;
    let detail = "no server was there, up to this time".to_owned();
    remember(&mut standing, Fire { at: dealt_with, outcome: FireOutcome::Missed, run: None, detail: Some(detail) });
    Step::Note(standing)
}

fn skipped(mut standing: Standing, fire: Millis, why: &str) -> Standing {
    remember(&mut standing, Fire { at: fire, outcome: FireOutcome::Skipped, run: None, detail: Some(why.to_owned()) });
    standing
}

/// Keeps what came of a fire.
pub fn remember(standing: &mut Standing, fire: Fire) {
    standing.fires.insert(0, fire);
    standing.fires.truncate(REMEMBERED);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Millis = 60_000;

    fn asset(overlap: Overlap, catch_up: CatchUp) -> ScheduleAsset {
        let inputs = serde_json::json!({});
        let (cron, timezone, workflow) = ("* * * * *".to_owned(), "UTC".to_owned(), "w".to_owned());
        ScheduleAsset { cron, timezone, workflow, inputs, jitter_ms: 0, timeout_ms: None, overlap, catch_up, paused: false }
    }

    /// Takes steps until there is nothing to do at `now`; a run that was started never ends if `busy`.
    fn play(asset: &ScheduleAsset, standing: &mut Standing, now: Millis, busy: bool) -> (Vec<Millis>, Option<Millis>) {
        let rhythm = Rhythm::of(&asset.cron, &asset.timezone).expect("it is one");
        let mut started = Vec::new();
        loop {
            let busy = busy && (standing.run.is_some() || !started.is_empty());
            let view = View { name: "n", asset, since: 0, rhythm: &rhythm, standing, busy };
            match next(&view, now) {
                Step::Sleep(until) => return (started, until),
                Step::Note(now_standing) => *standing = now_standing,
                Step::Start { fire, standing: now_standing } => {
                    *standing = now_standing;
                    started.push(fire);
                }
            }
        }
    }

    #[test]
    fn each_fire_is_dealt_with_once() {
        let asset = asset(Overlap::Skip, CatchUp::Latest);
        let mut standing = Standing::default();
        assert_eq!(play(&asset, &mut standing, MINUTE - 1, false), (vec![], Some(MINUTE)));
        assert_eq!(play(&asset, &mut standing, MINUTE, false), (vec![MINUTE], Some(2 * MINUTE)));
        assert_eq!(play(&asset, &mut standing, MINUTE + 5, false), (vec![], Some(2 * MINUTE)));
    }

    #[test]
    fn overlap() {
        let fires = |overlap| {
            let asset = asset(overlap, CatchUp::Latest);
            let mut standing = Standing { run: Some("r".to_owned()), ..Standing::default() };
            let started = play(&asset, &mut standing, MINUTE, true).0;
            (started, standing.waiting, standing.fires.first().map(|fire| fire.outcome))
        };
        assert_eq!(fires(Overlap::Skip), (vec![], vec![], Some(FireOutcome::Skipped)));
        assert_eq!(fires(Overlap::Queue), (vec![], vec![MINUTE], None));
        assert_eq!(fires(Overlap::Allow), (vec![MINUTE], vec![], None));
        let mut queued = Standing { at: MINUTE, waiting: vec![MINUTE], ..Standing::default() };
        assert_eq!(play(&asset(Overlap::Queue, CatchUp::Latest), &mut queued, MINUTE + 1, false).0, [MINUTE]);
        let mut full = Standing { at: 0, waiting: vec![0; MOST], run: Some("r".to_owned()), ..Standing::default() };
        play(&asset(Overlap::Queue, CatchUp::Latest), &mut full, MINUTE, true);
        assert_eq!((full.waiting.len(), full.fires[0].outcome), (MOST, FireOutcome::Skipped));
    }

    #[test]
    fn after_an_outage() {
        let hour = 60 * MINUTE;
        let fires = |catch_up| {
            let mut standing = Standing::default();
            let started = play(&asset(Overlap::Allow, catch_up), &mut standing, hour, false).0;
            (started, standing.at, standing.fires.len())
        };
        // The one that is due now is on time.
        assert_eq!(fires(CatchUp::None), (vec![hour], hour, 1));
        assert_eq!(fires(CatchUp::Latest), (vec![hour - MINUTE, hour], hour, 1));
        assert_eq!(fires(CatchUp::All), ((1..=60).map(|minute| minute * MINUTE).collect(), hour, 0));
    }

    #[test]
    fn jitter_is_bounded_and_always_the_same() {
        let asset = ScheduleAsset { jitter_ms: 30_000, ..asset(Overlap::Allow, CatchUp::Latest) };
        let mut standing = Standing::default();
        let (started, until) = play(&asset, &mut standing, MINUTE, false);
        assert!(started.is_empty() && until.is_some_and(|until| until > MINUTE && until < MINUTE + 30_000));
        assert_eq!(play(&asset, &mut standing, until.expect("it fires"), false).0, [MINUTE]);
    }

    #[test]
    fn a_paused_one_sleeps() {
        let asset = ScheduleAsset { paused: true, ..asset(Overlap::Allow, CatchUp::All) };
        assert_eq!(play(&asset, &mut Standing::default(), 60 * MINUTE, false), (vec![], None));
    }
}
