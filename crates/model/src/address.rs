//! Addresses of keys, such as `duration`, `hop.bottleneck.qdisc`, `hop.bottleneck.reverse.rate`, `flow.bulk0.cc` and
//! `host.hystart`. For a hop, `up` is an alias of `reverse`, and `down` of the hop itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::document::{Kind, Table, Value};
use crate::error::Error;
use crate::keys::{self, Form, Key, Section};

/// Returns the tables of `[[name]]` with their lines; empty if there are none.
pub(crate) fn tables<'a>(root: &'a Table, name: &str) -> Result<Vec<(Option<u32>, &'a Table)>, Error> {
    let Some(value) = root.get(name) else { return Ok(Vec::new()) };
    let wrong = || Error::at(value.line, name, format!("expected [[{name}]] with two brackets, once for each"));
    let Kind::List(items) = &value.kind else { return Err(wrong()) };
    let table = |item: &'a Value| match &item.kind {
        Kind::Table(table) => Ok((item.line, table)),
        _ => Err(wrong()),
    };
    items.iter().map(table).collect()
}

/// Returns the names of the hops: the given ones, or `hop0`, `hop1`, ….
pub(crate) fn hop_names(root: &Table) -> Result<Vec<String>, Error> {
    let names = tables(root, "hop")?.into_iter().enumerate().map(|(i, (line, table))| {
        let name = text(table, "name").map_or_else(|| format!("hop{i}"), str::to_owned);
        (line, name)
    });
    unique("hop", names.collect())
}

/// Returns the names of the flows: the given ones, or the kind followed by the flow's number within its kind.
pub(crate) fn flow_names(root: &Table) -> Result<Vec<String>, Error> {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let mut names = Vec::new();
    for (line, table) in tables(root, "flow")? {
        let kind = text(table, "kind").unwrap_or("flow");
        let counter = kinds.entry(kind).or_default();
        let number = *counter;
        *counter += 1;
        names.push((line, text(table, "name").map_or_else(|| format!("{kind}{number}"), str::to_owned)));
    }
    unique("flow", names)
}

fn text<'a>(table: &'a Table, key: &str) -> Option<&'a str> {
    match table.get(key) {
        Some(Value { kind: Kind::Text(text), .. }) => Some(text),
        _ => None,
    }
}

fn unique(what: &str, names: Vec<(Option<u32>, String)>) -> Result<Vec<String>, Error> {
    let mut seen = BTreeSet::new();
    for (line, name) in &names {
        if !seen.insert(name) {
            let problem = format!("expected a name that no other {what} has");
            return Err(Error::at(*line, format!("{what}.{name}.name"), problem));
        }
    }
    Ok(names.into_iter().map(|(_, name)| name).collect())
}

/// Moves the keys of a hop's `down` table into the hop itself.
pub(crate) fn spread_down(root: &mut Table) -> Result<(), Error> {
    let names = hop_names(root)?;
    let Some(Value { kind: Kind::List(hops), .. }) = root.get_mut("hop") else { return Ok(()) };
    for (hop, name) in hops.iter_mut().zip(names) {
        let Kind::Table(hop) = &mut hop.kind else { continue };
        let Some(down) = hop.remove("down") else { continue };
        let address = format!("hop.{name}.down");
        let Kind::Table(keys) = down.kind else {
            let problem = "expected a table such as { rate = \"20mbit\" }";
            return Err(Error::at(down.line, address, problem).value(down.written()));
        };
        for (key, value) in keys.entries {
            let problem = match key.as_str() {
                "name" | "reverse" | "up" | "down" => "does not belong to one direction of a hop",
                _ if hop.get(&key).is_some() => "given twice: also in the hop itself, which is the same direction",
                _ => {
                    hop.set(&key, value);
                    continue;
                }
            };
            return Err(Error::at(value.line, format!("{address}.{key}"), problem).value(value.written()));
        }
    }
    Ok(())
}

/// Normalises an address: `up` becomes `reverse`, and `down` is removed. Two addresses of the same key are then equal.
pub(crate) fn plain(address: &str) -> String {
    let mut parts: Vec<&str> = address.split('.').collect();
    if let ["hop", _, word @ ("up" | "down"), _, ..] = parts[..] {
        if word == "up" {
            parts[2] = "reverse";
        } else {
            parts.remove(2);
        }
    }
    parts.join(".")
}

/// Sets the key with this address to `value`. `line` is the line in which the address was written.
pub(crate) fn set(root: &mut Table, address: &str, value: Value, line: Option<u32>) -> Result<(), Error> {
    let fault = |problem: String| Error::at(line, address, problem);
    let plain = plain(address);
    let parts: Vec<&str> = plain.split('.').collect();
    let (table, section, key): (&mut Table, &Section, &str) = match parts[..] {
        [key] => (root, &keys::TOP, key),
        ["access", key] => {
            (sub_table(root, "access").ok_or_else(|| fault("expected a section".into()))?, &keys::ACCESS, key)
        }
        ["host", key] => (sub_table(root, "host").ok_or_else(|| fault("expected a section".into()))?, &keys::HOST, key),
        ["hop", name, key] => (named(root, "hop", name, hop_names, &fault)?, &keys::HOP, key),
        ["hop", name, "reverse", key] => {
            let hop = named(root, "hop", name, hop_names, &fault)?;
            (reverse(hop).ok_or_else(|| fault("expected a table".into()))?, &keys::HOP, key)
        }
        ["hop", name, "nic", key] => {
            let hop = named(root, "hop", name, hop_names, &fault)?;
            (sub_table(hop, "nic").ok_or_else(|| fault("expected a table".into()))?, &keys::NIC, key)
        }
        ["hop", name, "reverse", "nic", key] => {
            let hop = named(root, "hop", name, hop_names, &fault)?;
            let reverse = reverse(hop).ok_or_else(|| fault("expected a table".into()))?;
            (sub_table(reverse, "nic").ok_or_else(|| fault("expected a table".into()))?, &keys::NIC, key)
        }
        ["flow", name, key] => (named(root, "flow", name, flow_names, &fault)?, &keys::FLOW, key),
        ["group", name, key] => (named(root, "group", name, group_names, &fault)?, &keys::GROUP, key),
        _ => {
            let expected = "duration, hop.NAME.KEY, hop.NAME.reverse.KEY (or up.KEY), hop.NAME.nic.KEY, flow.NAME.KEY, group.NAME.KEY, access.KEY or host.KEY";
            let error = fault(format!("no key has this address: expected one like {expected}"));
            return Err(match parts[..] {
                ["hop", _, word, _] => error.nearest(word, ["up", "down", "reverse", "nic"]),
                _ => error,
            });
        }
    };
    let settable = |key: &Key| key.form != Form::Section || key.name == "nic";
    if section.find(key, None).is_some_and(|key| !settable(key)) {
        return Err(fault("a whole section cannot be set: expected one of its keys, such as hop.NAME.rate".into()));
    }
    if section.find(key, None).is_none() {
        let names = section.keys.iter().filter(|key| settable(key)).map(|key| key.name);
        return Err(fault("unknown key".into()).nearest(key, names));
    }
    table.set(key, value);
    Ok(())
}

fn group_names(root: &Table) -> Result<Vec<String>, Error> {
    Ok(tables(root, "group")?.into_iter().map(|(_, table)| text(table, "name").unwrap_or("").to_owned()).collect())
}

/// Returns the table of a hop's other direction, under the name that the file uses for it.
fn reverse(hop: &mut Table) -> Option<&mut Table> {
    let name = if hop.get("up").is_some() { "up" } else { "reverse" };
    sub_table(hop, name)
}

/// Returns the table with this name and creates it if it is missing; `None` if the name holds another type of value.
fn sub_table<'a>(table: &'a mut Table, name: &str) -> Option<&'a mut Table> {
    if table.get(name).is_none() {
        table.set(name, Value { line: None, kind: Kind::Table(Table::default()) });
    }
    match &mut table.get_mut(name)?.kind {
        Kind::Table(table) => Some(table),
        _ => None,
    }
}

/// Lists the known names for a message; of a long list only the first ones.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let more = if names.len() > SHOWN { format!(" and {} more", names.len() - SHOWN) } else { String::new() };
    match names {
        [] => "the scenario has none".to_owned(),
        _ => format!("expected one of {}{more}", names[..names.len().min(SHOWN)].join(", ")),
    }
}

fn named<'a>(
    root: &'a mut Table,
    what: &str,
    name: &str,
    names: fn(&Table) -> Result<Vec<String>, Error>,
    fault: &impl Fn(String) -> Error,
) -> Result<&'a mut Table, Error> {
    let known = names(root)?;
    let unknown = || {
        let problem = format!("no {what} is called {name:?}: {}", listed(&known));
        fault(problem).nearest(name, known.iter().map(String::as_str))
    };
    let at = known.iter().position(|known| known == name).ok_or_else(unknown)?;
    match root.get_mut(what) {
        Some(Value { kind: Kind::List(items), .. }) => match items.get_mut(at) {
            Some(Value { kind: Kind::Table(table), .. }) => Ok(table),
            _ => Err(unknown()),
        },
        _ => Err(unknown()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::parse;

    fn root() -> Table {
        parse("[[hop]]\nname = \"b\"\n[[hop]]\n[[flow]]\nkind = \"bulk\"\n[[flow]]\nkind = \"web\"\n[[flow]]\nkind = \"bulk\"\n")
            .expect("valid")
    }

    #[test]
    fn hops_and_flows_have_names_without_being_given_one() {
        assert_eq!(hop_names(&root()), Ok(vec!["b".into(), "hop1".into()]));
        assert_eq!(flow_names(&root()), Ok(vec!["bulk0".into(), "web0".into(), "bulk1".into()]));
    }

    #[test]
    fn an_address_reaches_its_key_also_where_there_was_no_table() {
        let mut root = root();
        for address in [
            "duration",
            "hop.b.rate",
            "hop.hop1.reverse.rate",
            "hop.b.nic.ring",
            "flow.bulk1.cc",
            "access.rate",
            "host.hystart",
        ] {
            set(&mut root, address, Value::text("x"), None).expect(address);
        }
        let hops = tables(&root, "hop").expect("hops");
        assert_eq!(hops[0].1.get("rate"), Some(&Value::text("x")));
        assert!(
            matches!(hops[1].1.get("reverse"), Some(Value { kind: Kind::Table(t), .. }) if t.get("rate").is_some())
        );
    }

    #[test]
    fn a_wrong_address_is_answered_with_the_nearest() {
        let nearest = |address| set(&mut root(), address, Value::text("x"), None).expect_err(address).nearest;
        assert_eq!(nearest("hop.bb.rate").as_deref(), Some("b"));
        assert_eq!(nearest("flow.bulk0.ccc").as_deref(), Some("cc"));
        assert_eq!(nearest("durations").as_deref(), Some("duration"));
        assert_eq!(nearest("a.b.c.d.e"), None);
        assert_eq!(nearest("hop.b.up.ratee").as_deref(), Some("rate"));
        assert_eq!(nearest("hop.b.upp.rate").as_deref(), Some("up"));
        assert_eq!(nearest("hop.b.revers.rate").as_deref(), Some("reverse"));
    }

    #[test]
    fn a_name_that_there_is_not_is_answered_with_those_that_there_are() {
        let problem =
            |root: &mut Table, address| set(root, address, Value::text("x"), None).expect_err(address).to_string();
        for (address, expected) in [
            ("flow.nobody.cc", "no flow is called \"nobody\": expected one of bulk0, web0, bulk1"),
            ("hop.home.rate", "no hop is called \"home\": expected one of b, hop1"),
            ("group.g.max_active", "no group is called \"g\": the scenario has none"),
        ] {
            let said = problem(&mut root(), address);
            assert!(said.contains(expected), "{said}");
        }
        let mut crowd = parse(&"[[flow]]\nkind = \"bulk\"\n".repeat(20)).expect("valid");
        let said = problem(&mut crowd, "flow.nobody.cc");
        assert!(said.contains("bulk10, bulk11 and 8 more"), "{said}");
    }

    #[test]
    fn up_and_down_are_as_good_as_reverse_and_the_hop_itself() {
        let both = "[[hop]]\nname = \"b\"\nup = { rate = \"1mbit\" }\ndown = { rate = \"2mbit\", nic = { ring = 9 } }\n[[flow]]\n";
        let mut root = parse(both).expect("valid");
        spread_down(&mut root).expect("sound");
        for address in
            ["hop.b.up.qdisc", "hop.b.reverse.delay", "hop.b.up.nic.ring", "hop.b.down.qdisc", "hop.b.down.nic.bql"]
        {
            set(&mut root, address, Value::text(address), None).expect(address);
        }
        let hop = tables(&root, "hop").expect("hops")[0].1;
        let written = |table: &Table| Value { line: None, kind: Kind::Table(table.clone()) }.written();
        assert_eq!(
            written(hop),
            "{ name = \"b\", up = { rate = \"1mbit\", qdisc = \"hop.b.up.qdisc\", delay = \"hop.b.reverse.delay\", \
             nic = { ring = \"hop.b.up.nic.ring\" } }, rate = \"2mbit\", nic = { ring = 9, bql = \"hop.b.down.nic.bql\" }, \
             qdisc = \"hop.b.down.qdisc\" }"
        );
        assert_eq!([plain("hop.up.up.rate"), plain("hop.down.rate")], ["hop.up.reverse.rate", "hop.down.rate"]);
    }
}
