//! Generated documentation of the tables in [`crate::keys`]: a JSON schema for editors, and a reference page.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json, json};

use crate::keys::{
    ACCESS, ECN_FIELDS, FLOW, Fallback, Form, GROUP, HOP, HOST, Key, NIC, SECTIONS, SWEEP, Section, TOP,
};

/// The JSON schema (2020-12) of a scenario file.
pub fn schema() -> Json {
    let mut root = object(&TOP);
    root["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    root["title"] = json!("A scenario of sojourn");
    let nested = |of: &mut Json| {
        let description = of["properties"]["nic"]["description"].take();
        of["properties"]["nic"] = object(&NIC);
        of["properties"]["nic"]["description"] = description;
    };
    // The rate is mandatory only in the rightward direction, and `reverse` has no `reverse` of its own.
    let mut reverse = object(&HOP);
    reverse["required"] = json!([]);
    if let Some(keys) = reverse["properties"].as_object_mut() {
        keys.retain(|name, _| !matches!(name.as_str(), "name" | "reverse" | "up" | "down"));
    }
    nested(&mut reverse);
    let mut hop = object(&HOP);
    nested(&mut hop);
    for name in ["reverse", "up", "down"] {
        let description = hop["properties"][name]["description"].take();
        hop["properties"][name] = reverse.clone();
        hop["properties"][name]["description"] = description;
    }
    // The hop's keys may be given in `down` instead.
    hop["required"] = json!([]);
    hop["anyOf"] = json!([{ "required": ["rate"] }, { "required": ["down"] }]);
    let list = |of: Json| json!({ "type": "array", "items": of, "minItems": 1 });
    let mut sweep = object(&SWEEP);
    sweep["additionalProperties"] = json!(true);
    let sections: [(&str, Json); 6] = [
        ("hop", list(hop)),
        ("access", object(&ACCESS)),
        ("flow", list(object(&FLOW))),
        ("group", list(object(&GROUP))),
        ("host", object(&HOST)),
        ("sweep", sweep),
    ];
    for (name, of) in sections {
        let description = root["properties"][name]["description"].take();
        root["properties"][name] = of;
        root["properties"][name]["description"] = description;
    }
    root
}

fn object(section: &Section) -> Json {
    let mut properties = Map::new();
    for key in section.keys.iter().filter(|key| key.form != Form::Later) {
        // A key may have different meanings for different kinds of flow. The schema has it once, with all its meanings.
        let mut one = of_key(key);
        if let Some(Json::Object(other)) = properties.get(key.name) {
            if let (Some(other), Some(doc)) =
                (other.get("description").and_then(Json::as_str), one["description"].as_str())
            {
                one["description"] = json!(format!("{other}\n{doc}"));
            }
            if let Some(one) = one.as_object_mut() {
                one.remove("default");
            }
        }
        properties.insert(key.name.to_owned(), one);
    }
    let required: Vec<&str> = section
        .keys
        .iter()
        .filter(|key| key.fallback == Fallback::Required && key.kinds.is_empty())
        .map(|key| key.name)
        .collect();
    json!({
        "type": "object", "description": section.doc, "properties": properties, "required": required,
        "additionalProperties": false,
    })
}

fn of_key(key: &Key) -> Json {
    let mut schema = form(key.form);
    let kinds = if key.kinds.is_empty() { String::new() } else { format!("{}: ", key.kinds.join(", ")) };
    let experimental = if key.experimental { "Experimental. " } else { "" };
    schema["description"] = json!(format!("{kinds}{experimental}{}", key.doc));
    match key.fallback {
        Fallback::Text(text) => schema["default"] = json!(text),
        Fallback::Integer(n) => schema["default"] = json!(n),
        Fallback::Flag(flag) => schema["default"] = json!(flag),
        Fallback::Required | Fallback::Words(_) => {}
    }
    schema
}

fn form(form: Form) -> Json {
    let text = || json!({ "type": "string" });
    let time =
        || json!({ "type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*(ns|us|ms|s|min|h|[num]?secs?)$|^0$" });
    let rate = || json!({ "type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*([kKmMgGtT]i?)?([bB][iI][tT]|[bB][pP][sS])$" });
    let pairs = |of: Json| json!({ "type": "array", "minItems": 1, "items": { "type": "array", "prefixItems": [time(), of], "minItems": 2, "maxItems": 2 } });
    let moments = || json!({ "type": "array", "items": text(), "minItems": 2, "maxItems": 2 });
    match form {
        Form::Text => json!({}),
        Form::Name => json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$" }),
        Form::Time => time(),
        Form::Qdisc => json!({ "anyOf": [text(), pairs(text())] }),
        Form::Moment | Form::Impair | Form::Cc | Form::Playout => text(),
        Form::Window => moments(),
        Form::Windows => json!({ "type": "array", "items": moments(), "minItems": 1 }),
        Form::TimeSteps => json!({ "anyOf": [time(), pairs(time())] }),
        Form::TimeDraw => json!({ "anyOf": [text(), { "type": "array", "items": text(), "minItems": 1 }] }),
        Form::Rate => rate(),
        Form::Rates => json!({ "anyOf": [text(), { "type": "array", "items": rate(), "minItems": 1 }] }),
        Form::Capacity => {
            let square = json!({ "type": "array", "items": rate(), "minItems": 2, "maxItems": 2 });
            let square = json!({ "type": "object", "properties": { "square": square, "period": time() }, "required": ["square", "period"], "additionalProperties": false });
            let scale = json!({ "type": "number", "exclusiveMinimum": 0 });
            let trace = json!({ "type": "object", "properties": { "trace": text(), "scale": scale }, "required": ["trace"], "additionalProperties": false });
            json!({ "anyOf": [rate(), pairs(rate()), square, trace] })
        }
        Form::Size => json!({ "type": ["string", "integer"], "exclusiveMinimum": 0 }),
        Form::Dscp => json!({ "type": ["string", "integer"], "minimum": 0, "maximum": 63 }),
        Form::Count => json!({ "type": "integer", "minimum": 1 }),
        Form::CountOrZero => json!({ "type": "integer", "minimum": 0 }),
        Form::CountOf => json!({ "type": ["integer", "string"], "minimum": 0 }),
        Form::Segments => json!({ "type": ["integer", "string"], "minimum": 1 }),
        Form::Number => json!({ "type": "number", "exclusiveMinimum": 0 }),
        Form::Flag => json!({ "type": "boolean" }),
        Form::Ecn => {
            let fields = ECN_FIELDS.iter().map(|word| json!(word));
            let values: Vec<Json> = [json!(true), json!(false)].into_iter().chain(fields).collect();
            json!({ "enum": values })
        }
        Form::HyStart => json!({ "enum": [true, false, "plus"] }),
        Form::Choice(words) => {
            let numbers = words.iter().filter_map(|word| word.parse::<u32>().ok());
            json!({ "enum": words.iter().map(|word| json!(word)).chain(numbers.map(|n| json!(n))).collect::<Vec<_>>() })
        }
        Form::Acks => {
            let window = json!({ "type": "string", "pattern": "^window [1-9][0-9]*$" });
            json!({ "anyOf": [{ "enum": ["delayed", "every", "window"] }, window] })
        }
        Form::Hops => json!({ "type": "array", "items": text(), "minItems": 1 }),
        Form::Command => json!({ "anyOf": [text(), { "type": "array", "items": text(), "minItems": 1 }] }),
        Form::Section | Form::Later => json!({}),
    }
}

/// The reference page of the scenario file, in Markdown.
pub fn reference_markdown() -> String {
    let mut page = String::from(
        "# The scenario file\n\nGenerated from the tables that the parser reads. Times, rates and sizes are texts with a \
         unit, as `tc` has them: `k` is 1024 in sizes and 1000 in rates; `mbps` means megabytes per second.\n",
    );
    for section in SECTIONS {
        let heading = match section.name {
            "" => "The top of the file".to_owned(),
            name @ ("hop" | "flow" | "group") => format!("`[[{name}]]`"),
            "hop.nic" => "`nic` of a hop".to_owned(),
            name => format!("`[{name}]`"),
        };
        // Writing to a String cannot fail.
        let _ = write!(page, "\n## {heading}\n\n{}\n\n{HEAD}", section.doc);
        let (experimental, lasting): (Vec<&Key>, Vec<&Key>) = section.keys.iter().partition(|key| key.experimental);
        lasting.into_iter().for_each(|key| page.push_str(&row(key)));
        if !experimental.is_empty() {
            let _ = write!(page, "\n### Experimental keys of {heading}\n\n{EXPERIMENTAL}\n\n{HEAD}");
            experimental.into_iter().for_each(|key| page.push_str(&row(key)));
        }
    }
    page
}

/// The head of a table of keys.
const HEAD: &str = "| key | for | value | default | meaning |\n|---|---|---|---|---|\n";

/// An introduction to the experimental keys.
const EXPERIMENTAL: &str =
    "For experiments with single mechanisms of TCP and of cards. A later version may change or drop them.";

/// A key's row in the table of its section.
fn row(key: &Key) -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    let kinds = if key.kinds.is_empty() { "all".to_owned() } else { key.kinds.join(", ") };
    let value = match key.form {
        Form::Choice(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Form::Later => "not built yet".to_owned(),
        Form::Text | Form::Section => String::new(),
        form => form.expected().to_owned(),
    };
    let default = match key.fallback {
        Fallback::Required => "required".to_owned(),
        Fallback::Words(words) => words.to_owned(),
        Fallback::Text(text) => format!("`\"{text}\"`"),
        Fallback::Integer(n) => format!("`{n}`"),
        Fallback::Flag(flag) => format!("`{flag}`"),
    };
    format!("| `{}` | {kinds} | {} | {} | {} |\n", key.name, cell(&value), cell(&default), cell(key.doc))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_and_page_know_every_key() {
        let (schema, page) = (schema().to_string(), reference_markdown());
        for section in SECTIONS {
            for key in section.keys {
                assert!(page.contains(&format!("| `{}` |", key.name)), "{}", key.name);
                assert_eq!(schema.contains(&format!("\"{}\":", key.name)), key.form != Form::Later, "{}", key.name);
            }
        }
    }

    #[test]
    fn the_schema_has_the_shape_of_the_file() {
        let schema = schema();
        assert_eq!(schema["required"], json!(["duration", "hop", "flow"]));
        assert_eq!(schema["properties"]["hop"]["items"]["properties"]["overhead"]["default"], json!(14));
        assert_eq!(schema["properties"]["flow"]["items"]["properties"]["kind"]["enum"][0], json!("bulk"));
        let size = schema["properties"]["flow"]["items"]["properties"]["size"]["description"].as_str().unwrap_or("");
        assert!(size.contains("Bytes of each file.") && size.contains("IP length"), "{size}");
        assert_eq!(schema["properties"]["hop"]["items"]["properties"]["reverse"]["required"], json!([]));
    }

    #[test]
    fn the_page_is_a_table_of_five_columns_throughout() {
        for line in reference_markdown().lines().filter(|line| line.starts_with('|')) {
            let bars = line.replace("\\|", "").matches('|').count();
            assert_eq!(bars, 6, "{line}");
        }
    }
}
