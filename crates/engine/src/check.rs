//! What the engine takes for granted of a definition, checked once when it is stored or loaded.

use crate::ir::{Definition, Op};
use crate::policies::recover::Recovery;

/// Checks that the regions and nodes that a definition names exist.
///
/// # Errors
/// The first reference that leads nowhere.
pub fn check(definition: &Definition) -> Result<(), String> {
    let region_exists = |region: usize| {
        let known = region < definition.regions.len();
        known.then_some(()).ok_or_else(|| format!("there is no region {region}"))
    };
    region_exists(definition.root)?;
    for region in &definition.regions {
        for node in &region.nodes {
            if let Some(next) = node.next.filter(|next| *next >= region.nodes.len()) {
                return Err(format!("{} is followed by node {next}, which does not exist", node.id));
            }
            for rule in &node.policy.recover {
                if let Recovery::Catch(region) = rule.then {
                    region_exists(region)?;
                }
            }
            inner_regions(&node.op).into_iter().try_for_each(region_exists)?;
        }
    }
    Ok(())
}

/// The regions that an entry runs, its recovery aside.
pub fn inner_regions(op: &Op) -> Vec<usize> {
    match op {
        Op::Choice(choice) => choice.arms.iter().map(|arm| arm.body).chain(choice.otherwise).collect(),
        Op::Parallel(parallel) => parallel.branches.iter().map(|branch| branch.body).collect(),
        Op::Loop(looped) => vec![looped.body],
        Op::Script(_) | Op::Set(_) | Op::Call(_) | Op::Wait(_) | Op::Fail(_) | Op::Return(_) | Op::Review(_) | Op::Compensate(_) => Vec::new(),
    }
}
