//! What is done to the server while people work with it: kills at random moments, a full disk, a clock that jumps.

use std::time::{Duration, Instant};

use serde_json::Value;
use viat_simulator::stories::dice::Dice;

use super::ChaosArgs;
use super::lab::Lab;
use super::people::{Desk, People, Stop};
use super::server::{Kill, Server};
use crate::output;
use crate::shell::Done;

/// Between two looks at the runs.
const PAUSE: Duration = Duration::from_millis(40);
/// How long nothing at all may change, once nobody disturbs the server any more. It bounds hanging, not speed.
const STALL: Duration = Duration::from_secs(120);
/// A step of the clock, in seconds.
const HOUR: i64 = 3_600;
/// How often a server may fail to start in a row while the disk is full now and then.
const STARTS: usize = 200;

/// What was done.
#[derive(Debug, Default)]
pub struct Storm {
    /// Servers that were killed.
    pub kills: usize,
    /// Servers that did not come up on the full disk.
    pub refused_starts: usize,
    /// How often the disk was full.
    pub full: usize,
    /// How often the clock was stepped.
    pub steps: usize,
    /// What was wrong with the servers: the run concerned, if any, and what.
    pub problems: Vec<(String, String)>,
}

struct Weather<'a> {
    args: &'a ChaosArgs,
    lab: &'a Lab,
    dice: Dice,
    storm: Storm,
    offset_s: i64,
    furthest_s: i64,
}

/// Lets everybody work while the server is killed as often as was asked for, and then until all runs have ended.
///
/// # Errors
/// The test itself failed.
pub fn rage(args: &ChaosArgs, seed: u64, lab: &Lab, people: &mut People) -> Done<Storm> {
    let mut weather = Weather { args, lab, dice: Dice::named(seed, "storm", 0), storm: Storm::default(), offset_s: 0, furthest_s: 0 };
    let trouble = lab.disk.as_ref().map(|disk| disk.trouble(seed));
    while weather.storm.kills < args.kills {
        weather.one_life(people)?;
    }
    weather.storm.full = trouble.map_or(0, super::disk::Trouble::end);
    weather.calm(people)?;
    Ok(weather.storm)
}

impl Weather<'_> {
    /// A server's life, up to its violent end.
    fn one_life(&mut self, people: &mut People) -> Done {
        // Stories begin all along, so that each kill finds something under way.
        let started = (self.args.runs * (self.storm.kills + 1)).div_ceil(self.args.kills + 1);
        let kill = match self.dice.between(0, 9) {
            0 => Kill::AfterStart(Duration::from_millis(self.dice.between(0, 150))),
            1 | 2 => Kill::AfterReady(Duration::from_millis(self.dice.between(0, 60))),
            _ => Kill::AfterReady(Duration::from_millis(self.dice.between(60, 1_500))),
        };
        let mut server = Server::start(self.lab, Some(kill))?;
        if let Some(port) = server.port {
            loop {
                match people.round(self.lab, self.desk(port), started) {
                    Ok(_) => std::thread::sleep(PAUSE),
                    Err(Stop::Gone) => break,
                    Err(Stop::Error(error)) => return Err(error),
                }
                self.step_clock(10)?;
            }
        }
        let status = server.wait()?;
        self.step_clock(30)?;
        match status.code() {
            None => self.storm.kills += 1,
            Some(_) if self.lab.disk.is_some() && self.storm.refused_starts < STARTS => {
                self.storm.refused_starts += 1;
                std::thread::sleep(PAUSE);
            }
            Some(code) => return Err(format!("the server ended by itself, with {code}; {} says why", self.lab.log().display()).into()),
        }
        if self.storm.kills.is_multiple_of(10) && status.code().is_none() {
            output::note(&format!("chaos: {} kills, {started} runs begun", self.storm.kills));
        }
        Ok(())
    }

    /// Nobody disturbs the server any more, and everything comes to its end.
    fn calm(&mut self, people: &mut People) -> Done {
        // What falls due by a clock that was set back since would take an hour.
        if let Some(clock) = &self.lab.clock {
            self.offset_s = self.furthest_s;
            clock.set(self.offset_s)?;
        }
        let mut server = Server::start(self.lab, None)?;
        let port = server.port.ok_or("the last server did not come up")?;
        let (mut before, mut since) = (Vec::new(), Instant::now());
        while !people.are_done() {
            let rows = match people.round(self.lab, self.desk(port), self.args.runs) {
                Ok(rows) => rows,
                Err(Stop::Gone) => return Err("the last server died, and nobody had killed it".into()),
                Err(Stop::Error(error)) => return Err(error),
            };
            if rows != before {
                (before, since) = (rows, Instant::now());
            } else if since.elapsed() > STALL {
                self.stalled(&before);
                break;
            }
            std::thread::sleep(PAUSE);
        }
        if server.is_over()? {
            return Err("the last server ended by itself".into());
        }
        let status = server.end()?;
        if !status.success() {
            self.storm.problems.push((String::new(), format!("the last server was told to end, and ended with {status}")));
        }
        Ok(())
    }

    fn stalled(&mut self, rows: &[Value]) {
        let open = rows.iter().filter(|row| row["ended_at"].is_null());
        let stuck = open
            .map(|row| (row["id"].as_str().unwrap_or_default().to_owned(), format!("nothing has happened for {} s: it is {}", STALL.as_secs(), row["status"])));
        self.storm.problems.extend(stuck);
    }

    fn desk(&self, port: u16) -> Desk {
        Desk { port, offset_s: self.offset_s }
    }

    /// Perhaps steps the clock, an hour either way.
    fn step_clock(&mut self, percent: u64) -> Done {
        let Some(clock) = &self.lab.clock else { return Ok(()) };
        if self.dice.chance(percent) {
            self.offset_s = (self.offset_s + self.dice.pick(&[-HOUR, HOUR])).clamp(-2 * HOUR, 2 * HOUR);
            self.furthest_s = self.furthest_s.max(self.offset_s);
            clock.set(self.offset_s)?;
            self.storm.steps += 1;
        }
        Ok(())
    }
}
