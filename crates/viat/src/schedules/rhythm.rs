//! When a schedule fires: a cron expression, read in a time zone.

use croner::Cron;
use croner::errors::CronError;
use croner::parser::{CronParser, Seconds};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use viat_engine::journal::Millis;

/// How to write an expression.
pub const HOW: &str = "minute hour day-of-month month day-of-week, as in 30 2 * * 1-5; with six fields the first is the second";

/// A cron expression in a time zone. Where the clock jumps ahead, what would have fired in the gap fires right after it; where it
/// is set back, an expression with a fixed hour and minute fires once, one with `*` or steps in them goes on firing.
#[derive(Clone, Debug)]
pub struct Rhythm {
    cron: Cron,
    zone: TimeZone,
}

impl Rhythm {
    /// # Errors
    /// What is wrong with the expression or the name of the zone.
    pub fn of(expression: &str, zone: &str) -> Result<Rhythm, String> {
        let parser = CronParser::builder().seconds(Seconds::Optional).build();
        let cron = parser.parse(expression).map_err(|error| format!("{expression:?} is no cron expression: {}", lowered(&error)))?;
        let zone = TimeZone::get(zone).map_err(|_| format!("there is no time zone {zone:?}: it is an IANA name such as Europe/Berlin, or UTC"))?;
        let rhythm = Rhythm { cron, zone };
        match rhythm.after(Timestamp::now().as_millisecond()) {
            Some(_) => Ok(rhythm),
            None => Err(format!("{expression:?} never fires")),
        }
    }

    /// The first fire after `at`; `None` if there is none.
    pub fn after(&self, at: Millis) -> Option<Millis> {
        let from = Timestamp::from_millisecond(at).ok()?.to_zoned(self.zone.clone());
        let next: Zoned = self.cron.find_next_occurrence(&from, false).ok()?;
        Some(next.timestamp().as_millisecond()).filter(|next| *next > at)
    }

    /// The last `count` fires after `after` and up to `until`, earliest first, and whether there were others before them.
    pub fn between(&self, after: Millis, until: Millis, count: usize) -> (Vec<Millis>, bool) {
        let mut found = std::collections::VecDeque::new();
        let mut at = until.saturating_add(1);
        while let Some(fire) = self.before(at).filter(|fire| *fire > after) {
            if found.len() == count {
                return (found.into(), true);
            }
            found.push_front(fire);
            at = fire;
        }
        (found.into(), false)
    }

    /// The last fire before `at`.
    fn before(&self, at: Millis) -> Option<Millis> {
        // A part of a second is not looked at: the next whole one is as good.
        let whole = at.checked_add(999)? / 1_000 * 1_000;
        let from = Timestamp::from_millisecond(whole).ok()?.to_zoned(self.zone.clone());
        let last: Zoned = self.cron.find_previous_occurrence(&from, false).ok()?;
        Some(last.timestamp().as_millisecond()).filter(|last| *last < at)
    }

    /// A time as the zone's clocks show it.
    pub fn local(&self, at: Millis) -> String {
        let time = Timestamp::from_millisecond(at).map(|time| time.to_zoned(self.zone.clone()));
        time.map(|time| time.strftime("%a %Y-%m-%d %H:%M:%S %Z").to_string()).unwrap_or_default()
    }

    /// The expression in words.
    pub fn words(&self) -> String {
        self.cron.describe().trim_end_matches('.').to_owned()
    }
}

fn lowered(error: &CronError) -> String {
    let text = error.to_string();
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fires(expression: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        let rhythm = Rhythm::of(expression, zone).expect("it is one");
        let mut at = after.parse::<Timestamp>().expect("a time").as_millisecond();
        let mut found = Vec::new();
        for _ in 0..count {
            at = rhythm.after(at).expect("it fires");
            found.push(rhythm.local(at));
        }
        found
    }

    #[test]
    fn the_clock_that_jumps_ahead_leaves_nothing_out() {
        let found = fires("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 2);
        assert_eq!(found, ["Sun 2026-03-29 03:00:00 CEST", "Mon 2026-03-30 02:30:00 CEST"]);
    }

    #[test]
    fn the_clock_that_is_set_back_fires_a_fixed_time_once() {
        let found = fires("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2);
        assert_eq!(found, ["Sun 2026-10-25 02:30:00 CEST", "Mon 2026-10-26 02:30:00 CET"]);
        let found = fires("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:15:00Z", 4);
        let wanted = ["Sun 2026-10-25 02:30:00 CEST", "Sun 2026-10-25 02:00:00 CET", "Sun 2026-10-25 02:30:00 CET", "Sun 2026-10-25 03:00:00 CET"];
        assert_eq!(found, wanted);
    }

    #[test]
    fn the_last_ones_of_an_outage() {
        let rhythm = Rhythm::of("* * * * *", "UTC").expect("it is one");
        assert_eq!(rhythm.between(0, 600_000, 3), (vec![480_000, 540_000, 600_000], true));
        assert_eq!(rhythm.between(420_000, 600_000, 3), (vec![480_000, 540_000, 600_000], false));
        assert_eq!(rhythm.between(600_000, 600_001, 3), (vec![], false));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let refused = |expression: &str, zone: &str| Rhythm::of(expression, zone).expect_err("it is wrong");
        assert!(refused("61 * * * *", "UTC").starts_with("\"61 * * * *\" is no cron expression: "));
        assert!(refused("* * * *", "UTC").contains("is no cron expression"));
        assert!(refused("* * * * *", "Berlin").contains("there is no time zone \"Berlin\""));
        assert!(refused("0 0 30 2 *", "UTC").contains("never fires"));
    }
}
