//! Asks this host's kernel and its `tc` which disciplines they have, by setting each up on a device of its own.

use std::io;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use sojourn_core::qdisc::tc::Spec;
use sojourn_traffic::os::Spaces;
use sojourn_traffic::tc_tree::{Slot, commands};
use sojourn_traffic::topology::Setting;

/// The device.
const DEVICE: &str = "probe0";

/// A job that asks.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Lines with disciplines.
    disciplines: Vec<String>,
}

/// Returns the lines that cannot be set up, each with the reason, as `lacking`.
///
/// # Errors
/// A line is not sound, or the kernel refuses a device.
pub fn lacking(question: &Question) -> io::Result<Value> {
    let mut spaces = Spaces::new(&[])?;
    spaces.apply(None, &Setting::Veth { devices: [DEVICE.to_owned(), "probe1".to_owned()] })?;
    let mut lacking = Map::new();
    for line in &question.disciplines {
        let spec: Spec = line.parse().map_err(|error| io::Error::other(format!("{line}: {error}")))?;
        let slot = Slot { device: DEVICE, parent: "root", handle: 1, stab: "" };
        let removed = format!("qdisc del dev {DEVICE} root");
        match spaces.tc(None, &commands("add", slot, &spec)) {
            Ok(()) => spaces.tc(None, &[removed])?,
            Err(error) => {
                // The first of several commands may have succeeded.
                let _ = spaces.tc(None, &[removed]);
                lacking.insert(line.clone(), error.to_string().into());
            }
        }
    }
    Ok(json!({ "lacking": lacking }))
}
